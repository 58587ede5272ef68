"""Blocks as Markdown, as a pull request shows it: long tables are folded away."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

from hasten.core.printable import printable
from hasten.show.blocks import Chart, Facts, Headline, Notes, Prose, Snippet, Table, Verdicts, flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.show.blocks import Block, Cell, Section

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~#&])")
# What would begin a list at the start of a line.
_LIST: Final = re.compile(r"^(\d*)([-+.)])(?=\s|$)")
# A comment in a pull request may have 65,536 characters.
_MOST_ROWS: Final = 40
_FOLD_FROM: Final = 10


def section_lines(section: Section) -> list[str]:
    """A section with its heading, as lines of Markdown."""
    return [f"## {plain(section.title)}", *block_lines(section.blocks)]


def block_lines(blocks: Sequence[Block]) -> list[str]:
    """Blocks as lines of Markdown, a blank line before each."""
    return [line for block in flat(blocks) for line in ("", *_block(block))]


def plain(text: str) -> str:
    """Text in which nothing is markup, in one line."""
    return _LIST.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", " ".join(printable(text).split())))


def _block(block: Block) -> list[str]:
    if isinstance(block, Headline):
        return [f"**{plain(block.text)}**"]
    if isinstance(block, Prose):
        return [plain(block.text)]
    if isinstance(block, Table):
        return _sheet(block)
    if isinstance(block, Chart):
        return [f"**{plain(block.title)}.** {plain(block.description)}", "", *_sheet(block.table)]
    if isinstance(block, Facts):
        width = max(map(len, block.rows), default=2)
        padded = [(*map(plain, row), *[""] * (width - len(row))) for row in block.rows]
        return table_lines(("",) * width, padded)
    if isinstance(block, Notes):
        return [f"- {plain(f'{note.text} {note.hint}'.strip())}" for note in block.rows]
    if isinstance(block, Snippet):
        return _fenced(block)
    assert isinstance(block, Verdicts)
    return _verdicts(block)


def _verdicts(block: Verdicts) -> list[str]:
    rows = [(row.title, row.standing, f"{row.evidence} {row.what_to_do}".strip()) for row in block.rows]
    return table_lines(("practice", "verdict", "evidence"), [tuple(map(plain, row)) for row in rows])


def _sheet(sheet: Table) -> list[str]:
    shown = [tuple(map(_cell, row)) for row in sheet.rows[:_MOST_ROWS]]
    titles = tuple(column.title for column in sheet.columns)
    table = table_lines(titles, shown, tuple(column.numeric for column in sheet.columns))
    if len(sheet.rows) > _MOST_ROWS:
        table += ["", f"{len(sheet.rows) - _MOST_ROWS} more rows are in the HTML report."]
    if len(shown) < _FOLD_FROM:
        return table
    return [
        f"<details><summary>{html.escape(sheet.caption)} ({len(sheet.rows)})</summary>",
        "",
        *table,
        "",
        "</details>",
    ]


def _cell(cell: Cell) -> str:
    return _code(cell.text) if cell.code and cell.text else plain(cell.text)


def _code(text: str) -> str:
    """Code in a cell: fenced by more backticks than it has, and no bar in it ends the cell."""
    line = " ".join(printable(text).split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _fenced(snippet: Snippet) -> list[str]:
    text = "\n".join(printable(line) for line in snippet.text.expandtabs(4).splitlines())
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [f"{fence}{snippet.language}", text, fence]


def table_lines(titles: tuple[str, ...], rows: list[tuple[str, ...]], numeric: tuple[bool, ...] = ()) -> list[str]:
    """A table; what is in it is Markdown already."""
    marks = ["--:" if place < len(numeric) and numeric[place] else "---" for place in range(len(titles))]
    return [
        f"| {' | '.join(map(plain, titles))} |",
        f"| {' | '.join(marks)} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
