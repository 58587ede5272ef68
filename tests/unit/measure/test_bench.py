"""One latency: narrow stops early, noise uses the budget, and there is always an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core import doubts
from hasten.core.doubts import DOUBTS
from hasten.core.failure import Failure
from hasten.core.measurement import Measurement
from hasten.measure.bench import NARROW_ENOUGH, bench

if TYPE_CHECKING:
    from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def run_bench(clock: Clock, behaviour: Behaviour, seconds: float = 6.0, seed: int = 0) -> tuple[Measurement, float]:
    begin = clock.now
    result = bench(SimulatedTarget(clock, {"a": behaviour}, seed), candidate("a"), seconds)
    assert isinstance(result, Measurement)
    return result, clock.now - begin


def test_quiet_model_stops_early(clock: Clock) -> None:
    found, spent = run_bench(clock, Behaviour())
    assert found.samples.latency.relative_half_width <= NARROW_ENOUGH
    assert found.samples.processes == 4
    assert spent < 6.0


def test_noisy_model_uses_its_budget_and_says_so(clock: Clock) -> None:
    found, spent = run_bench(clock, Behaviour(process_noise=0.3), seconds=6.0)
    assert 4.0 < spent < 7.0
    assert found.samples.processes >= 5
    assert doubts.DISTURBED in {doubt.code for doubt in found.doubts}


def test_more_time_gives_more_processes(clock: Clock) -> None:
    short, _ = run_bench(clock, Behaviour(process_noise=0.3), seconds=3.0)
    long, _ = run_bench(clock, Behaviour(process_noise=0.3), seconds=30.0)
    assert long.samples.processes > short.samples.processes


@pytest.mark.parametrize("seconds", [0.001, 0.1])
def test_tiny_budget_still_gives_one_round(clock: Clock, seconds: float) -> None:
    found, _ = run_bench(clock, Behaviour(), seconds=seconds)
    assert len(found.samples.block_medians_ms) == 1
    assert found.samples.count >= 1


@pytest.mark.parametrize("latency_ms", [300.0, 2000.0])
def test_slow_model_keeps_to_the_budget(clock: Clock, latency_ms: float) -> None:
    """A round costs its warm-up and one run at least; none is begun that would not fit."""
    _, spent = run_bench(clock, Behaviour(latency_ms=latency_ms, process_noise=0.2), seconds=10.0)
    assert spent < 12.0


def test_slow_start_keeps_to_the_budget(clock: Clock) -> None:
    _, spent = run_bench(clock, Behaviour(init_ms=(2500.0,), process_noise=0.2), seconds=10.0)
    assert spent < 12.0


def test_truth_lies_in_the_interval(clock: Clock) -> None:
    inside = 0
    for seed in range(60):
        found, _ = run_bench(clock, Behaviour(latency_ms=2.0, process_noise=0.01), seed=seed)
        inside += found.samples.latency.low <= 2.0 <= found.samples.latency.high
    assert inside >= 50


def test_failure_in_the_first_process_is_the_answer(clock: Clock) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(fails={0: "load"})})
    result = bench(target, candidate("a"))
    assert isinstance(result, Failure)
    assert result.kind == "crash"


def test_failure_in_a_later_process_leaves_a_measurement_in_doubt(clock: Clock) -> None:
    found, _ = run_bench(clock, Behaviour(fails={2: "block 1"}))
    assert len(found.samples.block_medians_ms) == 2
    assert "A later process failed: a died" in [DOUBTS.text(doubt) for doubt in found.doubts]


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_progress_rises_to_the_end(clock: Clock, noise: float) -> None:
    shares: list[float] = []
    texts: list[str] = []

    def keep(share: float, text: str) -> None:
        shares.append(share)
        texts.append(text)

    bench(SimulatedTarget(clock, {"a": Behaviour(process_noise=noise)}), candidate("a"), progress=keep)
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert texts[0] == "first process"
    assert "ms" in texts[-1]
