"""Limits kept, broken and undecided."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy, PairedAccuracy
from hasten.core.block import Block, Conditions
from hasten.core.codec import to_data
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.core.statistics import Interval
from hasten.data.metrics import MeanAbsoluteError, TopK
from hasten.evaluate.accuracy_limit import samples_to_decide
from hasten.evaluate.floor import floor_of_original
from hasten.evaluate.intervals import wilson_interval
from hasten.gate.facts import CheckFound, GateVerdict, Row
from hasten.gate.rules import (
    FEWEST_PROCESSES,
    Contention,
    Figure,
    accuracy_row,
    contention,
    drop_row,
    exact_row,
    figure_row,
    latency_figure,
    limited,
    memory_row,
    p95_interval,
    ratio_figure,
)
from hasten.gate.words import BOOK, figures

if TYPE_CHECKING:
    from hasten.core.floor import Floor

SO = remark("gate.kept")
PASSED, FAILED, UNDECIDED = GateVerdict.PASSED, GateVerdict.FAILED, GateVerdict.UNDECIDED


def floor_of(metric: Any, value: float) -> Floor:
    """What may be lost against an evaluation that came to this value."""
    original: Any = SimpleNamespace(accuracy=Accuracy(metric.name, value, 0.0, 1.0, 100, "d"), metric=metric)
    original.references = {}
    return floor_of_original(original, 0.01)


def result(*verdicts: GateVerdict, **changes: Any) -> CheckFound:
    rows = tuple(Row("latency", "ms", 1.0, (0.9, 1.1), 2.0, verdict, SO) for verdict in verdicts)
    return CheckFound(Model("m.tflite", 1, "00"), Plan(), rows, **changes)


def judged(interval: Interval, limit: float, processes: int, runs: int | None = None, fewest: int = 2) -> Row:
    figure = Figure(interval, interval.estimate * 0.9, interval.estimate * 1.1, processes, runs)
    return figure_row(limited("latency", "ms", limit), figure, fewest)


@pytest.mark.parametrize(
    ("limit", "verdict"), [(1.2, PASSED), (1.1, PASSED), (1.05, UNDECIDED), (0.9, UNDECIDED), (0.8, FAILED)]
)
def test_a_time_is_judged_by_its_whole_interval(limit: float, verdict: GateVerdict) -> None:
    row = judged(Interval(1.0, 0.9, 1.1), limit, FEWEST_PROCESSES)
    assert row.verdict is verdict
    assert (row.interval, row.confidence) == ((0.9, 1.1), 0.99)


@pytest.mark.parametrize(
    ("limit", "processes", "fewest", "verdict"),
    [
        (0.5, 2, 2, FAILED),
        (0.7, 2, 2, UNDECIDED),
        (0.5, 1, 2, UNDECIDED),  # there is time for a second process
        (0.4, 1, 1, FAILED),
        (0.5, 1, 1, UNDECIDED),
        (0.7, 2, 1, FAILED),  # every run is beyond the limit, and there is no time for a third process
        (0.75, 2, 1, UNDECIDED),
        (0.8, 3, 2, UNDECIDED),
        (0.8, 3, 1, FAILED),
        (0.85, 3, 1, UNDECIDED),
        (1.7, 2, 2, PASSED),
        (1.5, 3, 2, UNDECIDED),
        (1.5, 3, 1, UNDECIDED),
        (2.3, 1, 1, PASSED),
        (2.3, 1, 2, UNDECIDED),
    ],
)
def test_few_processes_decide_only_what_is_clear(
    limit: float, processes: int, fewest: int, verdict: GateVerdict
) -> None:
    row = judged(Interval(1.0, -math.inf, math.inf), limit, processes, fewest=fewest)
    assert row.verdict is verdict
    assert (row.interval, row.confidence) == ((0.9, 1.1), None), "the range of what was seen"
    if verdict is UNDECIDED:
        assert row.why == remark("gate.few-processes", processes=processes, needed=4)


@pytest.mark.parametrize(
    ("limit", "share", "verdict"),
    [
        (0.8, 0.5, UNDECIDED),  # above the limit, but it waited half of the time
        (0.5, 0.5, UNDECIDED),
        (0.25, 0.5, FAILED),  # even its CPU time is too long
        (1.2, 0.5, PASSED),  # kept in spite of the load
        (0.4, 0.5, UNDECIDED),
    ],
)
@pytest.mark.parametrize("fewest", [2, 1])
def test_what_other_programs_took_is_not_the_models_fault(
    limit: float, share: float, verdict: GateVerdict, fewest: int
) -> None:
    figure = Figure(Interval(1.0, 0.9, 1.1), 0.9, 1.1, 5, contention=Contention(2.0, share))
    row = figure_row(limited("latency", "ms", limit), figure, fewest)
    assert row.verdict is verdict
    if limit == 0.8:
        assert row.why == remark("gate.contended", cores=2.0)


@pytest.mark.parametrize(("most", "verdict"), [(0.3, PASSED), (0.4, UNDECIDED)])
def test_a_baseline_under_load_is_allowed_for_by_its_cpu_time(most: float, verdict: GateVerdict) -> None:
    """The baseline ran half of the time: without load, twice the ratio may be seen."""
    figure = Figure(Interval(most, most, most), 0.1, most, 5, baseline_contention=Contention(2.0, 0.5))
    assert figure_row(limited("latency", "ratio", 1.0), figure).verdict is verdict


@pytest.mark.parametrize(
    ("threads", "cores", "busy", "share"), [(1, 2, 0.2, None), (1, 2, 1.2, None), (1, 2, 1.5, 0.5), (2, 2, 0.5, 0.25)]
)
def test_contention_is_other_programs_on_too_few_cores(
    threads: int, cores: int, busy: float, share: float | None
) -> None:
    conditions = Conditions(wall_seconds=1.0, cpu_seconds=0.5, cores=cores, other_cores_busy=busy)
    samples = Samples((Block(0, 0.0, array("q", [1_000_000]), conditions),))
    measured: Any = SimpleNamespace(samples=samples, plan=Plan(threads=threads))
    found = contention(measured)
    assert found == (None if share is None else Contention(busy, share))


def test_what_was_not_measured_is_undecided() -> None:
    row = figure_row(limited("latency", "ms", 1.0), None)
    assert (row.verdict, row.measured) == (UNDECIDED, None)


def test_processes_that_differ_wildly_are_still_all_too_slow() -> None:
    row = judged(Interval(1.0, 0.001, 1000.0), 0.5, 4)
    assert row.verdict is FAILED
    assert (row.interval, row.confidence) == ((0.9, 1.1), None), "what it was decided by"


@given(
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100)).map(sorted),
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)).map(sorted),
    st.integers(1, 9),
    st.sampled_from([None, 10, 100]),
    st.sampled_from([None, Contention(1.5, 0.3)]),
)
def test_a_verdict_agrees_with_the_interval_that_is_shown(
    interval: list[float], ends: list[float], processes: int, runs: int | None, load: Contention | None
) -> None:
    low, estimate, high = interval
    figure = Figure(Interval(estimate, low, high), ends[0], ends[1], processes, runs, load)
    row = figure_row(limited("latency", "ms", 1.0), figure, 1)
    assert row.interval is not None
    assert row.verdict is not PASSED or row.interval[1] <= 1
    assert row.verdict is not FAILED or row.interval[0] > 1


def test_a_percentile_needs_runs() -> None:
    assert judged(Interval(1.0, 0.9, 1.1), 1.2, 4, runs=58).why == remark("gate.few-runs", runs=58, needed=59)
    assert judged(Interval(1.0, 0.9, 1.1), 9.0, 4, runs=58).verdict is UNDECIDED
    assert judged(Interval(1.0, 0.9, 1.1), 1.2, 4, runs=59).verdict is PASSED
    assert judged(Interval(1.0, 0.9, 1.1), 0.8, 4, runs=4).verdict is FAILED


@pytest.mark.parametrize(("measured", "verdict"), [(10, PASSED), (11, FAILED), (9, PASSED)])
def test_a_size_is_exact(measured: int, verdict: GateVerdict) -> None:
    assert exact_row("size", "bytes", measured, 10).verdict is verdict


@pytest.mark.parametrize(
    ("peaks", "fewest", "verdict"),
    [
        ([5.0, 9.0], 2, PASSED),
        ([11.0, 12.0], 2, FAILED),
        ([9.0, 11.0], 2, UNDECIDED),
        ([], 1, UNDECIDED),
        ([5.0], 2, UNDECIDED),
        ([5.0], 1, PASSED),
        ([9.5], 1, UNDECIDED),
        ([10.5], 1, UNDECIDED),
        ([12.0], 1, FAILED),
    ],
)
def test_memory_is_judged_by_every_process(peaks: list[float], fewest: int, verdict: GateVerdict) -> None:
    assert memory_row(peaks, 10.0, fewest).verdict is verdict


@pytest.mark.parametrize(
    ("limit", "verdict"), [(0.93, PASSED), (0.94, PASSED), (0.95, UNDECIDED), (0.97, UNDECIDED), (0.985, FAILED)]
)
def test_accuracy_is_judged_by_its_interval(limit: float, verdict: GateVerdict) -> None:
    found = Accuracy("top-1", 0.96, 0.94, 0.98, 600, "data.npz")
    row = accuracy_row(found, limit, counted=True)
    assert row.verdict is verdict
    assert ("samples would decide" in BOOK.text(row.why)) is (verdict is UNDECIDED)


@pytest.mark.parametrize(("limit", "verdict"), [(2.4, FAILED), (2.9, UNDECIDED), (3.4, UNDECIDED), (3.5, PASSED)])
def test_an_error_is_limited_from_above(limit: float, verdict: GateVerdict) -> None:
    error = Accuracy("mae", 3.0, 2.5, 3.5, 600, "data.npz", higher_is_better=False)
    row = accuracy_row(error, limit, counted=False)
    assert (row.verdict, row.at_least, row.unit) == (verdict, False, "value")
    alone = accuracy_row(replace(error, low=-math.inf, high=math.inf, samples=1), limit, counted=False)
    assert (alone.verdict, alone.why.facts["needed"]) == (UNDECIDED, None)


@pytest.mark.parametrize(
    ("metric", "higher", "counted", "shown"),
    [
        ("mae", False, False, ("0.1", "0.05–0.15", "at most 0.2")),
        ("cosine", True, False, ("0.1", "0.05–0.15", "at least 0.2")),
        ("miou", True, False, ("10.00 %", "5.00–15.00 %", "at least 20.00 %")),
        ("top-1", True, True, ("10.00 %", "5.00–15.00 %", "at least 20.00 %")),
        ("mine:right", True, True, ("10.00 %", "5.00–15.00 %", "at least 20.00 %")),
    ],
)
def test_only_a_share_is_shown_in_percent(
    metric: str, *, higher: bool, counted: bool, shown: tuple[str, str, str]
) -> None:
    found = Accuracy(metric, 0.1, 0.05, 0.15, 600, "data.npz", higher_is_better=higher)
    assert figures(accuracy_row(found, 0.2, counted=counted)) == shown


def test_one_right_sample_is_no_pass() -> None:
    one = wilson_interval(1, 1)
    row = accuracy_row(Accuracy("top-1", 1.0, one.low, one.high, 1, "d"), 0.5, counted=True)
    assert row.verdict is UNDECIDED
    assert row.why.facts["needed"] == 6  # 6 right of 6: by chance in 1.6 % of cases


@given(st.integers(1, 400), st.integers(0, 400), st.floats(0.01, 0.99))
def test_the_samples_that_would_decide_do_decide(samples: int, right: int, limit: float) -> None:
    right = min(right, samples)
    found = wilson_interval(right, samples)
    accuracy = Accuracy("top-1", found.estimate, found.low, found.high, samples, "d")
    needed = samples_to_decide(accuracy, limit, counted=True)
    row = accuracy_row(accuracy, limit, counted=True)
    if row.verdict is UNDECIDED and needed is not None:
        assert needed > samples
        then = wilson_interval(round(right / samples * needed), needed)
        more = Accuracy("top-1", then.estimate, then.low, then.high, needed, "d")
        assert accuracy_row(more, limit, counted=True).verdict is not UNDECIDED


@pytest.mark.parametrize("samples", [1, 10, 50, 200, 1000])
@pytest.mark.parametrize("limit", [0.5, 0.9, 0.97])
def test_wrong_verdicts_on_accuracy_are_rare(samples: int, limit: float) -> None:
    """A model that is truly just at its limit, on ever other samples of this number."""
    source, found = np.random.default_rng(samples), Counter[GateVerdict]()
    for right in source.binomial(samples, limit, 1000).tolist():
        share = wilson_interval(right, samples)
        accuracy = Accuracy("top-1", share.estimate, share.low, share.high, samples, "d")
        found[accuracy_row(accuracy, limit, counted=True).verdict] += 1
    assert found[PASSED] <= 50
    assert found[FAILED] <= 50


@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict"),
    [
        (-0.005, -0.01, 0.01, PASSED),
        (-0.005, -0.02, 0.01, UNDECIDED),
        (0.02, 0.01, 0.03, PASSED),
        (-0.03, -0.05, -0.011, FAILED),
        (-0.03, -0.05, -0.005, UNDECIDED),
        (-0.03, -0.07, 0.01, UNDECIDED),
    ],
)
def test_a_drop_is_judged_by_its_interval(difference: float, low: float, high: float, verdict: GateVerdict) -> None:
    floor = floor_of(TopK(1), 0.9)
    row = drop_row("old", PairedAccuracy("top-1", 100, difference, low, high, lost=3, won=0), floor)
    assert row.verdict is verdict
    assert row.measured == pytest.approx(-difference)
    assert row.interval == pytest.approx((-high, -low))
    assert (row.limit, row.unit) == (0.01, "share")
    assert BOOK.text(row.why).endswith("Allowed: at most 1 percentage point of top-1 lost.")


@pytest.mark.parametrize(
    ("value", "ends", "verdict"),
    [
        (0.1, (0.004, 0.006), FAILED),
        (50.0, (0.3, 0.45), PASSED),
        (50.0, (0.3, 0.6), UNDECIDED),
        (0.0, (0, 1), UNDECIDED),
    ],
)
def test_a_metric_of_errors_drops_by_rising_by_a_part_of_the_olds(
    value: float, ends: tuple[float, float], verdict: GateVerdict
) -> None:
    paired = PairedAccuracy("mae", 100, sum(ends) / 2, *ends, higher_is_better=False)
    row = drop_row("old", paired, floor_of(MeanAbsoluteError(), value))
    assert row.verdict is verdict
    assert row.limit == pytest.approx(0.01 * value)
    assert (row.unit, row.interval) == ("value", ends)
    if value:
        assert f"mae at most 1.0 % ({0.01 * value:.3g}) worse than old's {value:.3g}." in BOOK.text(row.why)
        gained = replace(paired, difference=-0.1, low=-0.2, high=-0.05)
        assert drop_row("old", gained, floor_of(MeanAbsoluteError(), value)).verdict is PASSED


@pytest.mark.parametrize(
    ("log_ratios", "verdict"),
    [
        ([0.1, 0.11, 0.09, 0.1, 0.1], FAILED),
        ([0.001, -0.001, 0.0, 0.001, 0.0], PASSED),
        ([-0.1, -0.11, -0.09, -0.1, -0.1], PASSED),
        ([-0.05, -0.02, -0.03, -0.01, -0.06], PASSED),  # faster or not: surely not slower
        ([0.025, 0.026, 0.024, 0.025, 0.03], FAILED),
        ([0.1, -0.1, 0.2, -0.1, 0.1], UNDECIDED),
        ([0.01, 0.01], UNDECIDED),
    ],
)
def test_a_slowdown_is_judged_by_its_interval(log_ratios: list[float], verdict: GateVerdict) -> None:
    row = figure_row(limited("latency", "ratio", 1.02, "old"), ratio_figure(log_ratios))
    assert row.verdict is verdict
    assert row.limit == 1.02
    assert row.name == "latency against old"


def test_passed_means_decided() -> None:
    assert result(PASSED).verdict is PASSED
    for strict in (True, False):
        undecided = result(PASSED, UNDECIDED, strict=strict)
        assert undecided.verdict is UNDECIDED
        assert not undecided.passed
        assert undecided.is_open is not strict
        assert result(FAILED, UNDECIDED, strict=strict).verdict is FAILED
        assert not result(FAILED, UNDECIDED, strict=strict).is_open
        cut_short = result(PASSED, interrupted=True, strict=strict)
        assert cut_short.verdict is UNDECIDED
        assert not cut_short.is_open
    assert result().verdict is UNDECIDED, "nothing was checked"
    assert result(PASSED, UNDECIDED).count(UNDECIDED) == 1


@given(
    st.floats(0, 1e6), st.floats(allow_nan=False, allow_infinity=True), st.floats(allow_nan=False, allow_infinity=True)
)
def test_json_holds_every_row(measured: float, low: float, high: float) -> None:
    row = Row("latency", "ms", measured, (low, high), 1.0, UNDECIDED, SO)
    data = json.loads(json.dumps(to_data(row, BOOK), allow_nan=False))
    assert {"what", "measured", "interval", "limit", "verdict", "why"} <= set(data)
    assert data["verdict"] == "undecided"


def simulated(source: np.random.Generator, processes: int, noise: float, tail: float) -> Samples:
    """Runs of 1 ms; one in ten takes `tail` more, and processes differ."""
    blocks = []
    for process in range(processes):
        factor = math.exp(source.normal(0, noise))
        for _ in range(8):
            times = factor * source.normal(1.0, 0.005, 100)
            times[source.random(100) < 0.1] *= 1 + tail
            blocks.append(Block(process, 0.0, array("q", (times * 1e6).astype(np.int64).tolist())))
    return Samples(tuple(blocks))


def test_the_interval_of_p95_holds_the_truth() -> None:
    source = np.random.default_rng(3)
    truth = simulated(source, 400, 0.01, 0.5).p95_ms
    inside = 0
    for _ in range(40):
        found = p95_interval(simulated(source, 5, 0.01, 0.5), 0.99)
        assert found.low <= found.estimate <= found.high
        inside += found.low <= truth <= found.high
    assert inside >= 37


def test_intervals_of_one_process_are_endless() -> None:
    one = simulated(np.random.default_rng(0), 1, 0.0, 0.0)
    assert p95_interval(one, 0.99).high == math.inf
    assert latency_figure(one).interval.high == math.inf


def test_the_latency_of_a_gate_is_that_of_bench() -> None:
    samples = simulated(np.random.default_rng(0), 5, 0.05, 0.5)
    figure = latency_figure(samples)
    assert figure.interval.estimate == samples.median_ms
    assert figure.interval.low <= samples.median_ms <= figure.interval.high
    assert figure.least == samples.min_ms
