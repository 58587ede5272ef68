"""Blocks as plain text for a terminal: the answer first, tables without frames, nothing cut."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Final

from hasten.show.blocks import Chart, Detail, Facts, Headline, Notes, Prose, Snippet, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.show.blocks import Block, Verdicts

WIDTH: Final = 80
_TITLE_WIDTH: Final = 14


def terminal_text(blocks: Sequence[Block], *, width: int = WIDTH, verbose: bool = False) -> str:
    """The blocks as text, a blank line between them."""
    parts = [
        text
        for block in blocks
        if verbose or not isinstance(block, Detail)
        if (text := _block(block, width, verbose=verbose))
    ]
    return "\n\n".join(parts)


def wrapped(text: str, width: int = WIDTH, first: str = "", rest: str = "") -> list[str]:
    """Lines no wider than the terminal; words (paths, options, names) stay whole."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _block(block: Block, width: int, *, verbose: bool) -> str:
    if isinstance(block, Headline | Prose):
        return "\n".join(wrapped(block.text, width))
    if isinstance(block, Facts):
        return _facts(block, width)
    if isinstance(block, Table):
        return _table(block, width, verbose=verbose)
    if isinstance(block, Chart):
        return _table(block.table, width, verbose=verbose) if block.on_terminal or verbose else ""
    if isinstance(block, Notes):
        return "\n".join(_notes(block, width))
    if isinstance(block, Snippet):
        return textwrap.indent(block.text, "  ")
    if isinstance(block, Detail):
        return terminal_text(block.blocks, width=width, verbose=verbose)
    return "\n".join(_verdicts(block, width))


def _facts(facts: Facts, width: int) -> str:
    """Names, values and notes in columns; a long value wraps below itself."""
    names = max((len(row[0]) for row in facts.rows), default=0)
    values = max((len(row[1]) for row in facts.rows if len(row) > 2), default=0)
    lines = []
    for name, value, *note in facts.rows:
        first = f"  {name:<{names}}  "
        if note:
            lines += wrapped(f"{value:<{values}}  {note[0]}", width, first, " " * len(first))
        else:
            lines += wrapped(value, width, first, " " * len(first)) or [first.rstrip()]
    return "\n".join(lines)


def _notes(block: Notes, width: int) -> list[str]:
    lines = []
    for note in block.rows:
        lines += wrapped(note.text, width, "! ", "  ")
        lines += wrapped(note.hint, width, "  ", "  ")
    return lines


def _verdicts(verdicts: Verdicts, width: int) -> list[str]:
    """A paragraph for each practice, its name and verdict at the left."""
    lines: list[str] = []
    for row in verdicts.rows:
        head = f"{row.title:<{_TITLE_WIDTH}}{row.standing:<14}"
        lines += wrapped(f"{row.evidence} {row.what_to_do}".strip(), width, head, " " * len(head))
    return lines


def _table(sheet: Table, width: int, *, verbose: bool) -> str:
    """The table by rich. Names come from model files: brackets and colons in them are letters, not markup."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    shown = [place for place, column in enumerate(sheet.columns) if verbose or not column.detail]
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place in shown:
        column = sheet.columns[place]
        # Numbers keep to one line; of the texts, a name wraps where it must and is never cut.
        grid.add_column(
            Text(column.title), justify="right" if column.numeric else "left", no_wrap=column.numeric, overflow="fold"
        )
    for row in sheet.rows:
        grid.add_row(*(Text(row[place].text) for place in shown))
    stream = io.StringIO()
    options = {"color_system": None, "legacy_windows": False, "markup": False, "emoji": False, "highlight": False}
    Console(file=stream, width=width, **options).print(grid)  # type: ignore[arg-type]
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())
