"""Every reason to doubt a number of a session, each once, with all the numbers that it touches."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.doubts import DOUBTS
from hasten.core.remark import Remark, remark_from_data
from hasten.core.session import UNREADABLE
from hasten.core.units import first_few, several
from hasten.practices.registry import phrasebook
from hasten.report.figures import DoubtRow, at, items, number, records, short, text
from hasten.show.blocks import Cell, Prose, Section, Table, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.session import Line
    from hasten.report.figures import TrialRow
    from hasten.report.timing import ComparedPair

BUSY: Final = "Other processes kept the machine busy. Measure again on an idle machine."
# Log ratios further apart than this show that another process ran beside one of the two.
_RATIOS_APART: Final = 0.2
_MOST_ROWS: Final = 2000
_MOST_UNREADABLE: Final = 12
_MOST_NAMES: Final = 3
_FILTER_FROM: Final = 12


def doubt_rows(data: object, where: str) -> tuple[DoubtRow, ...]:
    """Doubts that stand beside a number, as codes or as plain sentences."""
    found: list[DoubtRow] = []
    for entry in items(data):
        with contextlib.suppress(*UNREADABLE):
            found += doubts_of([remark_from_data(entry)], where)
    return tuple(found)


def doubts_of(doubts: Iterable[Remark], where: str) -> tuple[DoubtRow, ...]:
    """Doubts in words, beside the number that they touch."""
    book = phrasebook()
    return tuple(DoubtRow(doubt.code, book.text(doubt), book.hint(doubt), (where,)) for doubt in doubts)


def all_doubts(
    lines: Iterable[Line], tried: Iterable[TrialRow], compared: Iterable[ComparedPair]
) -> tuple[DoubtRow, ...]:
    """Each doubt once, with every number that it touches."""
    found = [doubt for row in tried for doubt in row.doubts]
    found += [doubt for pair in compared for doubt in contradiction(pair)]
    for line in lines:
        if line.kind not in ("trial", "measurement", "variant", "comparison", "failure"):
            found += doubt_rows(at(line.data, "doubts"), f"{line.kind} {short(line.label)}".strip())
            for entry in (*records(line.data, "rows"), *records(line.data, "models"), *_fleet_trials(line)):
                found += doubt_rows(at(entry, "doubts"), f"{line.kind} {_row_name(entry)}".strip())
    together: dict[tuple[str, str], DoubtRow] = {}
    for doubt in found:
        known = together.get((doubt.reason, doubt.evidence))
        where = tuple(dict.fromkeys((*(known.where if known else ()), *doubt.where)))
        hint = doubt.hint or _usual_hint(doubt.reason)
        together[doubt.reason, doubt.evidence] = replace(doubt, where=where, hint=hint)
    return tuple(sorted(together.values(), key=lambda doubt: doubt.reason))


def contradiction(pair: ComparedPair) -> list[DoubtRow]:
    """In sessions of older releases neighboring blocks gave one ratio, and the medians of undisturbed runs another."""
    first, second = (side.samples.median_ms if side else 0.0 for side in (pair.first, pair.second))
    ratio = pair.comparison.ratio
    if not (first and second and ratio) or abs(math.log(second / first / ratio)) <= _RATIOS_APART:
        return []
    seen = f"The ratio of neighboring blocks is {ratio:.2f}, but that of the median latencies is {second / first:.2f}."
    return [DoubtRow("noisy", seen, BUSY, (f"comparison {pair.label}",))]


def _usual_hint(code: str) -> str:
    """What to do about a doubt of an older session, which has no facts."""
    with contextlib.suppress(*UNREADABLE):
        return DOUBTS.hint(Remark(code))
    return ""


def _fleet_trials(line: Line) -> list[dict[str, Any]]:
    """What was raced on each device of a fleet; the trials of one tuning have lines of their own."""
    return list(records(line.data, "trials")) if line.kind == "fleet" else []


def _row_name(entry: dict[str, Any]) -> str:
    threads = number(entry, "threads")
    name = text(entry, "name") or f"{text(entry, 'device')} {text(entry, 'choice')}".strip()
    return name or ("" if threads is None else f"{threads:.0f} {text(entry, 'load')}")


def doubts_section(doubts: Sequence[DoubtRow], unreadable: Sequence[str], lost_lines: int) -> Section:
    """Every reason to doubt a number, and what could not be read."""
    notes = [Prose(f"A line could not be understood: {entry}") for entry in unreadable[:_MOST_UNREADABLE]]
    if lost_lines:
        notes.insert(0, Prose(f"{several(lost_lines, 'line')} of the session file could not be read."))
    if not doubts:
        # What could not be read may have been the only numbers, or the reasons to doubt them.
        none = Prose("No reason was found to doubt a number of this session.")
        return Section("doubts", "Doubts", tuple(notes) or (none,))
    rows = tuple(
        (
            Cell(doubt.reason.replace("-", " ")),
            Cell(doubt.evidence),
            Cell(first_few(doubt.where, _MOST_NAMES)),
            Cell(doubt.hint),
        )
        for doubt in doubts[:_MOST_ROWS]
    )
    sheet = Table(
        "doubts-table",
        "Every reason to doubt a number",
        columns("doubt", "what was seen", "affects", "what to do"),
        rows,
        filterable=len(rows) > _FILTER_FROM,
    )
    return Section(
        "doubts", "Doubts", (Prose("Reasons why a number may be less certain than it looks."), *notes, sheet)
    )
