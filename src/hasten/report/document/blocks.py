"""The parts of a report: sections of prose, tables, charts and commands. HTML and Markdown print the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasten.report.summary.records import VerdictRow


@dataclass(frozen=True, slots=True)
class Cell:
    """An entry of a table, and what it is sorted by where that is not its text."""

    text: str
    sort: float | None = None
    code: bool = False
    """Whether it is something to type or a name from a file, shown as such."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading."""

    title: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    filterable: bool = False
    marks: tuple[str, ...] = ()
    """A word for each row (its status), which may be coloured and filtered by; empty for none."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a Vega-Lite or Vega specification, what it shows in words, and the same numbers as a table."""

    name: str
    title: str
    description: str
    spec: dict[str, Any]
    sheet: Sheet


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Something to copy into a shell or a program."""

    text: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How the model stands with each practice."""

    rows: tuple[VerdictRow, ...]


Block = Sheet | Chart | Prose | Facts | Code | Verdicts


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns from their headings; `#` before one means numbers."""
    return tuple(Column(title.removeprefix("#"), title.startswith("#")) for title in titles)


def cell(value: object, sort: float | None = None) -> Cell:
    """A cell from a value; what is not known stays empty."""
    if isinstance(value, float):
        return Cell(f"{value:.4g}", value if sort is None else sort)
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(f"{value:,}", float(value) if sort is None else sort)
    return Cell("" if value is None else str(value), sort)
