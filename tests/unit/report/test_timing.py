"""Views of latencies for whatever a machine may produce; what they say is held by the approved outputs."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace
from typing import Any

import pytest
from examples import ALL_DOUBTS, comparison, measurement, samples
from tests.unit.show.hostile import HOSTILE

from hasten.cli.options import as_json
from hasten.core import doubts
from hasten.core.block import Block
from hasten.core.codec import from_data
from hasten.core.comparison import Verdict
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.core.samples import Samples
from hasten.core.session import Line
from hasten.core.sustained import Minute, Sustained, SustainedFound
from hasten.report.timing import comparisons_in, document, sections, session_lines, view
from hasten.show.blocks import Headline, Note, Notes
from hasten.show.terminal import terminal_text

LONG_PLAN = Plan(
    "npu", 16, "builtin", "fp16", options=tuple((f"vendor.option_{i}", "a rather long value") for i in range(6))
)


def lines_of(found: object) -> list[Line]:
    return [Line(kind, label, "", json.loads(json.dumps(data))) for kind, label, data in session_lines(found)]  # type: ignore[arg-type]


def notes_of(found: object) -> list[Note]:
    return [note for block in view(found) if isinstance(block, Notes) for note in block.rows]  # type: ignore[arg-type]


@pytest.mark.parametrize("latency_ms", [0.000001, 0.0003, 0.05, 1.0, 99.99, 9999.0, 123456.0, 1e8])
def test_any_latency_fits_a_terminal(latency_ms: float) -> None:
    text = terminal_text(view(measurement(latency_ms)), verbose=True)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert "inf" not in text.replace("inference", "")


@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_hostile_names_stay_text(name: str) -> None:
    changes = {"name": name.replace("\x00", ""), "plan": LONG_PLAN, "doubts": ALL_DOUBTS}
    for found in (measurement(**changes), comparison([0.0] * 5, **changes)):  # type: ignore[arg-type]
        text = terminal_text(view(found), verbose=True)
        assert all(line.isprintable() for line in text.split("\n"))


def test_each_doubt_is_a_note() -> None:
    assert notes_of(measurement()) == []
    assert len(notes_of(measurement(doubts=ALL_DOUBTS))) == len(ALL_DOUBTS)


def test_noise_of_a_latency_stands_with_both_latencies_once() -> None:
    (note,) = notes_of(comparison([0.0] * 5, doubts=(said("noise", doubts.NOISY),)))
    assert note.text == "noise"


@pytest.mark.parametrize("times", [[1_000_000], [0, 0]])
def test_next_to_no_samples_give_no_error(times: list[int]) -> None:
    found = measurement(found=Samples((Block(0, 0.0, array("q", times)),)))
    assert "inf" not in terminal_text(view(found)).replace("inference", "")
    assert json.loads(as_json(document(found)))["latency"]["ci95_ms"] == [None, None]


def test_a_measurement_comes_back_from_its_session_line() -> None:
    found = measurement(found=samples(1.5, joules=0.4))
    (line,) = lines_of(found)
    assert from_data(Measurement, line.data) == found


@pytest.mark.parametrize(
    ("log_ratios", "verdict"),
    [([-0.5] * 5, Verdict.FASTER), ([0.5] * 5, Verdict.SLOWER), ([0.0] * 5, Verdict.SAME), ([0.5], Verdict.UNDECIDED)],
)
def test_comparisons_come_back_and_have_a_section(log_ratios: list[float], verdict: Verdict) -> None:
    lines = lines_of(comparison(log_ratios))
    (pair,) = comparisons_in(lines)
    assert pair.comparison.verdict is verdict
    assert pair.names == ("model.tflite, cpu, 1 thread", "model.tflite, cpu, 1 thread")
    assert [section.name for section in sections(lines)] == ["comparisons"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ({"contention": 1.25}, "other processes used 1.2 cores that one of the plans needs"),
        ({"quickest_disagree": True}, "many runs were disturbed, and the quickest runs say the opposite"),
    ],
)
def test_a_busy_machine_leaves_a_comparison_undecided_for_a_reason(reason: dict[str, Any], told: str) -> None:
    found = comparison([0.5] * 5)
    busy = replace(found.comparison, verdict=Verdict.UNDECIDED, smallest_detectable=math.inf, **reason)
    text = " ".join(terminal_text(view(replace(found, comparison=busy))).split())
    assert f"Undecided: {told}. Measure on an idle machine." in text
    assert "smallest detectable difference unknown" in text
    assert json.loads(as_json(document(replace(found, comparison=busy))))["smallest_detectable"] is None


def test_what_is_undecided_for_lack_of_pairs_is_below_no_printed_difference() -> None:
    text = terminal_text(view(comparison([-0.080, -0.079, -0.081, -0.080])))
    assert "Undecided" in text
    assert "smallest detectable difference  unknown" in text


def test_a_comparison_without_its_sides_is_shown() -> None:
    (line,) = lines_of(comparison([0.5] * 5))
    bare = Line(line.kind, "final", "", {**line.data, "first": None, "second": {"unknown": 1}})
    assert comparisons_in([bare])[0].names == ("the first", "the second")
    assert sections([bare])


def course(onset: int | None, median: float = 1.0, cut_short: str | None = None) -> SustainedFound:
    minutes = tuple(Minute(i, median, (-math.inf, math.inf), median, 100, 40.0 + i, None) for i in range(1, 31))
    found = Sustained(60.0, minutes, onset, 0.2 if onset else 0.0, cut_short)
    return SustainedFound(Model("m.tflite", 1, "0" * 64), LONG_PLAN, found)


@pytest.mark.parametrize("median", [0.0, 0.0003, 123456.0])
def test_any_course_fits_and_has_a_section(median: float) -> None:
    found = course(4, median, "the runner died " * 10)
    text = terminal_text(view(found), verbose=True)
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert len(notes_of(found)) == 1
    assert [section.name for section in sections(lines_of(found))] == ["sustained"]


def test_throttling_is_the_answer() -> None:
    steady, slower = view(course(None))[0], view(course(4))[0]
    assert isinstance(steady, Headline)
    assert isinstance(slower, Headline)
    assert "throttles" in slower.text
    assert "throttles" not in steady.text
