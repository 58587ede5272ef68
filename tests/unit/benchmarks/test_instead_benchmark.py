"""The race against what a user would do instead: who counts as one of the others, and what is gone before it."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import instead
from benchmarks.cases import CASES, data_of
from benchmarks.instead import Rival

from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from pathlib import Path


def _rival(name: str, median_ms: float, *, keeps_floor: bool = True) -> Rival:
    level = math.log(median_ms)
    return Rival(name, None, keeps_floor, levels=[level + shift for shift in (-0.001, 0.0, 0.001, 0.0)])


def test_more_threads_are_shown_and_are_none_of_the_others() -> None:
    rivals = [
        _rival(instead.OURS, 1.0),
        _rival(instead.DEFAULTS, 4.0),
        _rival(instead.RECIPES, 3.0),
        _rival("litert_defaults_threads", 2.0),
        _rival("litert_cli_threads", 0.9),
        _rival(instead.OPENVINO, 0.5, keeps_floor=False),
    ]
    found = instead.judged("model", rivals)
    assert list(found["rows"]) == ["hasten", "litert_defaults", "litert_cli", "openvino"]
    assert list(found["with_all_cores"]) == ["litert_defaults_threads", "litert_cli_threads"]
    assert found["best_of_the_others"] == "litert_cli"
    assert found["best_over_hasten"] == pytest.approx(3.0, abs=0.01)
    assert found["reached"]
    assert found["with_all_cores"]["litert_cli_threads"]["hasten_is"] == "slower"


class _Judge:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("reads", [True, False])
def test_the_judge_is_closed_before_the_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    case, judge = CASES["demo"], _Judge()
    plain, _ = open_model(case.model)

    def openvino_keeps_floor(*_: Any) -> tuple[bool, list[str]]:
        assert not judge.is_closed
        if not reads:
            raise instead.CannotReadError("unknown operator")
        return False, ["2 %", "3 %"]

    monkeypatch.setattr(instead, "floor_of", lambda model, data: (None, judge))
    monkeypatch.setattr(instead, "_best_recipe", lambda *_: Rival(instead.RECIPES, plain, what="recipe"))
    monkeypatch.setattr(instead, "_openvino_keeps_floor", openvino_keeps_floor)
    others = instead.others_of(case, data_of(case, tmp_path / "data"), tmp_path)
    assert judge.is_closed
    expected = ["litert_defaults", "litert_cli", "litert_defaults_threads", "litert_cli_threads"]
    assert [rival.name for rival in others] == [*expected, *(["openvino"] if reads else [])]
    threads = [rival.candidate.plan.threads for rival in others if rival.candidate is not None]
    assert threads == [1, 1, os.cpu_count(), os.cpu_count()]
