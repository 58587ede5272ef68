"""Are outputs right, when is a start-up repaid, from which size on does delegating pay."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.practices.accelerators.facts import AcceleratorRow, AcceleratorsFound, LadderPoint, Latency, Status
from hasten.practices.accelerators.outputs import (
    NO_NUMBERS,
    Judgement,
    OutputError,
    beside_the_cpu,
    output_error,
    worst_of,
)
from hasten.practices.accelerators.rules import break_even_runs, ladder_remarks, pays_from, recommend
from hasten.practices.accelerators.view import document
from hasten.practices.accelerators.words import BOOK
from tests.unit.practices.accelerators import examples

RIGHT, IMPRECISE, WRONG = Judgement.RIGHT, Judgement.IMPRECISE, Judgement.WRONG
FLOATS = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e30, 1e30, allow_subnormal=False))


def error(expected: list[float], got: list[float], step: float = 0.0) -> OutputError:
    return output_error([np.array(expected, np.float64)], [np.array(got, np.float64)], [step])


def test_equal_outputs_are_right() -> None:
    assert error([0.1, 0.9], [0.1, 0.9]) == OutputError(0.0, 0.0, RIGHT)


def test_half_precision_is_right_and_another_answer_is_wrong() -> None:
    values = np.linspace(-3, 5, 100)
    halves = values.astype(np.float16).astype(np.float64)
    assert output_error([values], [halves], [0.0]).judgement == RIGHT
    assert output_error([values], [values[::-1]], [0.0]).judgement == WRONG
    assert output_error([values], [np.zeros(100)], [0.0]).judgement == WRONG


def test_far_off_in_one_place_is_imprecise() -> None:
    values = np.linspace(0, 1, 1000)
    other = values.copy()
    other[7] += 0.5
    found = output_error([values], [other], [0.0])
    assert found.judgement == IMPRECISE
    assert found.worst == pytest.approx(0.5)
    assert found.typical < 0.05


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_numbers_are_wrong(bad: float) -> None:
    assert error([0.0, 1.0], [0.0, bad]) == NO_NUMBERS


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_the_reference_must_be_none_here(bad: float) -> None:
    assert error([bad, 1.0, 2.0], [bad, 1.0, 2.0]).judgement == RIGHT
    assert error([bad, 1.0, 2.0], [0.0, 1.0, 2.0]) == NO_NUMBERS
    assert error([bad, 1.0, 2.0], [bad, 2.0, 1.0]).judgement == WRONG
    assert error([bad], [bad]).judgement == RIGHT


def test_an_infinity_of_the_other_sign_is_wrong() -> None:
    assert error([math.inf, 1.0], [-math.inf, 1.0]) == NO_NUMBERS


def test_outputs_of_another_size_are_wrong() -> None:
    assert error([1.0, 2.0], [1.0]) == NO_NUMBERS


def test_quantized_outputs_may_differ_by_some_steps() -> None:
    assert error([3, 4, 5], [4, 5, 6], step=1.0).judgement == RIGHT
    assert error([3, 4, 5], [4, 5, 6], step=0.0).judgement == WRONG
    assert error([3, 4, 5], [9, 10, 11], step=1.0).judgement == WRONG


@pytest.mark.parametrize("value", [0.0, 1.0, -128.0, 1e-30, 1e30])
def test_constant_outputs(value: float) -> None:
    assert error([value] * 4, [value] * 4).judgement == RIGHT
    assert error([value] * 4, [value * 1.001] * 4).judgement == RIGHT
    assert error([value] * 4, [value * 2 + 1] * 4).judgement == WRONG


def test_rounding_of_outputs_that_hardly_differ_is_no_error() -> None:
    assert error([0.9999999, 0.9999998], [1.0, 1.0]).judgement == RIGHT


def test_nothing_to_compare_is_right() -> None:
    assert output_error([], [], []).judgement == RIGHT
    assert error([], []).judgement == RIGHT


def test_the_worst_of_several_outputs_counts() -> None:
    good, bad = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    assert output_error([good, good], [good, bad], [0.0, 0.0]).judgement == WRONG
    assert output_error([good, good], [bad, good], [0.0, 0.0]).judgement == WRONG


@given(FLOATS)
def test_an_output_is_right_against_itself(values: np.ndarray) -> None:
    assert output_error([values], [values], [0.0]) == OutputError(0.0, 0.0, RIGHT)


@given(FLOATS, FLOATS, st.floats(1e-3, 1e3))
def test_the_unit_of_outputs_does_not_matter(expected: np.ndarray, got: np.ndarray, factor: float) -> None:
    size = min(len(expected), len(got))
    first = output_error([expected[:size]], [got[:size]], [0.0])
    second = output_error([expected[:size] * factor], [got[:size] * factor], [0.0])
    if np.abs(expected[:size]).max() > 1e-300:
        assert second.worst == pytest.approx(first.worst, rel=1e-6)
    assert first.typical <= first.worst * (1 + 1e-9)


@given(hnp.arrays(np.float64, st.integers(1, 20)), hnp.arrays(np.float64, st.integers(1, 20)))
def test_any_numbers_get_a_judgement(expected: np.ndarray, got: np.ndarray) -> None:
    found = output_error([expected], [got], [0.0])
    assert found.judgement in (RIGHT, IMPRECISE, WRONG)
    assert found.worst >= 0
    assert not math.isnan(found.typical)


GOOD, OFF, BAD = OutputError(0.01, 0.001, RIGHT), OutputError(0.4, 0.01, IMPRECISE), OutputError(0.5, 0.2, WRONG)
FAR = OutputError(50.0, 20.0, WRONG)


@pytest.mark.parametrize(
    ("errors", "judgement"),
    [
        ([GOOD, GOOD, GOOD], RIGHT),
        ([GOOD, OFF, GOOD], IMPRECISE),
        ([GOOD, BAD, GOOD], IMPRECISE),
        ([BAD, BAD, GOOD], WRONG),
        ([BAD], WRONG),
        ([GOOD, GOOD, FAR], WRONG),
        ([GOOD, GOOD, NO_NUMBERS], WRONG),
    ],
)
def test_several_inputs_make_one_judgement(errors: list[OutputError], judgement: Judgement) -> None:
    found = worst_of(errors)
    assert found.judgement == judgement
    assert found.worst == max(error.worst for error in errors)


def test_choices_are_judged_beside_the_cpus_own() -> None:
    assert beside_the_cpu(BAD, 0.15).judgement == RIGHT
    assert beside_the_cpu(BAD, 0.0).judgement == IMPRECISE
    assert beside_the_cpu(NO_NUMBERS, 1.0) == NO_NUMBERS
    assert beside_the_cpu(GOOD, 0.0) == GOOD


def test_a_start_is_repaid_by_quicker_runs() -> None:
    assert break_even_runs(100.0, 1.0, 10.0, 2.0) == 90
    assert break_even_runs(100.5, 1.0, 10.0, 2.0) == 91
    assert break_even_runs(5.0, 1.0, 10.0, 2.0) == 0
    assert break_even_runs(100.0, 2.0, 10.0, 2.0) is None
    assert break_even_runs(5.0, 3.0, 10.0, 2.0) is None


TIMES = st.floats(0.001, 1e5)


@given(TIMES, TIMES, TIMES, TIMES)
def test_after_the_break_even_it_is_ahead_and_not_before(start: float, run: float, other: float, slow: float) -> None:
    runs = break_even_runs(start, run, other, slow)
    if runs is None:
        assert run >= slow
        return
    tolerance = 1e-6 * (start + other + runs * slow)
    assert start + runs * run <= other + runs * slow + tolerance
    if runs:
        assert start + (runs - 1) * run >= other + (runs - 1) * slow - tolerance


def point(macs: int, verdict: Verdict) -> LadderPoint:
    return LadderPoint(
        macs, Interval(1.0, 0.9, 1.1), Interval(0.5, 0.4, 0.6), Comparison(verdict, 0.5, (0.4, 0.6), 0.1, 5)
    )


F, S, U, E = Verdict.FASTER, Verdict.SLOWER, Verdict.UNDECIDED, Verdict.SAME


def climbed(*points: LadderPoint, trouble: str = "") -> AcceleratorRow:
    told = remark("accelerators.ladder-failed", macs=4_000_000, message=trouble) if trouble else None
    row = AcceleratorRow("npu", Status.RUNS, Plan(accelerator="npu"), ladder=points, ladder_trouble=told)
    return dataclasses.replace(row, pays_from_macs=pays_from(points))


@pytest.mark.parametrize(
    ("verdicts", "macs", "code"),
    [
        ([S, U, F, F], 30_000_000, "accelerators.pays-from"),
        ([F, F, F, F], 500_000, "accelerators.pays-everywhere"),
        ([S, S, S, S], None, "accelerators.pays-nowhere"),
        ([S, E, S, S], None, "accelerators.pays-nowhere"),
        ([F, F, F, U], None, "accelerators.pays-at"),
        ([S, S, S, U], None, "accelerators.pays-at"),
        ([F, S, F, F], 30_000_000, "accelerators.pays-from"),
    ],
)
def test_from_which_size_on_it_pays(verdicts: list[Verdict], macs: int | None, code: str) -> None:
    sizes = (500_000, 4_000_000, 30_000_000, 200_000_000)
    row = climbed(*(point(size, verdict) for size, verdict in zip(sizes, verdicts, strict=True)))
    assert row.pays_from_macs == macs
    assert [told.code for told in ladder_remarks(row)] == [code]
    data = to_data(row)
    assert data["ladder"][0]["cpu"] == {"median_ms": 1.0, "ci95_ms": [0.9, 1.1]}
    assert data["ladder"][3]["accelerator"]["ci95_ms"] == [0.4, 0.6]
    assert from_data(AcceleratorRow, data) == row


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([F, F, U], "It is proven faster at 500 k and 4.00 M MACs, undecided at 30.0 M MACs."),
        ([S, E, U], "It is undecided at 30.0 M MACs, not faster at 500 k and 4.00 M MACs."),
        ([F, S, S], "It is proven faster at 500 k MACs, not faster at 4.00 M and 30.0 M MACs."),
    ],
)
def test_sizes_without_a_pattern_are_named(verdicts: list[Verdict], text: str) -> None:
    sizes = (500_000, 4_000_000, 30_000_000)
    row = climbed(*(point(size, verdict) for size, verdict in zip(sizes, verdicts, strict=True)))
    assert [BOOK.text(told) for told in ladder_remarks(row)] == [text]


def test_a_ladder_that_was_cut_short_says_so() -> None:
    unknown, why = ladder_remarks(climbed(trouble="it died"))
    assert unknown.code == "accelerators.pays-unknown"
    assert BOOK.text(why) == "It failed at 4.00 M MACs: It died."
    assert len(ladder_remarks(climbed(point(500_000, S), trouble="it died"))) == 2
    assert ladder_remarks(climbed()) == []


def row_data(row: AcceleratorRow) -> dict[str, Any]:
    data: dict[str, Any] = document(AcceleratorsFound("m.tflite", (row,)))["rows"][0]
    return data


def test_a_row_is_plain_data_with_the_keys_of_the_contract() -> None:
    row = AcceleratorRow(
        "gpu",
        Status.RUNS,
        Plan(accelerator="gpu"),
        60,
        66,
        2,
        max_error=0.01,
        typical_error=0.001,
        latency=Latency(1.0, (0.9, 1.2), 1.3, 5),
        init_ms=5.0,
        first_run_ms=2.0,
    )
    data = row_data(row)
    keys = "name status placed_ops total_ops partitions max_error latency init_ms break_even_runs why"
    assert set(keys.split()) <= set(data)
    assert data["latency"]["ci95_ms"] == [0.9, 1.2]
    assert data["failure"] is None
    assert "pays_from_macs" not in data
    assert from_data(AcceleratorRow, json.loads(json.dumps(to_data(row)))) == row
    failed = dataclasses.replace(row, failure=Failure("load", "crash", "it died"), latency=None)
    assert row_data(failed)["failure"].items() >= {"stage": "load", "kind": "crash"}.items()
    endless = row_data(dataclasses.replace(row, latency=Latency(1.0, (-math.inf, math.inf))))
    assert endless["latency"]["ci95_ms"] == [None, None]
    json.dumps(endless, allow_nan=False)
    assert (row.start_ms, dataclasses.replace(row, init_ms=None).start_ms) == (7.0, None)


def test_a_row_of_an_older_session_still_loads() -> None:
    old = {
        "name": "ynnpack",
        "status": "missing",
        "placed_ops": None,
        "refused": [],
        "max_error": None,
        "latency": None,
        "against_cpu": None,
        "stand_in": None,
        "doubts": [{"reason": "noisy", "evidence": "it is noisy", "hint": ""}],
        "failure": {"stage": "load", "kind": "accelerator"},
        "why": "it is not there",
        "plan": {"accelerator": "cpu", "threads": 1, "options": [["cpu.enable_ynnpack", "true"]], "cores": []},
    }
    row = from_data(AcceleratorRow, old)
    assert row.status is Status.MISSING
    assert BOOK.text(row.why) == "it is not there"
    assert row.plan.options == (("cpu.enable_ynnpack", "true"),)


@pytest.mark.parametrize(("error", "told"), [(0.008, False), (0.047, True)])
def test_a_recommendation_names_an_error_that_a_user_may_notice(error: float, told: bool) -> None:
    """A headline sold an NPU whose outputs were off by 4.7 % of their range, which only the table said."""
    rows = examples.typical().rows
    name, why = recommend([dataclasses.replace(row, max_error=error) if row.name == "npu" else row for row in rows])
    assert name == "npu"
    assert ("Some outputs differ by 4.7 % of their range." in BOOK.text(why)) is told
