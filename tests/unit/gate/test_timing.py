"""The measuring side of a gate, on simulated models whose true latency is known."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from simulated import Behaviour, Clock, SimulatedTarget, candidate, install_clock

from hasten.core.codec import from_data
from hasten.core.measurement import Measurement
from hasten.core.plan import Plan
from hasten.gate.baseline import BaselineRun
from hasten.gate.facts import CheckFound, GateVerdict, Limits
from hasten.gate.request import CheckRequest
from hasten.gate.rules import figure_row, ratio_figure
from hasten.gate.rules import limited as limited_to
from hasten.gate.run import GateSubject, environment_of, run
from hasten.gate.timing import TimedGate
from hasten.gate.words import BOOK
from hasten.measure.effort import Effort
from tests.unit.gate.test_baseline import measurement

PASSED, FAILED, UNDECIDED = GateVerdict.PASSED, GateVerdict.FAILED, GateVerdict.UNDECIDED

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


@dataclass
class Outcomes:
    """Verdicts of many gates of one kind."""

    verdicts: Counter[GateVerdict]
    times: int

    def share(self, verdict: GateVerdict) -> float:
        return self.verdicts[verdict] / self.times


def limited(
    clock: Clock, ratio: float, times: int, limit_ms: float = 1.0, noise: float = NOISE, seconds: float = 20.0
) -> Outcomes:
    """How often a model whose latency is this part of its limit passes."""
    found: Counter[GateVerdict] = Counter()
    for seed in range(times):
        gate = gate_of(clock, Behaviour(ratio * limit_ms, noise), None, Limits(latency_ms=limit_ms), seed)
        assert gate.run(seconds) is None
        (row,) = gate.rows()
        found[row.verdict] += 1
    return Outcomes(found, times)


def test_a_model_against_itself_raises_no_alarm(clock: Clock) -> None:
    found = verdicts(clock, 1.0, 150)
    assert found[GateVerdict.FAILED] / 150 <= 0.02
    assert found[GateVerdict.PASSED] / 150 >= 0.9


def test_a_regression_of_ten_percent_is_found(clock: Clock) -> None:
    found = verdicts(clock, 1.1, 100)
    assert found[GateVerdict.FAILED] / 100 >= 0.98
    assert found[GateVerdict.PASSED] == 0


def test_noise_of_five_percent_makes_it_unsure_and_not_wrong(clock: Clock) -> None:
    found = verdicts(clock, 1.0, 50, noise=0.05)
    assert found[GateVerdict.FAILED] / 50 <= 0.02


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
@pytest.mark.parametrize("limit_ms", [1500.0, 4000.0, 6000.0, 9000.0])
@pytest.mark.parametrize("ratio", [0.9, 0.97, 1.0, 1.03, 1.1, 1.4, 600.0])
def test_wrong_verdicts_on_slow_models_are_rare(clock: Clock, ratio: float, limit_ms: float, noise: float) -> None:
    """There is time for four processes, or for three, two or one."""
    found = limited(clock, ratio, 40, limit_ms, noise)
    if ratio >= 1:
        assert found.share(PASSED) <= 0.05
    if ratio <= 1:
        assert found.share(FAILED) <= 0.05
    if ratio == 600:
        assert found.share(FAILED) == 1
    if ratio == 1.4 and limit_ms < 9000:
        assert found.share(FAILED) >= 0.95, "every run is beyond the limit"


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("processes", [2, 3, 4, 8])
def test_every_run_beyond_the_limit_is_hardly_ever_chance(processes: int, noise: float) -> None:
    """The last look at a model that takes just as long as it may, where processes differ by up to 10 %."""
    source = np.random.default_rng(processes)
    figures = (ratio_figure(source.normal(0, noise, processes).tolist()) for _ in range(1000))
    rows = (figure_row(limited_to("latency", "ms", 1.0), figure, 1) for figure in figures)
    assert sum(row.verdict is FAILED for row in rows) <= 20


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("ratio", [0.9, 0.97, 1.0, 1.03, 1.1])
def test_looking_after_every_process_keeps_wrong_verdicts_rare(ratio: float, noise: float) -> None:
    """The rule itself, on 28 processes that come one by one, as many as 20 s have room for."""
    source, found, times = np.random.default_rng(7), Counter[GateVerdict](), 400
    for _ in range(times):
        levels = math.log(ratio) + source.normal(0, noise, 28)
        rows = (
            figure_row(limited_to("latency", "ratio", 1.0), ratio_figure(levels[:n].tolist())) for n in range(2, 29)
        )
        found[next((row.verdict for row in rows if row.verdict is not UNDECIDED), UNDECIDED)] += 1
    if ratio >= 1:
        assert found[PASSED] / times <= 0.05
    if ratio <= 1:
        assert found[FAILED] / times <= 0.05
    if abs(ratio - 1) > 2 * noise:
        assert found[PASSED if ratio < 1 else FAILED] / times >= 0.95


def test_slow_processes_are_not_left_out_of_a_pass(clock: Clock) -> None:
    """Processes that differ by 5 %: the slowest seem disturbed next to the quickest, and are the truth all the same."""
    assert limited(clock, 1.005, 15, noise=0.05, seconds=15).share(PASSED) <= 0.1


@pytest.mark.parametrize(("ratio", "right"), [(0.96, PASSED), (1.04, FAILED)])
def test_a_limit_is_decided_rightly(clock: Clock, ratio: float, right: GateVerdict) -> None:
    found = limited(clock, ratio, 40)
    assert found.share(right) >= 0.95


def test_a_latency_at_its_limit_is_seldom_called_sure(clock: Clock) -> None:
    assert limited(clock, 1.0, 25, seconds=10.0).share(UNDECIDED) >= 0.8


def test_what_is_clear_takes_four_processes_and_what_is_not_all_its_time(clock: Clock) -> None:
    clear = gate_of(clock, Behaviour(0.5, NOISE), None, Limits(latency_ms=1.0))
    clear.run(20.0)
    close = gate_of(clock, Behaviour(1.0, NOISE), None, Limits(latency_ms=1.0))
    close.run(20.0)
    measured = clear.measurement()
    assert measured is not None
    assert measured.samples.processes == 4
    assert clear.seconds < 5 < close.seconds <= 20


@pytest.mark.parametrize(
    ("latency_ms", "limit_ms", "processes", "verdict"),
    [
        (3_012.0, 5.0, 2, FAILED),
        (3_012.0, 10_000.0, 2, PASSED),
        (300.0, 5.0, 2, FAILED),
        (3_012.0, 2_500.0, 4, FAILED),  # near the limit: as many as an interval needs
        (5_500.0, 4_800.0, 3, FAILED),  # every run is beyond the limit, and there is no time for an interval
        (5_500.0, 5_300.0, 3, UNDECIDED),
        (7_000.0, 5_000.0, 2, FAILED),
        (7_000.0, 6_000.0, 2, UNDECIDED),
        (30_000.0, 5.0, 1, FAILED),  # the first process takes longer than the bound
        (30_000.0, 25_000.0, 1, UNDECIDED),
        (30_000.0, 90_000.0, 1, PASSED),
    ],
)
def test_a_slow_model_is_decided_within_the_bound(
    clock: Clock, latency_ms: float, limit_ms: float, processes: int, verdict: GateVerdict
) -> None:
    """Four processes do not fit into the usual time."""
    gate = gate_of(clock, Behaviour(latency_ms, NOISE), None, Limits(latency_ms=limit_ms))
    gate.run(20.0)
    (row,) = gate.rows()
    assert row.verdict is verdict
    measured = gate.measurement()
    assert measured is not None
    assert measured.samples.processes == processes
    assert gate.bound_seconds == 60
    assert gate.seconds <= gate.bound_seconds or processes == 1
    if processes == 1 and verdict is FAILED:
        assert "no time for a second process" in BOOK.text(row.why)


@pytest.mark.parametrize("session", ["none", "empty", "another CPU", "another plan", "like"])
def test_a_slow_model_gets_the_processes_that_a_session_needs(clock: Clock, session: str) -> None:
    """No number of processes decides against a session without runs like this one."""
    target = SimulatedTarget(clock, {"new": Behaviour(3000.0, NOISE)})
    here = environment_of(target)
    runs = {
        "none": None,
        "empty": [],
        "another CPU": [BaselineRun(measurement(3000.0), {**here, "cpu": "Another"})],
        "another plan": [BaselineRun(measurement(3000.0, plan=Plan(threads=2)), here)],
        "like": [BaselineRun(measurement(3000.0), here)],
    }[session]
    kept: dict[str, Any] = {}
    effort = Effort(20.0, on=target, keep=lambda kind, label, data: kept.update({kind: data}))
    request = CheckRequest(limits=Limits(latency_ms=10_000.0), baseline_session="old.jsonl")
    found = run(request, GateSubject(candidate("new"), runs=runs), effort)
    assert isinstance(found, CheckFound)
    processes = from_data(Measurement, kept["measurement"]).samples.processes
    assert (processes >= 4) is (session == "like")


@pytest.mark.parametrize(("ratio", "right"), [(2.5, FAILED), (1.0, UNDECIDED), (0.4, PASSED)])
def test_a_slow_model_against_its_baseline(clock: Clock, ratio: float, right: GateVerdict) -> None:
    """Two of 4 s each leave time for one pair of processes."""
    gate = gate_of(clock, Behaviour(8000.0 * ratio, NOISE), Behaviour(8000.0, NOISE), Limits())
    gate.run(20.0)
    (row,) = gate.rows()
    assert row.verdict is right


def test_a_slowdown_at_its_limit_fails_seldom(clock: Clock) -> None:
    """A slowdown of 2.5 % where 3 % are allowed is none that counts, however surely it is one."""
    assert verdicts(clock, 1.025, 40)[FAILED] <= 2
    assert verdicts(clock, 1.035, 40)[PASSED] <= 2


def test_few_runs_do_not_pass_a_95th_percentile(clock: Clock) -> None:
    """Runs of 2 s: the one in twenty that is slow may not have come yet."""
    slow = gate_of(clock, Behaviour(2000.0, NOISE), None, Limits(p95_ms=9000.0))
    slow.run(20.0)
    (row,) = slow.rows()
    assert (row.verdict, row.why.code) == (UNDECIDED, "gate.few-runs")
    broken = gate_of(clock, Behaviour(2000.0, NOISE), None, Limits(p95_ms=900.0))
    broken.run(20.0)
    assert broken.rows()[0].verdict is FAILED


@pytest.mark.parametrize(("init_ms", "verdict"), [(900.0, UNDECIDED), (15_000.0, FAILED), (4.0, PASSED)])
def test_one_start_that_may_be_cold_decides_only_what_is_beyond_doubt(
    clock: Clock, init_ms: float, verdict: GateVerdict
) -> None:
    gate = gate_of(clock, Behaviour(30_000.0, init_ms=(init_ms, 10.0)), None, Limits(init_ms=100.0))
    gate.run(20.0)
    assert gate.rows()[0].verdict is verdict


def test_load_makes_no_start_slow(clock: Clock) -> None:
    """A start of 30 ms where 25 ms are allowed, next to programs on all cores."""
    limits, verdicts = Limits(latency_ms=0.8, init_ms=25.0), []
    for busy in (0.0, 2.0):
        behaviour = Behaviour(1.0, NOISE, init_ms=(30.0, 31.0, 30.0), other_cores_busy=busy, cores=2)
        gate = gate_of(clock, behaviour, None, limits)
        gate.run(20.0)
        verdicts.append([row.verdict for row in gate.rows()])
    assert verdicts == [[FAILED, FAILED], [UNDECIDED, UNDECIDED]]


@pytest.mark.parametrize(
    ("threads", "old_threads", "ratio", "under_load"),
    [
        (1, 2, 1.0, "gate.baseline-contended"),
        (1, 2, 1.2, "gate.broken"),  # slower in spite of it
        (2, 1, 1.0, "gate.kept"),
        (2, 1, 1.2, "gate.contended"),
        (2, 2, 1.0, "gate.kept"),  # load slows both alike
    ],
)
def test_load_decides_nothing_for_the_one_that_wants_fewer_cores(
    clock: Clock, threads: int, old_threads: int, ratio: float, under_load: str
) -> None:
    codes = []
    for busy in (0.0, 2.0):
        new, old = (Behaviour(ms, NOISE, other_cores_busy=busy, cores=2) for ms in (ratio, 1.0))
        target = SimulatedTarget(clock, {"new": new, "old": old})
        both = candidate("new", Plan(threads=threads)), candidate("old", Plan(threads=old_threads))
        gate = TimedGate(target, *both, Limits())
        gate.run(20.0)
        codes.append(gate.rows()[0].why.code)
    assert codes == ["gate.kept" if ratio == 1 else "gate.broken", under_load]


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
