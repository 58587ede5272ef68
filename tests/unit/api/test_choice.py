"""The functions: limits, and a folder that holds a session of this command or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten import api
from hasten.core.errors import UsageError
from hasten.core.session import SessionWriter, read_session
from tests.unit.practices.choose import examples

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.choose.facts import ChooseFound


def test_limits_as_users_write_them() -> None:
    limits = api.choose_limits({"latency": "20ms", "size": "5MB", "accuracy": "70%"})
    assert (limits.latency_ms, limits.size_bytes) == (20.0, 5e6)
    assert limits.accuracy == pytest.approx(0.7)
    assert api.choose_limits({}).is_empty


@pytest.mark.parametrize("limits", [{"max_drop": "1%"}, {"speed": "1"}, {"latency": "soon"}, {"latency": "-1ms"}])
def test_a_wrong_limit_is_wrong_usage(limits: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        api.choose_limits(limits)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines of an earlier run each run was given."""
    given: list[int] = []

    def run(request: api.ChooseRequest, workplace: object, effort: api.Effort) -> ChooseFound:
        given.append(len(getattr(workplace, "lines", ())))
        effort.keep("environment", "", {})
        return examples.typical()

    monkeypatch.setattr("hasten.practices.choose.run.run", run)
    return given


def test_a_folder_keeps_the_session_and_the_next_call_gets_it(tmp_path: Path, runs: list[int]) -> None:
    out = tmp_path / "new" / "out"
    assert api.choose(output=out) == examples.typical()
    assert [line.kind for line in read_session(out / "session.jsonl").lines] == ["environment", "finding", "choose"]
    api.choose(output=out)
    assert runs == [0, 3]


def test_without_a_folder_nothing_is_kept(tmp_path: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    api.choose()
    assert runs == [0]
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_is_left_alone(tmp_path: Path, runs: list[int]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"mine\.txt"):
        api.choose(output=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert runs == []


def test_the_session_of_another_command_is_refused(tmp_path: Path, runs: list[int]) -> None:
    writer = SessionWriter(tmp_path / "session.jsonl", {"command": "tune"})
    writer.begin()
    writer.close()
    with pytest.raises(UsageError, match="another command"):
        api.choose(output=tmp_path)
    assert runs == []
