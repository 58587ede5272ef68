"""The benchmark of trust: what counts as wrong, and that a cut loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.trust import Runs, figures_of, is_reached, wrong_in_tuning, wrong_verdict

if TYPE_CHECKING:
    from pathlib import Path

_TRUTH = {
    "original@cpu, 1 thread": 2.4,
    "original@cpu, 2 threads": 1.2,
    "original@npu, 2 threads": 0.9,
    "float16@npu, 2 threads": 0.9,
}


@pytest.mark.parametrize(
    ("verdict", "ratio", "truth", "close", "is_wrong"),
    [
        ("faster", 0.5, 0.52, 0.03, False),
        ("slower", 1.45, 0.52, 0.03, True),
        ("faster", 0.5, 1.0, 0.03, True),
        ("faster", 0.99, 1.0, 0.03, False),
        ("faster", 0.99, 1.0, 0.0, True),  # equal models
        ("slower", 1.01, 1.0, 0.0, True),
        ("same", 1.0, 1.0, 0.0, False),
        ("same", 1.01, 1.05, 0.03, True),
        ("undecided", 1.5, 0.5, 0.03, False),
        ("slower", 1.04, 1.05, 0.03, False),
    ],
)
def test_wrong_is_what_the_truth_denies(verdict: str, ratio: float, truth: float, close: float, is_wrong: bool) -> None:
    assert bool(wrong_verdict(verdict, ratio, truth, close)) == is_wrong


def _tuning(chosen: str, threads: str, rows: tuple[dict[str, Any], ...] = ()) -> tuple[dict[str, Any], list[Any]]:
    plans = {name: {"threads": 2 if "2 threads" in name else 1} for name in _TRUTH}
    session = [
        {
            "kind": "trial",
            "label": name,
            "data": {"status": "chosen" if name == chosen else "timed", "plan": plan, "against": None},
        }
        for name, plan in plans.items()
    ]
    verdicts = [
        {"practice": "threads", "verdict": threads, "facts": {}},
        {"practice": "accelerators", "verdict": "to do", "facts": {"rows": list(rows)}},
    ]
    return {"best": {"confirmed": chosen != "original@cpu, 1 thread"}, "verdicts": verdicts}, session


def test_a_tuning_that_calls_one_thread_good_is_wrong() -> None:
    document, session = _tuning("original@cpu, 1 thread", "good")
    assert list(wrong_in_tuning(document, session, _TRUTH)) == [
        "threads are good with original@cpu, 1 thread, and original@cpu, 2 threads is faster"
    ]
    document, session = _tuning("original@cpu, 1 thread", "undecided")
    assert not list(wrong_in_tuning(document, session, _TRUTH))


def test_a_tuning_that_agrees_with_the_truth_is_right() -> None:
    rows = ({"name": "npu", "ratio": 0.75},)
    document, session = _tuning("original@cpu, 2 threads", "improved", rows)
    assert not list(wrong_in_tuning(document, session, _TRUTH))


def test_credit_for_what_a_variant_does_not_bring_is_wrong() -> None:
    document, session = _tuning("original@cpu, 2 threads", "improved")
    credit = {"variant": "float16", "ratio": {"ratio": 0.37}}
    document["verdicts"].append({"practice": "quantize", "verdict": "to do", "facts": credit})
    assert list(wrong_in_tuning(document, session, _TRUTH)) == ["quantize: float16 at 0.37, in truth 1"]


def test_a_slow_accelerator_called_fast_is_wrong() -> None:
    document, session = _tuning("original@cpu, 2 threads", "improved", ({"name": "npu", "ratio": 0.5},))
    truth = {**_TRUTH, "original@npu, 2 threads": 2.0}
    assert list(wrong_in_tuning(document, session, truth)) == ["accelerators, npu: faster at 0.5, in truth 1.667"]


def _row(**more: Any) -> dict[str, Any]:
    return {"verdict": "slower", "ratio": 1.05, "seconds": 6.0, "load": 0.1, "wrong": [], "contradictions": [], **more}


def test_runs_go_on_with_the_same_code_and_begin_anew_with_other_code(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    runs = Runs.opened(path, "abc")
    runs.truth_ms, runs.truth_spread = dict(_TRUTH), 0.01
    runs.add("slower.quiet", _row())
    again = Runs.opened(path, "abc")
    assert again.rows == {"slower.quiet": [_row()]}
    assert again.truth_ms == _TRUTH
    assert not Runs.opened(path, "abd").rows
    again.learn({**_TRUTH, "original@cpu, 1 thread": 4.0}, 0.005)
    assert again.truth_ms["original@cpu, 1 thread"] == 4.0
    assert again.truth_spread == 0.01, "what was judged before was judged by a truth less well known"


def test_a_first_truth_is_as_well_known_as_it_is(tmp_path: Path) -> None:
    runs = Runs.opened(tmp_path / "runs.json", "abc")
    runs.learn(dict(_TRUTH), 0.02)
    assert Runs.opened(tmp_path / "runs.json", "abc").truth_spread == 0.02


def test_the_goal_needs_every_part_without_a_fault(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "runs.json", "abc", dict(_TRUTH), 0.01)
    for part, times in (("tune", 20), ("compare", 20), ("equal", 40), ("slower", 20)):
        for how in ("quiet", "loaded"):
            runs.rows[f"{part}.{how}"] = [_row() for _ in range(times)]
    assert is_reached(figures_of(runs))
    runs.rows["slower.quiet"][:3] = [_row(verdict="undecided")] * 3
    assert not is_reached(figures_of(runs))  # 17 of 20 found
    runs.rows["slower.quiet"][0] = _row()
    assert is_reached(figures_of(runs))
    runs.rows["tune.loaded"][4] = _row(contradictions=["a ratio"])
    assert not is_reached(figures_of(runs))
    runs.rows["tune.loaded"][4] = _row()
    runs.rows["equal.loaded"].pop()
    assert not is_reached(figures_of(runs))
    runs.rows["equal.loaded"].append(_row())
    runs.truth_spread = 0.2
    assert not is_reached(figures_of(runs))
