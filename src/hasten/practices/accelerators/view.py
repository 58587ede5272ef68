"""The examination of accelerators as blocks and as the document that `--json` prints."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.doubts import MORE_CORES
from hasten.core.units import interval_ms, memory, milliseconds, percent
from hasten.practices.accelerators.facts import AcceleratorRow, AcceleratorsFound, Status
from hasten.practices.accelerators.rules import NAME, comparison_of_outputs, finding_of, ladder_remarks, recommend
from hasten.practices.accelerators.words import BOOK
from hasten.show.blocks import Cell, Chart, Facts, Table, answer, columns, doubt_notes, known, studies_section
from hasten.show.charts import Bar, interval_bars, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark
    from hasten.core.session import Line
    from hasten.show.blocks import Block, Section

_FAR: Final = 10.0
_TIME_RATIO: Final = "relative to xnnpack; accelerators and their start-up are judged by the faster row of XNNPACK"


def view(found: AcceleratorsFound, name: str = NAME) -> list[Block]:
    """The recommendation, the rows, and what there is to say about each."""
    said = tuple((row.name, text) for row in found.rows if (text := _said(row)))
    return [
        answer(finding_of(found.rows).remark, BOOK),
        Facts(
            (
                ("model", PurePath(found.model).name),
                ("outputs", BOOK.text(comparison_of_outputs(found))),
                *([("time ratio", _TIME_RATIO)] if any(row.cpu_threads for row in found.rows) else []),
            )
        ),
        _chart_or_table(found, name),
        *([Facts(said)] if said else []),
        *doubt_notes({row.name: _doubts(row) for row in found.rows if row.latency is not None}, BOOK),
    ]


def document(found: AcceleratorsFound) -> dict[str, Any]:
    """The document of `hasten accelerators --json`."""
    recommended, why = recommend(found.rows)
    return {
        **to_data(found, BOOK),
        "rows": [_row_data(row) for row in found.rows],
        "outputs": BOOK.remark_data(comparison_of_outputs(found)),
        "recommended": recommended,
        "why": BOOK.text(why),
        "finding": BOOK.finding_data(finding_of(found.rows)),
    }


def _row_data(row: AcceleratorRow) -> dict[str, Any]:
    """A row, with a ladder only where one was asked for."""
    data = to_data(row, BOOK)
    if not row.ladder and row.ladder_trouble is None:
        for key in ("pays_from_macs", "ladder", "ladder_trouble"):
            del data[key]
    return data


def session_lines(found: AcceleratorsFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of an examination."""
    return [(NAME, found.model, to_data(found)), ("finding", NAME, to_data(finding_of(found.rows)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    return studies_section(AcceleratorsFound, NAME, lines, view)


def _doubts(row: AcceleratorRow) -> list[Remark]:
    """The doubts of its latency; that it kept more cores busy stands with the row."""
    return [doubt for doubt in row.doubts if doubt.code != MORE_CORES]


def _said(row: AcceleratorRow) -> str:
    return " ".join(filter(None, (BOOK.text(row.why), *(BOOK.text(told) for told in ladder_remarks(row)))))


def _chart_or_table(found: AcceleratorsFound, name: str) -> Block:
    """A bar for each accelerator that ran; on a terminal, and where none ran, the table alone."""
    sheet = _table(found.rows, f"{name}-table")
    bars = [_bar(row) for row in found.rows if row.latency is not None]
    if not bars:
        return sheet
    fastest = min(bars, key=lambda bar: bar.value)
    lowest = f"{milliseconds(fastest.value)} ({fastest.name})"
    said = f"A bar for each accelerator that ran. The lowest latency is {lowest}."
    return Chart(name, "Latency by accelerator", said, interval_bars(bars, "latency, ms"), sheet)


def _bar(row: AcceleratorRow) -> Bar:
    assert row.latency is not None
    told = f"{milliseconds(row.latency.median_ms)}, {row.status.value}"
    return Bar(row.name, row.latency.median_ms, *row.latency.ci95_ms, told, status_of(row.status.value))


def _table(rows: Sequence[AcceleratorRow], name: str) -> Table:
    headings = columns(
        *("accelerator", "status", "#placed", "#error", "#latency", "#?95 % CI", "#time ratio", "#start", "#?memory"),
        "#?repaid after",
    )
    statuses = tuple(row.status.value for row in rows)
    return Table(name, "Every accelerator that was examined", headings, tuple(map(_cells, rows)), marks=statuses)


def _cells(row: AcceleratorRow) -> tuple[Cell, ...]:
    ratio = row.against_cpu.ratio if row.against_cpu else None
    return (
        Cell(row.name),
        Cell(row.status.value),
        Cell("" if row.placed_ops is None else f"{row.placed_ops}/{row.total_ops}", row.placed_ops),
        Cell(_error(row), row.max_error),
        known(row.latency.median_ms if row.latency else None, milliseconds),
        Cell(_interval(row)),
        known(ratio, lambda ratio: f"{ratio:.2f}×" if ratio < _FAR else f"{ratio:.0f}×"),
        known(row.start_ms, milliseconds),
        known(row.peak_memory_mb, memory),
        known(row.break_even_runs, lambda runs: f"{runs:,} run{'' if runs == 1 else 's'}"),
    )


def _interval(row: AcceleratorRow) -> str:
    """Nothing after a single process, which has no interval."""
    return interval_ms(*row.latency.ci95_ms) if row.latency and math.isfinite(row.latency.ci95_ms[1]) else ""


def _error(row: AcceleratorRow) -> str:
    if row.max_error is None:
        return "NaN" if row.status is Status.WRONG else ""
    return percent(row.max_error) if row.max_error < _FAR else ">999 %"
