"""What is rounding, what a number format, and what a fault: simulated errors whose cause is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.remark import remark
from hasten.explanation.diff.facts import CONSTANT, DiffOutput, DiffRow, Status
from hasten.explanation.diff.islands import Alone, OutputAlone
from hasten.explanation.diff.rules import (
    Divergence,
    Traits,
    first_divergent,
    first_not_finite,
    judged,
    narrowest,
    precision,
    ranked,
    rounding,
    unproven_span,
    verdict_of,
)
from hasten.explanation.diff.words import BOOK
from hasten.explanation.facts import LossyInput
from hasten.explanation.tensor_errors import ErrorMeter, error_between

ROW = DiffRow(0, 0, "CONV_2D")
SIGNAL = np.random.default_rng(0).standard_normal(20_000)


def alone(error: np.ndarray[Any, Any] | float, gain: float = 1.0, **inputs: float) -> Alone:
    """A node whose output is normal numbers, with this error."""
    meter = ErrorMeter()
    meter.add(SIGNAL, SIGNAL + error)
    return Alone((OutputAlone(0, 0, meter, gain),), **inputs)


def noise(rms: float) -> np.ndarray[Any, Any]:
    return rms * np.random.default_rng(1).standard_normal(SIGNAL.size)


def status(found: Alone, **traits: Any) -> Status:
    return judged(ROW, found, [Traits(**traits)]).status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (0.0, Status.EQUAL),
        (noise(2e-7), Status.ROUNDING),
        (noise(3e-6), Status.ROUNDING),
        (noise(1.4e-4), Status.UNEXPLAINED),  # weights in half precision
        (noise(0.1), Status.UNEXPLAINED),
    ],
)
def test_floats(error: Any, expected: Status) -> None:
    assert status(alone(error)) is expected


def test_one_value_that_is_far_off_is_no_rounding() -> None:
    error = np.zeros(SIGNAL.size)
    error[7] = 2e-3  # 97 dB below the signal only, all values together
    assert status(alone(error * 0.4)) is Status.UNEXPLAINED
    assert status(alone(error * 0.1)) is Status.ROUNDING


def test_terms_that_cancel_explain_more_rounding() -> None:
    """A relative change of the inputs moves the output by ten thousand times its value."""
    error = noise(1e-3)
    assert status(alone(error, gain=1.0)) is Status.UNEXPLAINED
    assert status(alone(error, gain=1e4)) is Status.ROUNDING
    assert status(alone(noise(1e-4), gain=100.0, mismatch=1e-6)) is Status.ROUNDING


def test_sums_of_many_terms_explain_more_rounding() -> None:
    found = alone(noise(1e-4), gain=200.0)
    assert status(found) is Status.UNEXPLAINED
    assert status(found, terms=10_000.0) is Status.ROUNDING


def stepped(step: float) -> np.ndarray[Any, Any]:
    return np.rint(SIGNAL / step) * step - SIGNAL


def test_integers_may_be_off_by_a_step() -> None:
    step = 8 / 255
    same = {"step_before": step, "step_after": step, "dtype_before": "int8", "dtype_after": "int8"}
    some = np.random.default_rng(2)
    assert status(alone(step * some.integers(-1, 2, SIGNAL.size)), **same) is Status.ROUNDING
    assert status(alone(step * some.integers(-3, 4, SIGNAL.size)), **same) is Status.UNEXPLAINED
    few = np.zeros(SIGNAL.size)
    few[::1000] = 9 * step
    assert status(alone(few), **same) is Status.UNEXPLAINED


def test_a_number_format_explains_its_steps_and_its_weights() -> None:
    step = 8 / 255
    integers = {"step_after": step, "dtype_after": "int8"}
    assert status(alone(stepped(step)), **integers) is Status.PRECISION
    clipped = np.clip(SIGNAL, -1, 1) - SIGNAL
    assert status(alone(clipped), **integers) is Status.UNEXPLAINED
    assert status(alone(noise(0.008)), weights=0.007) is Status.PRECISION
    assert status(alone(noise(0.008))) is Status.UNEXPLAINED
    assert status(alone(noise(3e-4)), half=True) is Status.PRECISION
    assert status(alone(noise(0.01), crest=3.0), is_dynamic=True) is Status.PRECISION


def test_values_that_are_no_numbers_are_named_as_such() -> None:
    error = np.zeros(SIGNAL.size)
    error[3] = math.nan
    found = judged(ROW, alone(error), [Traits()])
    assert (found.status, found.added_db, found.added_max_error) == (Status.NOT_FINITE, None, None)


def test_choices_are_right_or_wrong() -> None:
    classes = np.arange(10)
    for shift, expected in ((0, Status.EQUAL), (1, Status.UNEXPLAINED)):
        meter = ErrorMeter()
        meter.add(classes, classes + shift)
        found = judged(ROW, Alone((OutputAlone(0, 0, meter, 0.0),)), [Traits(is_choice=True)])
        assert (found.status, found.added_db) == (expected, None)


@pytest.mark.parametrize(("largest", "expected"), [(3.5, Status.PRECISION), (0.5, Status.CLIPPED)])
def test_outliers_that_clip_are_the_format_s_and_a_range_that_is_too_small_is_not(
    largest: float, expected: Status
) -> None:
    """One value lies far beyond the range, or most of them do."""
    step = largest / 127
    signal = np.where(np.arange(SIGNAL.size) == 0, 4.5, np.clip(SIGNAL, -3.5, 3.5))
    room = np.clip(signal, -largest, largest)
    got = np.rint(room / step) * step
    output = OutputAlone(0, 0, error_between([signal], [got]), 0.0, error_between([room], [got]))
    assert status(Alone((output,)), step_after=step, dtype_after="int8") is expected
    assert status(Alone((replace(output, within=None),)), step_after=step, dtype_after="int8") is Status.UNEXPLAINED


def test_the_worst_of_several_outputs_counts() -> None:
    good, bad = alone(0.0), alone(noise(0.1))
    both = Alone((*good.outputs, *bad.outputs))
    found = judged(ROW, both, [Traits(), Traits()])
    assert found.status is Status.UNEXPLAINED
    assert found.added_db == pytest.approx(20, abs=0.5)


@given(st.floats(1e-9, 1e9), st.floats(0, 1e6), st.floats(1, 1e6))
def test_allowances_have_no_unit(scale: float, gain: float, terms: float) -> None:
    """The same errors of the same numbers, all larger by one factor, are judged alike."""
    found = []
    for factor in (1.0, scale):
        meter = ErrorMeter()
        meter.add(SIGNAL * factor, (SIGNAL + 1e-6) * factor)
        one = Alone((OutputAlone(0, 0, meter, gain * factor),))
        found.append(rounding(one, 0, Traits(terms=terms)).rms / factor)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@given(st.floats(0, 1e3), st.floats(0, 1), st.booleans(), st.booleans())
def test_a_format_never_explains_less_than_rounding(gain: float, weights: float, half: bool, dynamic: bool) -> None:
    traits = Traits(weights=weights, half=half, is_dynamic=dynamic, step_after=weights, dtype_after="int8")
    one = alone(noise(1e-3), gain)
    assert precision(one, 0, traits).rms >= rounding(one, 0, traits).rms
    assert precision(one, 0, traits).worst >= rounding(one, 0, traits).worst


# -- ranges


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(0, n - 1))))
def test_the_smallest_range_is_found_in_few_questions(case: tuple[int, int, int]) -> None:
    count, *ends = case
    first, last = sorted(ends)
    asked = []

    def shows(low: int, high: int) -> bool:
        asked.append((low, high))
        return low <= first and last <= high

    assert narrowest(shows, count) == (first, last)
    assert len(asked) <= 3 + 2 * math.log2(count + 1)


def test_what_the_whole_does_not_show_has_no_range() -> None:
    assert narrowest(lambda low, high: False, 10) is None
    assert narrowest(lambda low, high: True, 0) is None


# -- rows


def row(index: int, status: Status = Status.EQUAL, **fields: Any) -> DiffRow:
    return DiffRow(index, index, "CONV_2D", status=status, **{"differing": 0.0, **fields})


FEEDS = {0: [], 1: [0], 2: [1], 3: [2]}


def test_the_first_fault_comes_before_any_format() -> None:
    coarse, parts = row(1, Status.PRECISION), row(2, Status.UNEXPLAINED)
    assert first_divergent([row(0), coarse, parts]) == 2
    assert first_divergent([row(0), coarse]) == 1
    assert first_divergent([row(0), row(1, Status.ROUNDING)]) is None


def test_faults_rank_first_then_the_larger_error() -> None:
    rows = [
        row(0, Status.PRECISION, added_db=20.0),
        row(1, Status.UNEXPLAINED, added_db=70.0),
        row(2),
        row(3, Status.UNEXPLAINED, added_db=12.0),
        row(4, Status.NOT_FINITE),
        row(5, Status.UNKNOWN),
        row(6, Status.PRECISION, added_db=10.0),
    ]
    assert [one.rank for one in ranked(rows)] == [5, 3, None, 2, 1, None, 4]


def test_no_number_is_named_where_it_begins() -> None:
    rows = [row(0), row(1, not_finite=3), row(2, not_finite=5), row(3, not_finite=1)]
    assert first_not_finite(rows, FEEDS) == 1
    assert first_not_finite([row(0)], FEEDS) is None


def unread(index: int, **fields: Any) -> DiffRow:
    return row(index, Status.UNKNOWN, differing=None, why=remark("diff.not-alone"), **fields)


def test_error_behind_nodes_that_nobody_could_run_is_theirs() -> None:
    behind = row(3, snr_db=12.0, inherited_db=12.0)
    suspect = unread(2, snr_db=12.0, inherited_db=None)
    assert unproven_span([row(0), row(1), suspect, behind], FEEDS) == (2, 2)
    hidden = replace(behind, inherited_db=None)
    assert unproven_span([row(0), unread(1), unread(2), hidden], FEEDS) == (1, 2)


def test_steps_of_integers_and_states_are_not_held_against_nodes_that_nobody_could_run() -> None:
    steps = row(1, Status.ROUNDING, added_db=38.0)
    assert unproven_span([row(0), steps, unread(2, snr_db=30.0)], FEEDS) is None
    assert unproven_span([row(0), steps, unread(2, snr_db=12.0)], FEEDS) == (2, 2)
    state = replace(unread(2, snr_db=12.0), op="READ_VARIABLE")
    assert unproven_span([row(0), row(1), state], FEEDS) is None


def test_constants_and_nodes_that_explain_themselves_are_not_suspected() -> None:
    low = row(1, snr_db=12.0, inherited_db=None)
    constant = replace(unread(0), why=remark(CONSTANT))
    assert unproven_span([constant, low], FEEDS) is None
    assert unproven_span([unread(0), replace(low, status=Status.PRECISION)], FEEDS) is None
    amplified = row(1, snr_db=70.0, inherited_db=90.0)
    assert unproven_span([row(0), amplified], FEEDS) is None


def output(**fields: Any) -> DiffOutput:
    return DiffOutput("y", **{"snr_db": 30.0, "max_error": 0.1, "differing": 0.5, **fields})


@pytest.mark.parametrize(
    ("divergence", "code"),
    [
        (Divergence([row(0)], [output(snr_db=None, differing=0.0)], None), "diff.equal"),
        (Divergence([row(0, differing=0.1)], [output(snr_db=None, differing=0.0)], None), "diff.equal-outputs"),
        (Divergence([row(0, Status.ROUNDING)], [output(snr_db=120.0)], None), "diff.rounding"),
        (Divergence([row(0, Status.ROUNDING)], [output(snr_db=9.0)], None), "diff.amplified"),
        (Divergence([row(0, Status.PRECISION, added_db=30.0)], [output()], 0), "diff.precision"),
        (Divergence([row(0, Status.UNEXPLAINED, added_db=30.0)], [output()], 0), "diff.diverges"),
        (Divergence([row(0, Status.NOT_FINITE, not_finite=2)], [output(not_finite=1)], 0, 0), "diff.not-finite"),
        (Divergence([row(0), row(1)], [output()], None, span=(0, 1)), "diff.span"),
        (Divergence([row(0), row(1)], [output()], None, span=(0, 1), is_fusion=True), "diff.fusion"),
        (Divergence([row(0)], [output()], None, lossy=LossyInput("x", "int8", 40.0)), "diff.input"),
    ],
)
def test_verdicts(divergence: Divergence, code: str) -> None:
    assert verdict_of(divergence).code == code


def test_only_nodes_that_were_compared_are_called_equal() -> None:
    """Two constants and a node that could not be run say nothing; neither do they alone make a model equal."""
    constants = [replace(unread(index), why=remark(CONSTANT)) for index in (0, 1)]
    equal = output(snr_db=None, differing=0.0)
    said = BOOK.text(verdict_of(Divergence([*constants, row(2), row(3), row(4), unread(5)], [equal], None)))
    assert said == (
        "A and B are equal to the last bit, node by node (3 nodes). 2 more nodes read constants only. "
        "1 node could not be run alone."
    )
    said = BOOK.text(verdict_of(Divergence([constants[0], unread(5)], [equal], None)))
    assert said == "The outputs of A and B are equal to the last bit. 1 node could not be run alone."


def test_what_came_before_a_value_that_is_no_number_is_told() -> None:
    rows = [row(0, Status.UNEXPLAINED, added_db=3.0), row(1, not_finite=4)]
    said = verdict_of(Divergence(rows, [output(not_finite=4)], 0, 1))
    assert (said.facts["node"]["index"], said.facts["earlier"]["index"]) == (1, 0)
