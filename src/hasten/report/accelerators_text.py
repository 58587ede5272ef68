"""The examination of accelerators as text: a table of what runs, and a sentence for each."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, percent
from hasten.report.tables import rendered, table
from hasten.report.text import WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.acceleration import AcceleratorRow

_UNKNOWN: Final = "-"


def accelerators_text(model: str, rows: Sequence[AcceleratorRow], recommendation: str) -> str:
    """The recommendation first, then the table, then what there is to say about each."""
    grid = table()
    grid.add_column("accelerator", no_wrap=True, overflow="ellipsis", width=16)
    grid.add_column("status", no_wrap=True, width=9)
    for title, width in (("placed", 8), ("error", 7), ("latency", 9), ("interval", 9), ("start", 9), ("memory", 6)):
        grid.add_column(title, justify="right", no_wrap=True, width=width)
    for row in rows:
        grid.add_row(*_cells(row))
    notes = []
    for row in rows:
        if row.why:
            notes += textwrap.wrap(f"{row.name}: {row.why}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    head = textwrap.wrap(f"{Path(model).name}: {recommendation}", WIDTH)
    return "\n".join([*head, "", rendered(grid, WIDTH), "", *notes])


def _cells(row: AcceleratorRow) -> list[str]:
    start = None if row.init_ms is None or row.first_run_ms is None else row.init_ms + row.first_run_ms
    return [
        row.name,
        row.status,
        _UNKNOWN if row.placed_ops is None else f"{row.placed_ops}/{row.total_ops}",
        _UNKNOWN if row.error is None else percent(row.error.worst),
        _UNKNOWN if row.latency is None else milliseconds(row.latency.estimate),
        _UNKNOWN if row.latency is None else f"±{percent(row.latency.relative_half_width)}",
        _UNKNOWN if start is None else milliseconds(start),
        _UNKNOWN if row.peak_memory_mb is None else f"{row.peak_memory_mb:.0f} MB",
    ]
