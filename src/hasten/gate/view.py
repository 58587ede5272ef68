"""A gate as blocks, as Markdown for a pull request, and as the document that `--json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.gate.facts import CheckFound, GateVerdict, Row
from hasten.gate.words import BOOK, figures, headline, headline_of_all, intervals_words, subject
from hasten.show.blocks import Cell, Detail, Headline, Note, Notes, Prose, Section, Table, columns, notes
from hasten.show.markdown import block_lines, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block

_MARKS: Final = {GateVerdict.PASSED: "✅", GateVerdict.FAILED: "❌", GateVerdict.UNDECIDED: "❔"}


def view(found: CheckFound, place: int = 0) -> list[Block]:
    """The verdict, the limits, and what to know about them; `place` tells gates of one page apart."""
    return [Headline(f"{headline(found)} {subject(found)}."), *_body(found, place)]


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
        plain(f"{subject(found)}."),
        *block_lines(_body(found)),
        "",
    ]
    return "\n".join(lines)


def session_lines(found: CheckFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a gate."""
    return [("check", found.model.path, {**to_data(found), **_outcome(found)})]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the last gate of each model, plan, baseline and set of limits."""
    blocks = [block for place, found in enumerate(_gates(lines)) for block in view(found, place)]
    return [Section("checks", "Limits", tuple(blocks))] if blocks else []


def answer(lines: Sequence[Line]) -> str:
    """What the gates of a session came to; empty where there is none."""
    gates = _gates(lines)
    return headline(gates[0]) if len(gates) == 1 else headline_of_all(gates) if gates else ""


def _outcome(found: CheckFound) -> dict[str, Any]:
    undecided = "fail" if found.strict else "pass"
    return {"verdict": found.verdict.value, "passed": found.passed, "undecided": undecided}


def _gates(lines: Sequence[Line]) -> list[CheckFound]:
    """Of gates that check the same the last one, in the order in which they ended."""
    gates: dict[Any, CheckFound] = {}
    for line in lines:
        if line.kind == "check":
            found = from_data(CheckFound, line.data)
            key = found.model.path, found.plan, found.limits, frozenset(row.against for row in found.rows)
            gates.pop(key, None)
            gates[key] = found
    return list(gates.values())


def _body(found: CheckFound, place: int = 0) -> list[Block]:
    reasons = [_reason(row) for row in found.rows if row.verdict is not GateVerdict.PASSED]
    more = [_reason(row) for row in found.rows if row.verdict is GateVerdict.PASSED]
    # The doubts are about the runs; the time of the first start has none of them.
    timed = any(row.unit in ("ms", "ratio") and row.what != "init" for row in found.rows)
    intervals = intervals_words(found)
    return [
        _table(found, place),
        *([Notes(tuple(reasons))] if reasons else []),
        *notes((*(found.doubts if timed else ()), *found.notes), BOOK),
        Detail((*([Prose(intervals)] if intervals else []), *([Notes(tuple(more))] if more else []))),
    ]


def _reason(row: Row) -> Note:
    return Note(f"{row.name}: {BOOK.text(row.why)}", BOOK.hint(row.why))


def _table(found: CheckFound, place: int) -> Table:
    rows = []
    for row in found.rows:
        measured, interval, limit = figures(row)
        cells = (Cell(row.name), Cell(measured, row.measured), Cell(interval), Cell(limit, row.limit))
        rows.append((*cells, Cell(row.verdict.value)))
    name = f"checks-{found.model.sha256[:8]}{f'-{place + 1}' if place else ''}"
    caption = f"The limits of {PurePath(found.model.path).name}"
    headings = columns("limit", "#measured", "interval", "allowed", "verdict")
    return Table(name, caption, headings, tuple(rows), marks=tuple(row.verdict.value for row in found.rows))
