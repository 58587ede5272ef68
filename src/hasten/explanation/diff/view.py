"""A diff as blocks, as the document that `hasten diff --json` prints, and as node data for Model Explorer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import finite, from_data, to_data
from hasten.core.remark import Remark, remark
from hasten.core.units import decibels, several
from hasten.explanation.diff.facts import DiffFound, DiffRow, Status
from hasten.explanation.diff.words import (
    BOOK,
    added_words,
    cause_words,
    error_words,
    headline_words,
    inputs_words,
    output_words,
    side_words,
    whole_words,
)
from hasten.explanation.tensor_errors import ROUNDING_DB
from hasten.show.blocks import Cell, Chart, Detail, Facts, Section, Table, answer, columns, notes
from hasten.show.charts import tooltip, vega_lite
from hasten.show.model_explorer import NodeValue, node_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block

KIND: Final = "diff"
_TITLE: Final = "Where the models diverge"
_ROWS: Final = 10
_OUTPUTS: Final = 6
_CLIPPED: Final = 3
_CAUSES: Final = 3
_COLUMNS: Final = ("#node", "operator", "#SNR alone", "#expected", "#SNR in B", "#error in B", "cause")
_LEGEND: Final = (
    "Signal-to-noise ratio (SNR) of each node's output against A's: in B, with all errors that it inherits, and alone,"
    " on the inputs that it has in A, with the error that it adds itself. Lower is worse."
)


def view(found: DiffFound) -> list[Block]:
    """The node where they diverge, the nodes by the error that they add, and what to know about the comparison."""
    facts = [
        ("A", side_words(found, 0)),
        ("B", side_words(found, 1)),
        ("inputs", inputs_words(found)),
        *((f"output {output.name}", output_words(output)) for output in found.outputs[:_OUTPUTS]),
    ]
    return [
        answer(found.verdict, BOOK),
        Facts(tuple(facts)),
        *_ranking(found),
        *notes(_remarks(found), BOOK),
        Detail(tuple(_course(found))),
    ]


def document(found: DiffFound) -> dict[str, Any]:
    """The document of `hasten diff --json`."""
    return {**to_data(found, BOOK), "has_fault": found.has_fault}


def session_lines(found: DiffFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a diff."""
    return [(KIND, f"{found.before.model.path} {found.after.model.path}", to_data(found))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the last diff of each pair of models and plans."""
    blocks = [block for found in _last(lines) for block in view(found)]
    return [Section(KIND, _TITLE, tuple(blocks))] if blocks else []


def headline(lines: Sequence[Line]) -> str:
    """What the last diff of a session came to; empty without one."""
    last = _last(lines)
    return headline_words(last[-1].verdict) if last else ""


def model_explorer(found: DiffFound) -> str:
    """Node data for Google's Model Explorer, to lay over B: the error that each node adds, in decibels of its signal.

    Higher is worse. Nodes that add nothing, and those that could not be run alone, stay uncolored.
    """
    values = [
        NodeValue(row.index, row.location, -row.added_db if row.added_db is not None else 0.0)
        for row in found.rows
        if row.index is not None and row.status not in (Status.EQUAL, Status.UNKNOWN)
    ]
    locations = [row.location for row in found.rows if row.index is not None]
    return node_data("hasten: error added, dB of the signal", values, locations)


def _last(lines: Sequence[Line]) -> list[DiffFound]:
    found: dict[tuple[object, ...], DiffFound] = {}
    for line in lines:
        if line.kind == KIND:
            one = from_data(DiffFound, line.data)
            key = tuple((side.model.sha256, side.plan) for side in (one.before, one.after))
            found.pop(key, None)
            found[key] = one
    return list(found.values())


def _name(found: DiffFound) -> str:
    """A name for the tables of this pair, which no other pair on a page has."""
    told = "-".join(f"{side.model.sha256[:8]}-{side.plan.describe()}" for side in (found.before, found.after))
    return "".join(letter if letter.isalnum() else "-" for letter in told)


def _ranking(found: DiffFound) -> list[Block]:
    if not found.ranked:
        return []
    caption = "Nodes of B by the error that they add"
    rows, marks = tuple(map(_row, found.ranked)), tuple(row.status.value for row in found.ranked)
    return [Table(f"diff-{_name(found)}", caption, columns(*_COLUMNS), rows, marks=marks, most=_ROWS)]


def _row(row: DiffRow) -> tuple[Cell, ...]:
    return (
        Cell("-" if row.index is None else str(row.index), row.index),
        Cell(row.op),
        Cell(added_words(row), row.added_db),
        Cell("-" if row.expected_db is None else decibels(row.expected_db), row.expected_db),
        Cell(whole_words(row), row.snr_db),
        Cell(error_words(row.max_error), row.max_error),
        Cell(cause_words(row)),
    )


def _remarks(found: DiffFound) -> list[Remark]:
    """What to know about the comparison."""
    remarks = list(found.notes)
    faults = [row for row in found.ranked if row.status.is_fault]
    for row in faults[:_CAUSES]:
        remarks += row.causes
    for row in faults:
        if row.only_before or row.only_after:
            facts = {"node": row.index, "op": row.op, "before": list(row.only_before), "after": list(row.only_after)}
            remarks.append(Remark("diff.instead" if row.only_before else "diff.together", facts))
    remarks += [
        remark("diff.lossy-input", name=lossy.name, dtype=lossy.dtype, snr_db=finite(lossy.snr_db))
        for lossy in found.lossy_inputs
    ]
    remarks += _clipping(found)
    if found.is_random:
        remarks.append(remark("explain.random"))
    if found.disturbance_db < ROUNDING_DB:
        remarks.append(remark("explain.disturbed", snr_db=found.disturbance_db))
    reasons = [BOOK.text(row.why) for row in found.rows if row.index is not None and row.is_unknown]
    return [*remarks, *(remark("diff.not-run", nodes=reasons.count(why), why=why) for why in dict.fromkeys(reasons))]


def _clipping(found: DiffFound) -> list[Remark]:
    return [
        remark(
            "diff.clipped",
            where=f"The input {one.name!r}" if one.node is None else f"#{one.node} {found.row_of(one.node).op}",
            share=one.share,
            held=list(one.held),
            values=list(one.original),
        )
        for one in found.clipped[:_CLIPPED]
    ]


def _course(found: DiffFound) -> list[Block]:
    """How the error grows along the model, as a chart and as a table of all nodes."""
    rows = [row for row in found.rows if row.index is not None]
    if not rows:
        return []
    caption = f"All {several(len(rows), 'node')} of B in execution order"
    sheet = Table(f"diff-all-{_name(found)}", caption, columns(*_COLUMNS), tuple(map(_row, rows)), filterable=True)
    return [Chart(f"diff-course-{_name(found)}", "Error along the model", _LEGEND, _spec(rows), sheet)]


def _spec(rows: Sequence[DiffRow]) -> dict[str, Any]:
    series = (("in B", "snr_db", "@1"), ("alone", "added_db", "@2"))
    values = [
        {"node": row.index, "operator": row.op, "what": name, "db": min(ROUNDING_DB, value), "told": decibels(value)}
        for row in rows
        for name, field, _ in series
        if (value := getattr(row, field)) is not None and math.isfinite(value)
    ]
    x = {"field": "node", "type": "quantitative", "title": "node of B", "scale": {"nice": False}}
    y = {"field": "db", "type": "quantitative", "title": "SNR, dB"}
    names = [name for name, _, _ in series]
    what: dict[str, Any] = {"field": "what", "type": "nominal", "title": None}
    color = {**what, "scale": {"domain": names, "range": [shade for _, _, shade in series]}}
    shape = {**what, "scale": {"domain": names, "range": ["square", "circle"]}}
    return vega_lite(
        240,
        values,
        mark={"type": "point", "filled": True, "size": 50},
        encoding={
            "x": x,
            "y": y,
            "color": color,
            "shape": shape,
            "tooltip": tooltip(node="node", operator="operator", what="error", told="SNR"),
        },
    )
