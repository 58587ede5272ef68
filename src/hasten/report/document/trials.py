"""Sections about trials: the front, every trial, when it was tried, and what there is to doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, size
from hasten.report.charts.front import comparable, front_spec, timeline_spec
from hasten.report.summary.words import accuracy_text, interval_text, inverse, latency_text
from hasten.show.blocks import Cell, Chart, Prose, Section, Table, cell, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.summary.records import Figure, Summary, TrialRow
    from hasten.show.blocks import Block

# More rows than this make a page slow to open, and nobody reads them there.
MOST_ROWS: Final = 2000
_DETAIL: Final = 12


def front_section(summary: Summary) -> Section | None:
    """What every trial came to: how quick, how right, how large."""
    rows = [row for row in summary.trials if row.kind == "trial"]
    rows = rows or [row for row in summary.trials if row.kind == "variant"]
    spec = front_spec(rows)
    if spec is None:
        return None
    front = sorted((row for row in rows if row.on_front and row.latency), key=_latency_of)
    told = f"{len(rows)} trials; on the front, where nothing is better in every respect: {len(front)}."
    chosen = next((row for row in rows if row.status == "chosen"), None)
    if chosen is not None:
        told += f" Chosen: {chosen.name}, {_in_words(chosen)}."
    sheet = Table("front-table", "The trials on the front, the quickest first", _COLUMNS, _cells(front))
    lead = "Left is quicker, up is better; the larger the mark, the larger the file. Whiskers are 95 % intervals."
    if comparable([row for row in rows if row.latency is not None]).changes:
        lead += " Trials were judged by different samples: each is shown against the original on its own ones."
    return Section(
        "front",
        "Accuracy, latency and size",
        (Prose(lead), Chart("front", "Accuracy, latency and size of the trials", told, spec, sheet)),
    )


def _latency_of(row: TrialRow) -> float:
    return row.latency.value if row.latency else 0.0


def _in_words(row: TrialRow) -> str:
    accuracy = accuracy_text(row.accuracy, row.metric)
    if accuracy and row.accuracy_on:
        accuracy += f" on the {row.accuracy_on} half of the data"
    parts = [latency_text(row.latency), accuracy, size(row.size) if row.size else ""]
    return ", ".join(part for part in parts if part)


_COLUMNS = columns(
    "trial",
    "status",
    "#latency",
    "#95 % interval",
    "#speed, original = 1",
    "#accuracy",
    "on half",
    "#size",
    "#start",
    "#memory",
    "why",
    "again",
)


def _cells(rows: Sequence[TrialRow]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (
            Cell(row.name),
            Cell(row.status),
            Cell(latency_text(row.latency), row.latency.value if row.latency else None),
            Cell(interval_text(row.latency), row.latency.low if row.latency else None),
            _faster(row.ratio),
            Cell(accuracy_text(row.accuracy, row.metric), row.accuracy.value if row.accuracy else None),
            Cell(row.accuracy_on),
            Cell(size(row.size) if row.size else "", row.size),
            Cell("" if row.init_ms is None else milliseconds(row.init_ms), row.init_ms),
            Cell("" if row.memory_mb is None else f"{row.memory_mb:.1f} MB", row.memory_mb),
            Cell(_why(row)),
            Cell(row.command, code=True),
        )
        for row in rows
    )


def _faster(ratio: Figure | None) -> Cell:
    if ratio is None or not ratio.value:
        return Cell("")
    speed = inverse(ratio)
    return Cell(f"{speed.value:.2f}", speed.value)


def _why(row: TrialRow) -> str:
    doubts = "; ".join(doubt.evidence for doubt in row.doubts)
    return " ".join(part for part in (row.why, f"In doubt: {doubts}." if doubts else "") if part)


def trials_section(summary: Summary) -> Section | None:
    """Every trial, to sort and to filter."""
    if not summary.trials:
        return None
    shown = _most_telling(summary.trials)
    sheet = Table(
        "trials-table",
        "Every trial of the session",
        _COLUMNS,
        _cells(shown),
        filterable=len(shown) > _DETAIL,
        marks=tuple(row.status for row in shown),
    )
    blocks: list[Block] = [sheet]
    if len(shown) < len(summary.trials):
        left = len(summary.trials) - len(shown)
        blocks.insert(0, Prose(f"{left} slower trials are left out here; --format json has them all."))
    return Section("trials", f"Every trial ({len(summary.trials):,})", tuple(blocks))


def _most_telling(rows: Sequence[TrialRow]) -> Sequence[TrialRow]:
    if len(rows) <= MOST_ROWS:
        return rows
    return sorted(rows, key=lambda row: (row.latency is None, _latency_of(row)))[:MOST_ROWS]


def timeline_section(summary: Summary) -> Section | None:
    """When what was found."""
    if len(summary.events) < 2:
        return None
    rows = tuple(
        (cell(f"{event.seconds:.0f} s", event.seconds), Cell(event.kind), Cell(event.label), Cell(event.what))
        for event in summary.events[:MOST_ROWS]
    )
    caption = f"The {len(rows)} lines of the session in their order"
    sheet = Table("timeline-table", caption, columns("#after", "kind", "what", "came to"), rows)
    timed = [row for row in summary.trials if row.kind == "trial"]
    spec = timeline_spec(timed)
    if spec is None:
        return Section("timeline", "Timeline", (sheet,))
    last = max(event.seconds for event in summary.events)
    told = f"{len(timed)} trials in {last:.0f} seconds. The line is the best latency so far that keeps the accuracy."
    return Section("timeline", "Timeline", (Chart("timeline", "Latency of each trial over time", told, spec, sheet),))


def doubts_section(summary: Summary) -> Section:
    """Every reason to doubt a number."""
    lost = (
        f" {_several_lines(summary.lost_lines)} could not be read, most likely cut off." if summary.lost_lines else ""
    )
    notes = tuple(Prose(f"A line could not be understood: {entry}") for entry in summary.unreadable[:_DETAIL])
    if not summary.doubts:
        return Section("doubts", "Doubts", (Prose(f"No number of this session is in doubt.{lost}"), *notes))
    rows = tuple(
        (Cell(doubt.reason.replace("-", " ")), Cell(doubt.evidence), Cell(_where(doubt.where)), Cell(doubt.hint))
        for doubt in summary.doubts[:MOST_ROWS]
    )
    sheet = Table(
        "doubts-table",
        "Every reason to doubt a number",
        columns("doubt", "seen", "touches", "hint"),
        rows,
        filterable=len(rows) > _DETAIL,
    )
    lead = f"What may make a number less sure than it looks.{lost}"
    return Section("doubts", "Doubts", (Prose(lead), *notes, sheet))


def _where(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _several_lines(count: int) -> str:
    return f"{count} line{'s' if count != 1 else ''} of the session file"
