"""Limits kept, broken and undecided."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy, PairedAccuracy
from hasten.core.block import Block
from hasten.core.codec import to_data
from hasten.core.comparison import compare_rounds
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.core.statistics import Interval
from hasten.data.metrics import MeanAbsoluteError, TopK
from hasten.evaluate.floor import floor_of_original
from hasten.gate.facts import CheckFound, GateVerdict, Row
from hasten.gate.rules import (
    FEWEST_PROCESSES,
    accuracy_row,
    drop_row,
    exact_row,
    latency_interval,
    memory_row,
    p95_interval,
    slowdown_row,
    timed_row,
)
from hasten.gate.words import BOOK

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


@pytest.mark.parametrize(
    ("limit", "verdict"), [(1.2, PASSED), (1.1, PASSED), (1.05, UNDECIDED), (0.9, UNDECIDED), (0.8, FAILED)]
)
def test_a_time_is_judged_by_its_whole_interval(limit: float, verdict: GateVerdict) -> None:
    assert timed_row("latency", Interval(1.0, 0.9, 1.1), limit, FEWEST_PROCESSES).verdict is verdict


def test_few_processes_decide_nothing() -> None:
    row = timed_row("latency", Interval(1.0, 0.9, 1.1), 100.0, FEWEST_PROCESSES - 1)
    assert row.verdict is UNDECIDED
    assert row.why == remark("gate.few-processes", processes=3, needed=4)
    assert timed_row("latency", None, 100.0, 0).measured is None


@pytest.mark.parametrize(("measured", "verdict"), [(10, PASSED), (11, FAILED), (9, PASSED)])
def test_a_size_is_exact(measured: int, verdict: GateVerdict) -> None:
    assert exact_row("size", "bytes", measured, 10).verdict is verdict


@pytest.mark.parametrize(
    ("peaks", "verdict"), [([5.0, 9.0], PASSED), ([11.0, 12.0], FAILED), ([9.0, 11.0], UNDECIDED), ([], UNDECIDED)]
)
def test_memory_is_judged_by_every_process(peaks: list[float], verdict: GateVerdict) -> None:
    assert memory_row(peaks, 10.0).verdict is verdict


def test_accuracy_on_given_data_is_a_fact_and_the_interval_is_for_other_data() -> None:
    found = Accuracy("top-1", 0.96, 0.94, 0.98, 600, "data.npz")
    assert accuracy_row(found, 0.95, higher_is_better=True).verdict is PASSED
    assert not accuracy_row(found, 0.95, higher_is_better=True).why.facts["sure"]
    assert accuracy_row(found, 0.97, higher_is_better=True).verdict is FAILED
    assert accuracy_row(found, 0.5, higher_is_better=True).why.facts["sure"]
    error = Accuracy("mae", 3.0, 2.5, 3.5, 600, "data.npz")
    row = accuracy_row(error, 2.9, higher_is_better=False)
    assert (row.verdict, row.at_least, row.unit) == (FAILED, False, "value")


@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict"),
    [
        (-0.005, -0.02, 0.01, PASSED),
        (0.02, 0.01, 0.03, PASSED),
        (-0.03, -0.05, -0.01, FAILED),
        (-0.03, -0.07, 0.01, UNDECIDED),
    ],
)
def test_a_drop_counts_if_it_is_sure_and_large(
    difference: float, low: float, high: float, verdict: GateVerdict
) -> None:
    floor = floor_of(TopK(1), 0.9)
    row = drop_row("old", PairedAccuracy("top-1", 100, difference, low, high, lost=3, won=0), floor)
    assert row.verdict is verdict
    assert row.measured == pytest.approx(-difference)
    assert row.interval == pytest.approx((-high, -low))
    assert (row.limit, row.unit) == (0.01, "share")
    assert BOOK.text(row.why).endswith("Allowed: at most 1 percentage point of top-1 lost.")


@pytest.mark.parametrize(
    ("value", "difference", "verdict"), [(0.1, 0.005, FAILED), (50.0, 0.4, PASSED), (0.0, 0.5, UNDECIDED)]
)
def test_a_metric_of_errors_drops_by_rising_by_a_part_of_the_olds(
    value: float, difference: float, verdict: GateVerdict
) -> None:
    paired = PairedAccuracy("mae", 100, difference, 0.004, 0.6, higher_is_better=False)
    row = drop_row("old", paired, floor_of(MeanAbsoluteError(), value))
    assert row.verdict is verdict
    assert row.limit == pytest.approx(0.01 * value)
    assert (row.unit, row.interval) == ("value", (0.004, 0.6))
    if value:
        assert f"mae at most 1.0 % ({0.01 * value:.3g}) worse than old's {value:.3g}." in BOOK.text(row.why)
    gained = replace(paired, difference=-0.1)
    assert drop_row("old", gained, floor_of(MeanAbsoluteError(), value)).verdict is PASSED


@pytest.mark.parametrize(
    ("log_ratios", "verdict"),
    [
        ([0.1, 0.11, 0.09, 0.1, 0.1], FAILED),
        ([0.001, -0.001, 0.0, 0.001, 0.0], PASSED),
        ([-0.1, -0.11, -0.09, -0.1, -0.1], PASSED),
        ([-0.05, -0.01, -0.03, 0.01, -0.06], PASSED),  # faster or not: surely not slower
        ([0.1, -0.1, 0.2, -0.1, 0.1], UNDECIDED),
        ([0.01, 0.01], UNDECIDED),
    ],
)
def test_a_slowdown_counts_if_compare_says_slower(log_ratios: list[float], verdict: GateVerdict) -> None:
    row = slowdown_row("old", compare_rounds(log_ratios, 0.02), 0.02)
    assert row.verdict is verdict
    assert row.limit == 1.02


def test_undecided_passes_unless_strict_and_is_counted() -> None:
    assert result(PASSED, UNDECIDED).passed
    assert result(PASSED, UNDECIDED).count(UNDECIDED) == 1
    assert not result(PASSED, UNDECIDED, strict=True).passed
    assert not result(PASSED, FAILED).passed
    assert result(PASSED, strict=True).passed
    assert not result(PASSED, interrupted=True).passed


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
    assert latency_interval(one, 0.99).low >= 0
