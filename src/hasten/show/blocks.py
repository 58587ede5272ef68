"""The parts of whatever hasten shows. Terminal, HTML and Markdown render the same ones, so that they cannot differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.core.codec import from_data
from hasten.core.doubts import worst_of
from hasten.core.units import first_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hasten.core.finding import Finding
    from hasten.core.phrases import Phrasebook
    from hasten.core.remark import Remark
    from hasten.core.session import Line


N = TypeVar("N", int, float)
T = TypeVar("T")
_MOST_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer, in a sentence or two. It comes first."""

    text: str


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, each with a note where it needs one."""

    rows: tuple[tuple[str, ...], ...]
    """(name, value) or (name, value, note)."""


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
    detail: bool = False
    """Whether a terminal shows it only with --verbose."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below headings."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    filterable: bool = False
    marks: tuple[str, ...] = ()
    """A word for each row (its status), which may be colored and filtered by; empty for none."""
    most: int = 0
    """The number of rows that a terminal shows without --verbose; 0 for all."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite or Vega specification, what it shows in words, and the same numbers as a table."""

    name: str
    title: str
    description: str
    spec: dict[str, Any]
    table: Table
    on_terminal: bool = True
    """Whether a terminal shows the table in its place."""


@dataclass(frozen=True, slots=True)
class Note:
    """One remark in words: what is to be known, and what to do about it."""

    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """Remarks about what stands above."""

    rows: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to copy into a shell or a program."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """How the model stands with one practice of the guide, in words."""

    practice: str
    title: str
    standing: str
    evidence: str
    what_to_do: str = ""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How the model stands with each practice."""

    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """What repeats or serves experts: always on the page, on a terminal only with --verbose."""

    blocks: tuple[Block, ...]


Block = Headline | Prose | Facts | Table | Chart | Notes | Snippet | Verdicts | Detail


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def studies_section(
    record: type[T], kind: str, lines: Sequence[Line], view: Callable[[T, str], list[Block]]
) -> list[Section]:
    """The studies of one kind in a session, each with a name for its charts; a later one of a label replaces it."""
    found = {line.label: from_data(record, line.data) for line in lines if line.kind == kind}
    names = (f"{kind}-{place}" if place else kind for place in range(len(found)))
    blocks = [block for study, name in zip(found.values(), names, strict=True) for block in view(study, name)]
    return [Section(kind, kind.capitalize(), tuple(blocks))] if blocks else []


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns from their headings; `#` before one means numbers, `?` only with --verbose on a terminal."""
    return tuple(Column(title.lstrip("#?"), "#" in title[:2], "?" in title[:2]) for title in titles)


def cell(value: object, sort: float | None = None) -> Cell:
    """A cell from a value; what is not known stays empty."""
    if isinstance(value, float):
        return Cell(f"{value:.4g}", value if sort is None else sort)
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(f"{value:,}", float(value) if sort is None else sort)
    return Cell("" if value is None else str(value), sort)


def known(value: N | None, text: Callable[[N], str]) -> Cell:
    """A number as it is to be written; what is not known stays empty."""
    return Cell("" if value is None else text(value), value)


def answer(remark: Remark, book: Phrasebook) -> Headline:
    """What a finding says and what to do about it, as the headline."""
    return Headline(f"{book.text(remark)} {book.hint(remark)}".strip())


def sentences(texts: Iterable[str]) -> list[Block]:
    """Sentences as a block of notes; none where there are none."""
    rows = tuple(Note(text) for text in texts)
    return [Notes(rows)] if rows else []


def notes(remarks: Sequence[Remark], book: Phrasebook) -> list[Block]:
    """Remarks in words, as a block; none where there are none. Each sentence once, and a few of a kind at most."""
    kinds: dict[str, list[Note]] = {}
    for remark in remarks:
        note = Note(book.text(remark), book.hint(remark))
        alike = kinds.setdefault(remark.code or note.text, [])
        if note not in alike:
            alike.append(note)
    rows = [row for alike in kinds.values() for row in _few_of(alike)]
    return [Notes(tuple(rows))] if rows else []


def _few_of(alike: Sequence[Note]) -> list[Note]:
    """Notes of one kind, what to do about them after the last; of many, the first few and the number of the others."""
    shown = list(alike[:_MOST_NAMES]) if len(alike) > _MOST_NAMES + 1 else list(alike)
    if len({note.hint for note in shown}) == 1:
        shown = [*(replace(note, hint="") for note in shown[:-1]), shown[-1]]
    if (more := len(alike) - len(shown)) > 0:
        shown.append(Note(f"{more} more like these; --json lists them."))
    return shown


def doubt_notes(doubts: Mapping[str, Sequence[Remark]], book: Phrasebook) -> list[Block]:
    """Doubts of several figures, by the figures' names: each kind once, the gravest, and whose it is unless all's."""
    kinds: dict[str, dict[str, list[Remark]]] = {}
    for name, found in doubts.items():
        for doubt in found:
            kinds.setdefault(doubt.code or book.text(doubt), {}).setdefault(name, []).append(doubt)
    rows = []
    for named in kinds.values():
        worst = worst_of([doubt for alike in named.values() for doubt in alike])
        whose = "" if len(named) == len(doubts) else f"{first_few(list(named), _MOST_NAMES)}: "
        rows.append(Note(f"{whose}{book.text(worst)}", book.hint(worst)))
    return [Notes(tuple(rows))] if rows else []


def verdict_row(finding: Finding, title: str, book: Phrasebook) -> VerdictRow:
    """A finding in words."""
    said, to_do = book.text(finding.remark), book.hint(finding.remark)
    return VerdictRow(finding.practice, title, finding.standing.value, said, to_do)


def flat(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, with those of details in their place."""
    found: list[Block] = []
    for block in blocks:
        found += flat(block.blocks) if isinstance(block, Detail) else [block]
    return found


def charts_of(sections: Sequence[Section]) -> list[Chart]:
    """The charts of a document, in their order."""
    return [block for section in sections for block in flat(section.blocks) if isinstance(block, Chart)]
