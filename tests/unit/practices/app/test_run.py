"""A run under watch that is cut short, and watches in one's own program."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from hasten import api
from hasten.core.errors import Interrupted, UsageError
from hasten.practices.app import run as room
from hasten.practices.app.watched.program import Ended

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.practices.app.facts import WatchedFound


def _ended(command: Sequence[str], folder: Path, *, output: int | None = None) -> Ended:
    return Ended(5, 0, 2_000_000)


def test_ctrl_c_during_the_replay_keeps_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> WatchedFound:
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "run_program", _ended)
    monkeypatch.setattr(room, "_replayed", interrupted)
    timelines: list[str] = []
    with pytest.raises(Interrupted) as caught:
        api.app(["program"], timeline=timelines.append)
    assert (caught.value.found.exit_code, caught.value.found.wall_ms) == (5, 2.0)
    assert json.loads(timelines[0])["otherData"]["command"] == ["program"]


def test_without_a_replay_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "run_program", _ended)
    monkeypatch.setattr(room, "_replayed", pytest.fail)
    assert api.app(["program"], replay=False).processes == 0


def test_a_program_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no-such-program"):
        api.app(["no-such-program"])


def test_a_watch_tells_nothing_before_its_end_and_cannot_be_nested() -> None:
    with api.watch() as seen:
        with pytest.raises(UsageError), api.watch():
            pass
        with pytest.raises(UsageError):
            _ = seen.result
    assert seen.findings == ()


@pytest.mark.parametrize("outside", [False, True], ids=["no model ran", "inside hasten app"])
def test_a_watch_that_examined_nothing_is_no_pass(monkeypatch: pytest.MonkeyPatch, *, outside: bool) -> None:
    if outside:
        monkeypatch.setitem(sys.modules, "_hasten_watcher", ModuleType("_hasten_watcher"))
    with api.watch() as seen:
        pass
    with pytest.raises(AssertionError, match=r"^Nothing was examined\. .* allow = \('not examined',\)\.$") as caught:
        seen.check()
    assert ("hasten app watches this program" in str(caught.value)) is outside
    seen.check(allow=("not examined",))
    seen.allow = ("not examined",)
    seen.check()
