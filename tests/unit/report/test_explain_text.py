"""Explanations as text: what a person must find in them, in 80 columns, whatever the names."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from examples import ALL_DOUBTS, HOSTILE
from tune_session import session_of

from hasten.core.comparison import compare_rounds
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.statistics import Interval
from hasten.explain.facts import (
    Cause,
    CauseKind,
    CutOff,
    ErrorView,
    Explanation,
    Instructions,
    LossyInput,
    NodeRow,
    Side,
    Timing,
)
from hasten.model.matching import Certainty, NodeMatch
from hasten.report.explain_text import explanation_text
from hasten.report.markdown import markdown_report


def interval(value: float) -> Interval:
    return Interval(value, value, value)


def row(index: int, op: str = "CONV_2D", change: float = 0.5, **changes: Any) -> NodeRow:
    match = NodeMatch(index, index, Certainty.EXACT, op, f"layer_{index}", "1x8x8x2")
    timings = Timing(1.0, "a", True), Timing(1.0 + change, "b", True)
    return NodeRow(match, *timings, interval(change), **{"snr_db": 40.0, "drop_db": 1.0, **changes})


def cause(op: str = "CONV_2D", change: float = 5.0, kind: CauseKind = CauseKind.LEFT_DELEGATE) -> Cause:
    return Cause(kind, op, "Convolution (NHWC, F32) DWConv", "built-in kernel", 11, 0.4, 5.4, interval(change))


def side(path: str = "m.tflite", left: tuple[str, ...] = (), **changes: Any) -> Side:
    return Side(Model(path, 1, "ab"), 2.0, 2.0, 66, 66 - len(left), 1 + len(left), left, **changes)


ERRORS = ErrorView(4, "folder/images.npz", False, 3, 31.5, 1, 2, 2)


def explanation(**changes: Any) -> Explanation:
    fields: dict[str, Any] = {
        "plan": Plan(),
        "before": side(),
        "after": side(left=("#5 DEPTHWISE_CONV_2D", "#9 DEPTHWISE_CONV_2D")),
        "comparison": compare_rounds([1.0] * 5),
        "verdict": "It is 2.7 times slower: because.",
        "rows": (
            row(0, snr_db=math.inf, drop_db=0.0),
            row(1, snr_db=45.0, drop_db=75.0),
            row(2, snr_db=12.0, drop_db=33.0),
        ),
        "causes": (cause(), cause("ADD", 0.001, CauseKind.KERNEL)),
        "outside_ms": interval(0.02),
        "instructions": Instructions("A CPU", ("F16C conversions",), ("AVX-512 VNNI",), "int8 may gain little"),
        "errors": ERRORS,
        "hints": ("try that",),
    }
    return Explanation(**{**fields, **changes})


def flowing(text: str) -> str:
    return " ".join(text.split())


def test_what_a_person_must_find() -> None:
    shown = explanation_text(explanation())
    text = flowing(shown)
    assert "Why: It is 2.7 times slower: because." in text
    assert "0.400 5.400 +5.000 11 CONV_2D left the delegate" in text
    assert "1 smaller change" in text
    assert "66 of 66 operators in 1 partition before, 64 of 66 operators in 3 partitions after" in text
    assert "Left to the engine now: 2 DEPTHWISE_CONV_2D." in text
    assert "lacks AVX-512 VNNI. Hint: int8 may gain little." in text
    assert "3 nodes against the original's, on 4 samples of images.npz" in text
    assert "Error enters first at #1 CONV_2D (45.0 dB, with inputs that have none)." in text
    assert "Most is lost at #2 CONV_2D (12.0 dB, 33 dB below its inputs)." in text
    assert "3 of the original's 3 nodes are matched exactly." in text
    assert "Hint (not measured): try that." in text


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_fits_into_80_columns(name: str) -> None:
    found = explanation(
        rows=tuple(row(index, name, change) for index, change in enumerate((1e6, -1e6, 1e-9, 123.4))),
        causes=(replace(cause(name, 1e6), kernel_before=name, ms_before=1e7), cause(name, -1e5)),
        before=side(name),
        after=side(name, (f"#1 {name}",), headroom_ms=1.0),
        doubts=ALL_DOUBTS,
        instructions=Instructions(name, (), ("x",)),
        errors=replace(
            ERRORS,
            first_drop=1,
            inputs=name,
            is_random=True,
            disturbance_db=50.0,
            unread=((3, name),),
            lossy_inputs=(LossyInput(name, "int8", 40.0),),
            cut_off=(CutOff(None, name, 0.1, (-1e30, 1e-30), (0.0, 1e9)),),
        ),
    )
    shown = explanation_text(found)
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


def test_one_of_a_thing_is_not_several() -> None:
    one = replace(ERRORS, samples=1, compared=1, first_drop=0, unread=((0, "the engine does not show it"),))
    found = explanation(
        before=replace(side(), nodes=1, delegated_nodes=1),
        after=replace(side(), nodes=1, delegated_nodes=1),
        rows=(row(0),),
        errors=replace(one, largest_drop=None, first_below=None),
    )
    text = flowing(explanation_text(found))
    assert "Numbers: 1 node against the original's, on 1 sample of images.npz." in text
    assert "1 of 1 operator in 1 partition before" in text
    assert "1 smaller change " in text
    assert "! 1 node could not be read" in text
    assert "The original's one node is matched exactly." in text


def test_error_that_enters_at_the_input_is_said_before_any_node() -> None:
    view = replace(ERRORS, lossy_inputs=(LossyInput("image", "int8", 39.3),))
    text = flowing(explanation_text(explanation(errors=view)))
    at_input = "Error enters at the input 'image': its int8 keeps 39.3 dB of what the original is fed."
    assert f"{at_input} The first node to add to it is #1 CONV_2D (45.0 dB" in text
    assert "enters first" not in text
    quantised = replace(view, lossy_inputs=(LossyInput("image", "int8", 39.3, node=0),))
    text = flowing(explanation_text(explanation(errors=quantised)))
    assert "Error enters at the input 'image': int8 (#0 QUANTIZE) keeps 39.3 dB" in text
    none = replace(view, first_drop=None, largest_drop=None, first_below=None)
    assert f"{at_input} No node is clearly worse" in flowing(explanation_text(explanation(errors=none)))


def test_tensors_without_room_for_the_values_of_the_original_are_named() -> None:
    node, at_input = (CutOff(place, name, 0.53, (32.07, 71.2), (0.0, 49.2)) for place, name in ((2, ""), (None, "x")))
    text = flowing(explanation_text(explanation(errors=replace(ERRORS, cut_off=(at_input, node, node, node)))))
    said = "is cut off: it holds 0 to 49.2, and 53% of the original's values, which go from 32.1 to 71.2, lie beyond."
    assert f"#2 CONV_2D {said}" in text
    assert f"The input 'x' {said}" in text
    assert "1 more tensor is cut off as well (see --json)." in text
    assert "Calibrate with samples that reach as far" in text
    assert "cut off" not in explanation_text(explanation())


def test_random_inputs_and_disturbances_are_said() -> None:
    view = replace(ERRORS, is_random=True, inputs="random inputs of 0 to 1", disturbance_db=50.0)
    text = flowing(explanation_text(explanation(errors=view)))
    assert "samples of random inputs of 0 to 1" in text
    assert "hint" in text
    assert "Reading inner tensors moves the outputs themselves (50.0 dB)" in text


def test_numbers_that_could_not_be_compared() -> None:
    text = flowing(explanation_text(explanation(errors=None, why_no_errors="other inputs")))
    assert "The numbers were not compared: other inputs." in text
    nothing = replace(ERRORS, compared=0, output_snr_db=None, first_drop=None, largest_drop=None, first_below=None)
    assert "The outputs cannot be compared." in flowing(explanation_text(explanation(errors=nothing)))


def test_notes_on_the_inputs_are_shown() -> None:
    text = flowing(explanation_text(explanation(errors=replace(ERRORS, notes=("raw values are a guess",)))))
    assert "! raw values are a guess." in text


def test_operators_that_could_not_be_timed() -> None:
    unknown = Interval(math.nan, -math.inf, math.inf)
    untimed = replace(side(), latency_ms=math.nan, invoke_ms=math.nan, delegated_nodes=0)
    rows = tuple(replace(row(index), before=None, after=None, change_ms=unknown) for index in (1, 2))
    found = explanation(
        why_no_times="m.tflite: no profiler", before=untimed, after=untimed, rows=rows, causes=(), outside_ms=unknown
    )
    text = flowing(explanation_text(found))
    assert "! The operators were not timed. m.tflite: no profiler." in text
    assert "nan" not in text
    assert "Delegated" not in text
    assert "in all, inside the engine" not in text
    assert "1 1 CONV_2D exact - - - 40.0 1" in text
    report = markdown_report(session_of([("explanation", "a b", found.as_data())]))
    assert "The operators were not timed. m.tflite: no profiler." in report
    assert "| cause |" not in report
    assert "| cause |" in markdown_report(session_of([("explanation", "a b", explanation().as_data())]))


def test_broken_numbers_and_unclear_causes() -> None:
    unclear = replace(cause(), change_ms=Interval(5.0, -1.0, 6.0))
    text = flowing(explanation_text(explanation(rows=(row(1), row(2, snr_db=-math.inf)), causes=(unclear,))))
    assert "broken" in text
    assert "not clear" in text


def test_the_roofline_when_peaks_were_measured() -> None:
    found = explanation(before=side(headroom_ms=0.5), after=side(headroom_ms=4.0))
    assert "0.500 ms less before, and 4.00 ms less after" in flowing(explanation_text(found))


def test_nothing_to_tell() -> None:
    view = replace(ERRORS, first_drop=None, largest_drop=None, first_below=None, output_snr_db=math.inf)
    found = explanation(rows=(), causes=(), errors=view, after=side(), instructions=Instructions("", (), ()))
    text = flowing(explanation_text(found))
    assert "The outputs are the same to the last bit. No node is clearly worse" in text


def test_a_graph_that_was_rewritten() -> None:
    rewritten = Side(Model("m.tflite", 1, "ab"), 2.0, 2.0, 0, 0, 1, ())
    text = flowing(explanation_text(explanation(after=rewritten)))
    assert "a graph that the accelerator's compiler rewrote, in 1 partition, after." in text
