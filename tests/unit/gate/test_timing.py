"""The measuring side of a gate, on simulated models whose true latency is known."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated import Behaviour, Clock, SimulatedTarget, candidate, install_clock

from hasten.gate.facts import GateVerdict, Limits
from hasten.gate.timing import TimedGate

NOISE = 0.012
"""By which processes of one model differ: about what a shared machine shows."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def gate_of(clock: Clock, new: Behaviour, old: Behaviour | None, limits: Limits, seed: int = 0) -> TimedGate:
    target = SimulatedTarget(clock, {"new": new, "old": old or Behaviour()}, seed)
    return TimedGate(target, candidate("new"), candidate("old") if old is not None else None, limits)


def verdicts(clock: Clock, ratio: float, times: int, noise: float = NOISE) -> Counter[GateVerdict]:
    """How often a model that takes `ratio` of the baseline's time passes, fails, or stays undecided."""
    found: Counter[GateVerdict] = Counter()
    for seed in range(times):
        gate = gate_of(clock, Behaviour(ratio, noise), Behaviour(1.0, noise), Limits(), seed)
        assert gate.run(20.0) is None
        (row,) = gate.rows()
        found[row.verdict] += 1
    return found


def limited(clock: Clock, latency_ms: float, times: int, seconds: float = 20.0) -> Counter[GateVerdict]:
    """How often a model of this latency passes a limit of 1 ms."""
    found: Counter[GateVerdict] = Counter()
    for seed in range(times):
        gate = gate_of(clock, Behaviour(latency_ms, NOISE), None, Limits(latency_ms=1.0), seed)
        gate.run(seconds)
        (row,) = gate.rows()
        found[row.verdict] += 1
    return found


def test_a_model_against_itself_raises_no_alarm(clock: Clock) -> None:
    found = verdicts(clock, 1.0, 300)
    assert found[GateVerdict.FAILED] / 300 <= 0.02
    assert found[GateVerdict.PASSED] / 300 >= 0.9


def test_a_regression_of_ten_percent_is_found(clock: Clock) -> None:
    found = verdicts(clock, 1.1, 100)
    assert found[GateVerdict.FAILED] / 100 >= 0.98
    assert found[GateVerdict.PASSED] == 0


def test_noise_of_five_percent_makes_it_unsure_and_not_wrong(clock: Clock) -> None:
    found = verdicts(clock, 1.0, 100, noise=0.05)
    assert found[GateVerdict.FAILED] / 100 <= 0.02


@pytest.mark.parametrize(("latency_ms", "right"), [(0.96, GateVerdict.PASSED), (1.04, GateVerdict.FAILED)])
def test_a_limit_is_decided_rightly(clock: Clock, latency_ms: float, right: GateVerdict) -> None:
    found = limited(clock, latency_ms, 40)
    assert found[right] / 40 >= 0.95
    wrong = {GateVerdict.PASSED, GateVerdict.FAILED} - {right}
    assert all(found[verdict] <= 1 for verdict in wrong)


def test_a_latency_at_its_limit_is_seldom_called_sure(clock: Clock) -> None:
    found = limited(clock, 1.0, 25, seconds=10.0)
    assert found[GateVerdict.UNDECIDED] / 25 >= 0.8


def test_what_is_clear_takes_four_processes_and_what_is_not_all_its_time(clock: Clock) -> None:
    clear = gate_of(clock, Behaviour(0.5, NOISE), None, Limits(latency_ms=1.0))
    clear.run(20.0)
    close = gate_of(clock, Behaviour(1.0, NOISE), None, Limits(latency_ms=1.0))
    close.run(20.0)
    measured = clear.measurement()
    assert measured is not None
    assert measured.samples.processes == 4
    assert clear.seconds < 5 < close.seconds <= 20


def test_all_that_is_limited_has_a_row(clock: Clock) -> None:
    limits = Limits(latency_ms=2.0, p95_ms=2.0, init_ms=5.0, memory_mb=30.0)
    behaviour = Behaviour(1.0, NOISE, init_ms=(9.0, 10.0, 11.0, 10.0), peak_memory_mb=20.0)
    gate = gate_of(clock, behaviour, Behaviour(1.0, NOISE), limits)
    gate.run(20.0)
    rows = {row.name: row for row in gate.rows()}
    assert list(rows) == ["latency", "p95", "init", "memory", "latency against old"]
    assert rows["init"].verdict is GateVerdict.FAILED
    assert rows["init"].measured == 10.0
    assert all(rows[name].verdict is GateVerdict.PASSED for name in rows if name != "init")
    measured, compared = gate.measurement(), gate.comparison()
    assert measured is not None
    assert compared is not None
    assert measured.peak_memory_mb == 20.0
    assert compared.second.samples == measured.samples


def test_memory_that_cannot_be_measured_is_not_waited_for(clock: Clock) -> None:
    gate = gate_of(clock, Behaviour(1.0, NOISE, peak_memory_mb=None), None, Limits(memory_mb=5.0))
    gate.run(20.0)
    (row,) = gate.rows()
    assert row.verdict is GateVerdict.UNDECIDED
    assert gate.seconds < 5


@pytest.mark.parametrize("fails", [{0: "load"}, {2: "block 2"}], ids=["first process", "third process"])
def test_a_model_that_crashes_does_not_pass(clock: Clock, fails: dict[int, str]) -> None:
    gate = gate_of(clock, Behaviour(0.1, fails=fails), None, Limits(latency_ms=1.0))
    failed = gate.run(20.0)
    assert failed is not None
    assert failed.candidate.label == "new"
    assert failed.failure.kind == "crash"


def test_before_the_first_process_nothing_is_known(clock: Clock) -> None:
    gate = gate_of(clock, Behaviour(), Behaviour(), Limits(latency_ms=1.0, p95_ms=1.0, init_ms=1.0, memory_mb=1.0))
    assert [row.verdict for row in gate.rows()] == [GateVerdict.UNDECIDED] * 5
    assert gate.measurement() is None
    assert gate.comparison() is None
