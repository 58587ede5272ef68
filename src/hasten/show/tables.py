"""Tables for a terminal: no frames, one blank between columns, cut to the width."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table() -> Table:
    """An empty table in the house style."""
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)


def rendered(grid: Table, columns: int) -> str:
    """The table as plain text. Names come from model files: brackets and colons in them are letters, not markup."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream, width=columns, color_system=None, legacy_windows=False, markup=False, emoji=False, highlight=False
    )
    console.print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())
