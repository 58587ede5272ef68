"""A gate as blocks, as Markdown for a pull request, and as the document that `--json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.gate.facts import CheckFound, GateVerdict, Row
from hasten.gate.words import BOOK, figures, headline, intervals_words
from hasten.show.blocks import Cell, Detail, Headline, Note, Notes, Prose, Section, Table, columns, notes
from hasten.show.markdown import block_lines, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block

_MARKS: Final = {GateVerdict.PASSED: "✅", GateVerdict.FAILED: "❌", GateVerdict.UNDECIDED: "❔"}


def view(found: CheckFound) -> list[Block]:
    """The verdict, the limits, and what to know about them."""
    return [Headline(f"{headline(found)} {_subject(found)}"), *_body(found)]


def document(found: CheckFound) -> dict[str, Any]:
    """The document of `hasten check --json`."""
    return {
        **to_data(found, BOOK),
        **_outcome(found),
        "rows": [{**to_data(row, BOOK), "what": row.name} for row in found.rows],
        "notes": BOOK.sentences(found.notes),
    }


def markdown(found: CheckFound) -> str:
    """A comment on a pull request, or the summary of a job."""
    lines = [
        f"### {_MARKS[found.verdict]} {plain(headline(found))}",
        "",
        plain(_subject(found)),
        *block_lines(_body(found)),
        "",
    ]
    return "\n".join(lines)


def session_lines(found: CheckFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a gate."""
    return [("check", found.model.path, {**to_data(found), **_outcome(found)})]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the last gate of each model."""
    blocks = [block for found in _gates(lines) for block in view(found)]
    return [Section("checks", "Limits", tuple(blocks))] if blocks else []


def answer(lines: Sequence[Line]) -> str:
    """What the last gate of a session came to; empty where there is none."""
    gates = _gates(lines)
    return headline(gates[-1]) if gates else ""


def _outcome(found: CheckFound) -> dict[str, Any]:
    undecided = "fail" if found.strict else "pass"
    return {"verdict": found.verdict.value, "passed": found.passed, "undecided": undecided}


def _gates(lines: Sequence[Line]) -> list[CheckFound]:
    return list({line.label: from_data(CheckFound, line.data) for line in lines if line.kind == "check"}.values())


def _subject(found: CheckFound) -> str:
    return f"{PurePath(found.model.path).name} on {found.plan.describe()}."


def _body(found: CheckFound) -> list[Block]:
    reasons = [_reason(row) for row in found.rows if row.verdict is not GateVerdict.PASSED]
    more = [_reason(row) for row in found.rows if row.verdict is GateVerdict.PASSED]
    timed = any(row.unit in ("ms", "ratio") for row in found.rows)
    intervals = intervals_words(found)
    return [
        _table(found),
        *([Notes(tuple(reasons))] if reasons else []),
        *notes((*(found.doubts if timed else ()), *found.notes), BOOK),
        Detail((*([Prose(intervals)] if intervals else []), *([Notes(tuple(more))] if more else []))),
    ]


def _reason(row: Row) -> Note:
    return Note(f"{row.name}: {BOOK.text(row.why)}", BOOK.hint(row.why))


def _table(found: CheckFound) -> Table:
    rows = []
    for row in found.rows:
        measured, interval, limit = figures(row)
        cells = (Cell(row.name), Cell(measured, row.measured), Cell(interval), Cell(limit, row.limit))
        rows.append((*cells, Cell(row.verdict.value)))
    name, caption = f"checks-{found.model.sha256[:8]}", f"The limits of {PurePath(found.model.path).name}"
    headings = columns("limit", "#measured", "interval", "allowed", "verdict")
    return Table(name, caption, headings, tuple(rows), marks=tuple(row.verdict.value for row in found.rows))
