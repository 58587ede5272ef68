"""An explanation as blocks, and as the document that `compare --explain --json` prints."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.remark import remark
from hasten.core.units import several
from hasten.explanation.facts import Cause, ExplainFound, NodeRow
from hasten.explanation.tensor_errors import ROUNDING_DB
from hasten.explanation.words import (
    BOOK,
    cause_words,
    clipping_words,
    headroom_words,
    instructions_words,
    is_new,
    numbers_words,
    partitions_words,
    place_words,
    snr_words,
)
from hasten.model.matching import Certainty
from hasten.show.blocks import Cell, Detail, Headline, Note, Notes, Prose, Section, Table, columns, notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark
    from hasten.core.session import Line
    from hasten.explanation.facts import NumericalErrors
    from hasten.show.blocks import Block

_SMALLEST_PART: Final = 0.005
_ROWS: Final = 12
_HARMED_ROWS: Final = 6
_HARM_DB: Final = 3.0


def view(found: ExplainFound) -> list[Block]:
    """The reasons, where the time went, and where the numbers go wrong."""
    more = [text for text in (instructions_words(found), headroom_words(found)) if text]
    return [
        Headline(f"Why: {BOOK.text(found.verdict)}"),
        *([_causes(found), Prose(partitions_words(found))] if found.is_timed else notes([found.why_no_times], BOOK)),
        *_numbers(found),
        *notes((*found.hints, *found.doubts), BOOK),
        Detail((*(Prose(text) for text in more), _nodes(found), Prose(_matched(found)))),
    ]


def document(found: ExplainFound) -> dict[str, Any]:
    """The explanation in the document of `hasten compare --explain --json`."""
    data = to_data(found, BOOK)
    if found.errors is not None:
        data["errors"]["notes"] = BOOK.sentences(found.errors.notes)
    return {
        **data,
        "causes": [{**to_data(cause), "clear": cause.change_ms.is_clear} for cause in found.causes],
        "hints": [f"{BOOK.text(hint)} {BOOK.hint(hint)}" for hint in found.hints],
    }


def session_lines(found: ExplainFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of an explanation."""
    return [("explanation", f"{found.before.model.path} {found.after.model.path}", to_data(found))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the last explanation of each pair."""
    last = {line.label: from_data(ExplainFound, line.data) for line in lines if line.kind == "explanation"}
    blocks = [block for found in last.values() for block in view(found)]
    return [Section("explanations", "Why", tuple(blocks))] if blocks else []


def _pair(found: ExplainFound) -> str:
    """A name for the tables of this pair of models."""
    return f"{found.before.model.sha256[:8]}-{found.after.model.sha256[:8]}"


def _causes(found: ExplainFound) -> Table:
    smallest = _SMALLEST_PART * max(found.before.invoke_ms, found.after.invoke_ms)
    shown = [cause for cause in found.causes if abs(cause.change_ms.estimate) >= smallest]
    rest = [cause for cause in found.causes if abs(cause.change_ms.estimate) < smallest]
    rows = [_cause(cause) for cause in shown]
    if rest:
        left = sum(cause.change_ms.estimate for cause in rest)
        rows.append((Cell(""), Cell(""), _change(left), Cell(several(len(rest), "smaller change"))))
    before, after = found.before.invoke_ms, found.after.invoke_ms
    rows.append((Cell(""), Cell(""), _change(found.outside_ms.estimate), Cell("outside the operators")))
    rows.append((_ms(before), _ms(after), _change(after - before), Cell("total inside the engine")))
    headings = columns("#before", "#after", "#change", "what happened (ms per run)")
    caption = f"Where the time of {PurePath(found.after.model.path).name} went"
    return Table(f"causes-{_pair(found)}", caption, headings, tuple(rows))


def _cause(cause: Cause) -> tuple[Cell, ...]:
    text = cause_words(cause)
    if cause.kernel_before and cause.kernel_after and cause.kernel_before != cause.kernel_after:
        text += f" ({cause.kernel_before} → {cause.kernel_after})"
    if not cause.change_ms.is_clear:
        text += "; uncertain, as rounds differ in sign"
    return _ms(cause.ms_before), _ms(cause.ms_after), _change(cause.change_ms.estimate), Cell(text)


def _numbers(found: ExplainFound) -> list[Block]:
    errors = found.errors
    if errors is None:
        return notes([remark("explain.no-numbers", why=BOOK.text(found.why_no_errors))], BOOK)
    clipped, to_do = clipping_words(found, errors)
    blocks: list[Block] = [Prose(" ".join([numbers_words(errors), *place_words(found, errors)]))]
    if clipped:
        blocks.append(Notes((*map(Note, clipped[:-1]), Note(clipped[-1], to_do))))
    return [*blocks, *notes(_remarks(errors), BOOK)]


def _remarks(errors: NumericalErrors) -> list[Remark]:
    """What to know about the comparison of numbers."""
    found = list(errors.notes)
    if errors.is_random:
        found.append(remark("explain.random"))
    if errors.disturbance_db < ROUNDING_DB:
        found.append(remark("explain.disturbed", snr_db=errors.disturbance_db))
    reasons = [BOOK.text(entry.why) for entry in errors.unread]
    return [*found, *(remark("explain.unread", nodes=reasons.count(why), why=why) for why in dict.fromkeys(reasons))]


def _nodes(found: ExplainFound) -> Table:
    headings = columns("#node", "#was", "operator", "match", "#before", "#after", "#change", "#SNR", "#drop")
    rows = tuple(_node(row) for row in _telling_rows(found))
    return Table(f"nodes-{_pair(found)}", "The nodes that changed most", headings, rows)


def _telling_rows(found: ExplainFound) -> list[NodeRow]:
    """Those whose time changed most, and those that lost most of the signal, in the order of execution."""
    places = range(len(found.rows))
    rows = found.rows
    by_time = sorted(places, key=lambda at: -abs(rows[at].change_ms.estimate) if found.is_timed else 0)[:_ROWS]
    harmed = [at for at in places if (rows[at].drop_db or 0.0) >= _HARM_DB]
    by_drop = sorted(harmed, key=lambda at: -(rows[at].drop_db or 0.0))[:_HARMED_ROWS]
    return [rows[at] for at in sorted({*by_time, *by_drop})]


def _node(row: NodeRow) -> tuple[Cell, ...]:
    drop = "-" if row.drop_db is None else "new" if is_new(row) else str(round(row.drop_db))
    return (
        Cell(_index(row.after), row.after),
        Cell(_index(row.before), row.before),
        Cell(row.op),
        Cell(row.match.value),
        _ms(row.ms_before),
        _ms(row.ms_after),
        _change(row.change_ms.estimate),
        Cell(snr_words(row), row.snr_db),
        Cell(drop, row.drop_db),
    )


def _matched(found: ExplainFound) -> str:
    original = [row for row in found.rows if row.before is not None]
    exact = sum(1 for row in original if row.match is Certainty.EXACT)
    nodes = f"{len(original)} nodes are" if len(original) != 1 else "1 node is"
    more = len(found.rows) - len(_telling_rows(found))
    text = f"{exact} of the original's {nodes} matched exactly."
    return f"{text} {several(more, 'more row')} with --json." if more > 0 else text


def _index(node: int | None) -> str:
    return "-" if node is None or node < 0 else str(node)


def _ms(value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(f"{value:.3f}" if value < 99.9995 else f"{value:.1f}" if value < 9999.95 else f"{value:.0f}", value)


def _change(value: float) -> Cell:
    if math.isnan(value):
        return Cell("-")
    value = round(value, 3) + 0.0  # no minus before zero
    digits = 3 if abs(value) < 99.9995 else 1 if abs(value) < 9999.95 else 0
    return Cell(f"{value:+.{digits}f}".replace("-", "−"), value)
