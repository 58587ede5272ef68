"""The report as Markdown, as a pull request shows it: the verdict, the numbers, and long tables folded away."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

from hasten.report.document.blocks import Chart, Code, Facts, Prose, Sheet
from hasten.report.document.build import sections_of
from hasten.report.summary.build import summarise

if TYPE_CHECKING:
    from hasten.core.session import Session
    from hasten.report.document.blocks import Block, Cell, Section, Verdicts

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~#&])")
# A comment in a pull request may have 65,536 characters.
_MOST_ROWS: Final = 40
_FOLD_FROM: Final = 10


def markdown_report(session: Session, *, source: str = "") -> str:
    """A session as Markdown."""
    summary = summarise(session, source)
    lines = [f"# {plain(summary.headline)}", "", f"hasten report for **{plain(summary.title)}**"]
    if summary.state in ("interrupted", "unfinished"):
        lines += ["", f"*{summary.state}: this is what there is so far.*"]
    if summary.lost_lines:
        lines += ["", f"*{summary.lost_lines} lines of the session file could not be read.*"]
    for warning in summary.warnings:
        lines += ["", f"*{plain(warning)}*"]
    if summary.facts:
        rows = [(fact.title, fact.value, fact.before, fact.note) for fact in summary.facts]
        lines += ["", *_table(("", "", "", ""), [tuple(map(plain, row)) for row in rows])]
    for section in sections_of(summary):
        lines += ["", *_section(section)]
    return "\n".join(lines).rstrip() + "\n"


def plain(text: str) -> str:
    """Text in which nothing is markup, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _section(section: Section) -> list[str]:
    lines = [f"## {plain(section.title)}"]
    for block in section.blocks:
        lines += ["", *_block(block)]
    return lines


def _block(block: Block) -> list[str]:
    if isinstance(block, Prose):
        return [plain(block.text)]
    if isinstance(block, Sheet):
        return _sheet(block)
    if isinstance(block, Chart):
        return [f"**{plain(block.title)}.** {plain(block.description)}", "", *_sheet(block.sheet)]
    if isinstance(block, Facts):
        return _table(("", ""), [(plain(name), plain(value)) for name, value in block.rows])
    if isinstance(block, Code):
        return _fenced(block.text)
    return _verdicts(block)


def _verdicts(block: Verdicts) -> list[str]:
    rows = [(row.title, row.standing, f"{row.evidence} {row.what_to_do}".strip()) for row in block.rows]
    return _table(("practice", "verdict", "evidence"), [tuple(map(plain, row)) for row in rows])


def _sheet(sheet: Sheet) -> list[str]:
    shown = [tuple(map(_cell, row)) for row in sheet.rows[:_MOST_ROWS]]
    titles = tuple(column.title for column in sheet.columns)
    table = _table(titles, shown, tuple(column.numeric for column in sheet.columns))
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
    line = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _fenced(text: str) -> list[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [fence, text, fence]


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]], numeric: tuple[bool, ...] = ()) -> list[str]:
    marks = ["--:" if place < len(numeric) and numeric[place] else "---" for place in range(len(titles))]
    return [
        f"| {' | '.join(map(plain, titles))} |",
        f"| {' | '.join(marks)} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
