"""The examination of accelerators as text: a table of what runs, and a sentence for each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, percent, size
from hasten.report.text import WIDTH, printable, wrapped
from hasten.show.tables import rendered, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.practices.accelerators.facts import AcceleratorRow

_UNKNOWN: Final = "-"
_FAR: Final = 10.0


def accelerators_text(
    model: str, rows: Sequence[AcceleratorRow], recommendation: str, compared_on: str = "seeded noise"
) -> str:
    """The recommendation first, then the table, then what there is to say about each."""
    grid = table()
    grid.add_column("accelerator", no_wrap=True, overflow="ellipsis", width=15)
    grid.add_column("status", no_wrap=True, width=9)
    for title, width in (("placed", 9), ("error", 7), ("latency", 9), ("interval", 8), ("start", 8), ("memory", 7)):
        grid.add_column(title, justify="right", no_wrap=True, width=width)
    for row in rows:
        grid.add_row(*_cells(row))
    head = wrapped(f"{Path(model).name}: {recommendation}", "", "")
    lines = [line for row in rows for line in _notes(row)]
    lines += wrapped(f"error: against the reference kernels, on {printable(compared_on)}")
    return "\n".join([*head, "", rendered(grid, WIDTH), "", *lines])


def _notes(row: AcceleratorRow) -> list[str]:
    said = [row.why, row.pays.sentence() if row.pays else ""]
    text = "; ".join(part for part in said if part)
    return wrapped(f"{row.name}: {text}") if text else []


def _cells(row: AcceleratorRow) -> list[str]:
    return [
        printable(row.name),
        row.status,
        _UNKNOWN if row.placed_ops is None else f"{row.placed_ops}/{row.total_ops}",
        _UNKNOWN if row.error is None else "NaN" if math.isinf(row.error.worst) else _share(row.error.worst),
        _UNKNOWN if row.latency is None else milliseconds(row.latency.estimate),
        _interval(row),
        _UNKNOWN if row.start_ms is None else milliseconds(row.start_ms),
        _UNKNOWN if row.peak_memory_mb is None else size(round(row.peak_memory_mb * 1e6)),
    ]


def _interval(row: AcceleratorRow) -> str:
    """A dash after a single process, which has no interval."""
    if row.latency is None or not math.isfinite(row.latency.relative_half_width):
        return _UNKNOWN
    return f"±{_share(row.latency.relative_half_width)}"


def _share(value: float) -> str:
    """A share in six places: beyond ten times the range it is all the same."""
    return percent(value) if value < _FAR else ">999%"
