"""A diff on a terminal, as JSON, in a session and its report, and as an overlay."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.codec import from_data, to_data
from hasten.core.session import Line, Session
from hasten.explanation.diff.facts import DiffFound, Status
from hasten.explanation.diff.view import document, model_explorer, sections, session_lines, view
from hasten.report.summary import summarize
from hasten.show.blocks import Chart, Table, flat
from hasten.show.terminal import terminal_text
from tests.unit.explanation.diff import examples

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = [
    examples.equal,
    examples.only_rounding,
    examples.fault,
    examples.integers,
    examples.clipping,
    examples.other_training,
    examples.changed_files,
    examples.not_finite,
    examples.fusion,
    examples.odd,
    examples.span,
]
FAULTY = (
    examples.fault,
    examples.clipping,
    examples.other_training,
    examples.changed_files,
    examples.not_finite,
    examples.fusion,
    examples.odd,
    examples.span,
)


def line(found: DiffFound) -> Line:
    kind, label, data = session_lines(found)[0]
    return Line(kind, label, "2026-01-01T00:00:00+00:00", json.loads(json.dumps(data)))


@pytest.mark.parametrize("make", EXAMPLES)
def test_a_session_keeps_all_that_is_shown(make: Callable[[], DiffFound]) -> None:
    found = make()
    again = from_data(DiffFound, json.loads(json.dumps(to_data(found))))
    assert terminal_text(view(again), verbose=True) == terminal_text(view(found), verbose=True)
    assert document(again) == document(found)


@pytest.mark.parametrize("make", EXAMPLES)
def test_it_fits_a_terminal_of_80_columns(make: Callable[[], DiffFound]) -> None:
    text = terminal_text(view(make()), width=80, verbose=True)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("make", EXAMPLES)
def test_the_document_has_the_keys_that_are_promised(make: Callable[[], DiffFound]) -> None:
    found = make()
    data = json.loads(json.dumps(document(found), allow_nan=False))
    assert data.keys() >= {"first", "nodes", "verdict", "verdict_code", "outputs", "range", "has_fault"}
    assert all(node.keys() >= {"index", "op", "snr_db", "max_error", "added_db", "status"} for node in data["nodes"])
    assert data["has_fault"] is (make in FAULTY)
    assert (data["first"] is None) is (found.first is None)


def test_the_verdict_names_the_node_and_what_to_do() -> None:
    text = " ".join(terminal_text(view(examples.fault())).split())
    assert "#1 DEPTHWISE_CONV_2D" in text
    assert "--cut 1:1" in text
    other = replace(examples.fault(), verdict=examples.not_finite().verdict)
    assert "#2 ADD" in terminal_text(view(other))


def test_the_worst_node_stands_first_in_the_table() -> None:
    tables = [block for block in flat(view(examples.fault())) if isinstance(block, Table)]
    assert [row[0].text for row in tables[0].rows] == ["1", "3"]
    assert tables[0].marks == (Status.UNEXPLAINED.value, Status.UNEXPLAINED.value)


def test_every_node_is_in_the_chart_s_table() -> None:
    (chart,) = [block for block in flat(view(examples.fault())) if isinstance(block, Chart)]
    assert len(chart.table.rows) == 4
    assert {value["what"] for value in chart.spec["data"]["values"]} == {"in B", "alone"}


def test_the_report_shows_the_last_diff_of_each_pair() -> None:
    earlier = replace(examples.fault(), samples=1)
    lines = [line(earlier), line(examples.integers()), line(examples.fault())]
    (section,) = sections(lines)
    names = [block.name for block in flat(section.blocks) if isinstance(block, Table)]
    assert len(names) == len(set(names)) == 2
    summary = summarize(Session({}, tuple(lines)))
    assert "diff" in {one.name for one in summary.sections}
    assert "#1 DEPTHWISE_CONV_2D" in summary.headline
    assert summary.other_kinds == ()
    assert any(entry.command.startswith("hasten diff models/float.tflite") for entry in summary.reproductions)


def test_what_cannot_be_read_says_so_and_hides_nothing_else() -> None:
    damaged = Line("diff", "a b", "", {"nodes": 3})
    summary = summarize(Session({}, (damaged,)))
    assert any(one.name == "diff" for one in summary.found)
    assert summary.headline


def test_the_overlay_has_a_value_for_each_node_that_adds_an_error() -> None:
    data = json.loads(model_explorer(examples.fault()))
    assert data["results"] == {"layer_1": {"value": -12.3}, "layer_3": {"value": -77.0}}
    assert data["gradient"]


def test_names_that_several_nodes_share_are_not_used_in_the_overlay() -> None:
    found = examples.fault()
    alike = replace(found, rows=tuple(replace(row, location="same") for row in found.rows))
    assert set(json.loads(model_explorer(alike))["results"]) == {"1", "3"}
