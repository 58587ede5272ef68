"""Two candidates: the verdict follows the truth, within the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core import doubts
from hasten.core.comparison import Verdict
from hasten.measure.compare import ComparisonResult, compare
from hasten.measure.rounds import FailedCandidate

if TYPE_CHECKING:
    from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def run_compare(
    clock: Clock, ratio: float, noise: float = 0.005, seconds: float = 15.0, seed: int = 0, latency_ms: float = 1.0
) -> ComparisonResult:
    behaviours = {"a": Behaviour(latency_ms, noise), "b": Behaviour(latency_ms * ratio, noise)}
    result = compare(SimulatedTarget(clock, behaviours, seed), candidate("a"), candidate("b"), seconds)
    assert isinstance(result, ComparisonResult)
    return result


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(0.8, Verdict.FASTER), (1.0, Verdict.SAME), (1.05, Verdict.SLOWER), (3.0, Verdict.SLOWER)]
)
def test_verdict_follows_the_truth(clock: Clock, ratio: float, verdict: Verdict) -> None:
    found = run_compare(clock, ratio)
    assert found.comparison.verdict is verdict
    assert found.comparison.ratio == pytest.approx(ratio, rel=0.02)


def test_clear_difference_needs_no_more_than_the_fewest_rounds(clock: Clock) -> None:
    found = run_compare(clock, 2.0, seconds=60.0)
    assert found.comparison.rounds == 3
    assert found.seconds < 15


def test_noise_uses_the_time_and_ends_undecided(clock: Clock) -> None:
    found = run_compare(clock, 1.0, noise=0.2)
    assert found.comparison.verdict is Verdict.UNDECIDED
    assert 10 < found.seconds < 17


def test_processes_that_only_a_verdict_lacks_may_take_some_overtime(clock: Clock) -> None:
    alone = run_compare(clock, 2.0, seconds=0.01).seconds
    found = run_compare(clock, 2.0, seconds=alone * 2.1)
    assert (found.comparison.verdict, found.comparison.rounds) == (Verdict.SLOWER, 3)
    assert found.seconds < 1.5 * alone * 2.1
    assert run_compare(clock, 1.0, seconds=alone * 2.1).comparison.rounds == 2


@pytest.mark.parametrize("seconds", [0.01, 1.5])
def test_short_of_time_it_is_undecided_and_never_wrong(clock: Clock, seconds: float) -> None:
    found = run_compare(clock, 0.5, seconds=seconds)
    assert found.comparison.verdict is Verdict.UNDECIDED
    assert found.comparison.rounds >= 1
    assert found.seconds < seconds + 2


def test_slow_models_keep_to_the_time(clock: Clock) -> None:
    found = run_compare(clock, 1.0, noise=0.1, latency_ms=500.0, seconds=20.0)
    assert found.seconds < 22


def test_equal_candidates_are_seldom_told_apart_by_the_whole_procedure(clock: Clock) -> None:
    verdicts = [run_compare(clock, 1.0, noise=0.01, seed=seed).comparison.verdict for seed in range(60)]
    wrong = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert wrong <= 4


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_failure_after_good_rounds_is_a_doubt_beside_what_was_found(clock: Clock, name: str) -> None:
    target = SimulatedTarget(clock, {name: Behaviour(fails={2: "block 2"})})
    result = compare(target, candidate("a"), candidate("b"))
    assert isinstance(result, ComparisonResult)
    assert result.comparison.rounds == 2
    assert any(doubt.code == doubts.PARTIAL for m in (result.first, result.second) for doubt in m.doubts)


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_one_that_failed_is_named(clock: Clock, name: str) -> None:
    target = SimulatedTarget(clock, {name: Behaviour(fails={0: "block 2"})})
    result = compare(target, candidate("a"), candidate("b"))
    assert isinstance(result, FailedCandidate)
    assert result.candidate.label == name
    assert all(runner.closed for runner in target.runners)


def test_both_measurements_come_along(clock: Clock) -> None:
    found = run_compare(clock, 2.0)
    assert found.second.samples.median_ms == pytest.approx(2 * found.first.samples.median_ms, rel=0.02)
    assert found.first.model.path == "a.tflite"


def test_progress_rises_to_the_end(clock: Clock) -> None:
    shares: list[float] = []
    target = SimulatedTarget(clock, {"a": Behaviour(process_noise=0.1), "b": Behaviour(process_noise=0.1)})
    compare(target, candidate("a"), candidate("b"), progress=lambda share, text: shares.append(share))
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
