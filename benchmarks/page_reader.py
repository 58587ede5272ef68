"""A report as a reader sees it: the headline, tiles, tables, practices and chart data of an HTML page."""

from __future__ import annotations

import html.parser
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VOID: Final = frozenset({"meta", "link", "input", "br"})
# What keeps a number with its unit, or the ends of an interval together, is not seen: WORD JOINER, NON-BREAKING HYPHEN.
_UNSEEN: Final = str.maketrans({0x2060: "", 0x2011: "-"})


@dataclass(slots=True)
class Element:
    """An element of a page, and what is inside."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join(" ".join(parts).split()).translate(_UNSEEN)

    def all(self, tag: str, **attributes: str) -> Iterator[Element]:
        """The elements inside with this tag; with attributes, those that have them (`class_` is one of the classes)."""
        for child in self.children:
            if isinstance(child, str):
                continue
            if child.tag == tag and all(child.has(name, value) for name, value in attributes.items()):
                yield child
            yield from child.all(tag, **attributes)

    def has(self, name: str, value: str) -> bool:
        """Whether an attribute has a value."""
        found = self.attributes.get(name.rstrip("_"), "")
        return value in found.split() if name == "class_" else found == value


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: a dictionary of texts for each row, by heading."""

    name: str
    rows: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says."""

    headline: str
    tiles: dict[str, tuple[str, ...]]
    """Title → the value and the notes below it."""
    sheets: tuple[Sheet, ...]
    facts: tuple[tuple[str, str], ...]
    practices: dict[str, tuple[str, str]]
    """Title → verdict and evidence."""
    headings: tuple[str, ...]
    sentences: tuple[str, ...]
    charts: dict[str, list[dict[str, Any]]]
    """Chart → the values that it draws."""

    def sheet(self, name: str) -> tuple[dict[str, str], ...]:
        """The rows of a table; none if the page does not have it."""
        return next((sheet.rows for sheet in self.sheets if sheet.name == name), ())


def read_page(text: str) -> Page:
    """The page that an HTML text shows."""
    root = _Reader.tree(text)
    specs = next(root.all("script", id="chart-specs"), None)
    charts = json.loads(specs.text) if specs is not None and specs.text else {}
    return Page(
        headline=next((found.text for found in root.all("h1")), ""),
        tiles=dict(_tile(tile) for tiles in root.all("dl", class_="tiles") for tile in tiles.all("div")),
        sheets=tuple(map(_sheet, root.all("table"))),
        facts=tuple(pair for facts in root.all("dl", class_="facts") for pair in _facts(facts)),
        practices=dict(_practice(card) for cards in root.all("ul", class_="verdicts") for card in cards.all("li")),
        headings=tuple(found.text for found in root.all("h2")),
        sentences=tuple(found.text for found in root.all("p")),
        charts={name: values for name, spec in charts.items() if isinstance(values := _values(spec), list)},
    )


def _values(spec: dict[str, Any]) -> object:
    data = spec.get("data")
    return data.get("values") if isinstance(data, dict) else None


def _tile(tile: Element) -> tuple[str, tuple[str, ...]]:
    return next(tile.all("dt")).text, tuple(found.text for found in tile.all("dd"))


def _facts(facts: Element) -> Iterator[tuple[str, str]]:
    names, values = ([found.text for found in facts.all(tag)] for tag in ("dt", "dd"))
    yield from zip(names, values, strict=True)


def _practice(card: Element) -> tuple[str, tuple[str, str]]:
    badge = next(card.all("span", class_="badge"), None)
    verdict = "" if badge is None else badge.text.partition(" ")[2]
    return next(card.all("h3")).text, (verdict, next((found.text for found in card.all("p")), ""))


def _sheet(table: Element) -> Sheet:
    head, body = next(table.all("thead")), next(table.all("tbody"))
    # The cell above a column of names may be empty, and is then no heading.
    titles = [child.text for row in head.all("tr") for child in row.children if isinstance(child, Element)]
    rows = [[child.text for child in row.children if isinstance(child, Element)] for row in body.all("tr")]
    return Sheet(table.attributes.get("id", ""), tuple(dict(zip(titles, row, strict=True)) for row in rows))


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._open = [Element("", {})]

    @classmethod
    def tree(cls, text: str) -> Element:
        reader = cls()
        reader.feed(text)
        reader.close()
        return reader._open[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(found)
        if tag not in _VOID:
            self._open.append(found)

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1].tag == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)
