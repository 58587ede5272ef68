"""A weighing as blocks and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.practices.weight.facts import WeightFound
from hasten.practices.weight.rules import NAME, finding_of
from hasten.practices.weight.words import BOOK

from hasten.core.codec import from_data, to_data
from hasten.show.blocks import Cell, Headline, Section, Table, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block


def view(found: WeightFound) -> list[Block]:
    """The answer, and the file."""
    row = (Cell(found.model.path), Cell(f"{found.model.size_bytes:,}", found.model.size_bytes))
    return [
        Headline(BOOK.text(finding_of(found).remark)),
        Table("weight-table", "Files", columns("file", "#bytes"), (row,)),
    ]


def document(found: WeightFound) -> dict[str, Any]:
    """The document of `hasten weight --json`."""
    return {**to_data(found), "finding": BOOK.finding_data(finding_of(found))}


def session_lines(found: WeightFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps."""
    return [(NAME, found.model.path, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    found = [from_data(WeightFound, line.data) for line in lines if line.kind == NAME]
    return [Section(NAME, "Weight", tuple(block for one in found for block in view(one)))] if found else []
