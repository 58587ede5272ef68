"""Sections, tables and charts as HTML. Tables are whole without any script; a script makes them sort and filter.

Whatever is not markup already is escaped, so that no name from a model can become a tag.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import several
from hasten.show.blocks import Chart, Detail, Facts, Headline, Notes, Prose, Snippet, Table

if TYPE_CHECKING:
    from hasten.show.blocks import Block, Cell, Column, Section, Verdicts

_SYMBOLS: Final = {"good": "✓", "improved": "▲", "to do": "→", "not examined": "○", "undecided": "?"}
_LONG_TABLE: Final = 15
_MANY_WORDS, _SENTENCES = 24, 90
# More would make the list of statuses longer than what it filters.
_MOST_STATUSES: Final = 8
_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"
# Where a line must not end: between a number and its unit, and inside of "95 % CI", "top-1" and a range of numbers.
_NO_BREAK: Final = {
    re.compile(r"(?<=\d) (?=(?:%|[mµ]?s|min|[kMG]?B|pp|[mµ]?J|dB)(?!\w))|(?<=\d %) (?=CI\b)"): "\N{NO-BREAK SPACE}",
    re.compile(r"(?<=\btop)-(?=\d)"): "\N{NON-BREAKING HYPHEN}",
    re.compile(r"(?<=\d)–(?=\d)"): "–\N{WORD JOINER}",
}
_VOID: Final = frozenset({"meta", "link", "input", "br"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def escaped(value: object) -> Html:
    """Markup as it is, anything else as text. Characters that no HTML may have are shown as a replacement."""
    if isinstance(value, Html):
        return value
    text = str(value)
    if not text.isprintable():
        text = "".join(char if char in "\n\t" or char.isprintable() else _UNPRINTABLE for char in text)
    return Html(html.escape(text, quote=True))


def heading(text: str) -> Html:
    """Text in large letters, which has few words a line: numbers stay with their units."""
    found = str(escaped(text))
    for place, whole in _NO_BREAK.items():
        found = place.sub(whole, found)
    return Html(found)


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element. An attribute that is True stands alone, one that is None or False is left out; `class_` is `class`,
    and an underscore inside is a hyphen."""
    parts = [tag]
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(name)
        elif value is not None and value is not False:
            parts.append(f'{name}="{escaped(value)}"')
    inside = "".join(escaped(child) for child in children if child is not None)
    return Html(f"<{' '.join(parts)}>" if tag in _VOID else f"<{' '.join(parts)}>{inside}</{tag}>")


def joined(parts: list[Html]) -> Html:
    """Markup after markup."""
    return Html("\n".join(parts))


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or a line of the script."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def section_html(section: Section, names: set[str], *, charts: bool) -> Html:
    """A section with its heading; `names` are those of all sections, so that one can link to another."""
    name = f"{section.name}-heading"
    inside = [element("h2", heading(section.title), id=name)]
    inside += [_block(block, names, charts=charts) for block in section.blocks]
    return element("section", joined(inside), id=section.name, aria_labelledby=name)


def _block(block: Block, names: set[str], *, charts: bool) -> Html:
    if isinstance(block, Headline):
        return element("p", heading(block.text), class_="headline")
    if isinstance(block, Prose):
        return element("p", block.text, class_="lead")
    if isinstance(block, Table):
        return table_html(block)
    if isinstance(block, Chart):
        return _chart(block, charts=charts)
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Notes):
        return _notes(block)
    if isinstance(block, Snippet):
        return element("pre", element("code", block.text), tabindex="0", class_="scroll")
    if isinstance(block, Detail):
        return joined([_block(inside, names, charts=charts) for inside in block.blocks])
    return _verdicts(block, names)


def _chart(chart: Chart, *, charts: bool) -> Html:
    """The drawing, what it shows in words, and the same numbers as a table."""
    title = f"{chart.name}-title"
    words = [element("h3", heading(chart.title), id=title), element("p", chart.description, id=f"{chart.name}-words")]
    table = element(
        "details",
        element("summary", f"The numbers as a table ({several(len(chart.table.rows), 'row')})"),
        table_html(chart.table),
        id=f"{chart.name}-numbers",
        open=not charts,
    )
    plot = element(
        "div",
        id=f"{chart.name}-plot",
        class_="plot",
        data_chart=chart.name,
        role="img",
        aria_labelledby=title,
        aria_describedby=f"{chart.name}-words",
    )
    return element("figure", element("figcaption", joined(words)), plot if charts else None, table, class_="chart")


def _facts(facts: Facts) -> Html:
    pairs = [
        joined(
            [element("dt", name), element("dd", value, *(element("span", f" {text}", class_="note") for text in note))]
        )
        for name, value, *note in facts.rows
    ]
    return element("dl", joined(pairs), class_="facts")


def _notes(notes: Notes) -> Html:
    rows = [
        element("li", element("p", note.text), element("p", note.hint, class_="hint") if note.hint else None)
        for note in notes.rows
    ]
    return element("ul", joined(rows), class_="notes")


def _verdicts(verdicts: Verdicts, names: set[str]) -> Html:
    cards = []
    for row in verdicts.rows:
        title: object = row.title
        if row.practice in names:
            title = element("a", row.title, href=f"#{row.practice}")
        badge = element(
            "span",
            element("span", _SYMBOLS.get(row.standing, "•"), aria_hidden="true"),
            f" {row.standing}",
            class_=f"badge {row.standing.replace(' ', '-') if row.standing in _SYMBOLS else ''}".strip(),
        )
        inside = [element("h3", title), badge, element("p", row.evidence)]
        if row.what_to_do:
            inside.append(element("p", element("strong", "To do: "), row.what_to_do))
        cards.append(element("li", joined(inside)))
    return element("ul", joined(cards), class_="verdicts")


def table_html(sheet: Table) -> Html:
    """A table in a place of its own that scrolls, so that the page never does sideways."""
    heads = [_head(column) for column in sheet.columns]
    marks = sheet.marks or ("",) * len(sheet.rows)
    body = [_row(row, sheet.columns, mark) for row, mark in zip(sheet.rows, marks, strict=True)]
    table = element(
        "table",
        element("caption", sheet.caption),
        element("thead", element("tr", joined(heads))),
        element("tbody", joined(body)),
        id=sheet.name,
    )
    long = " long" if len(sheet.rows) > _LONG_TABLE else ""
    place = element("div", table, class_=f"scroll{long}", role="region", aria_label=sheet.caption, tabindex="0")
    return joined([_filter(sheet), place]) if sheet.filterable else place


def _filter(sheet: Table) -> Html:
    """Controls that the script shows once it can serve them."""
    name = f"{sheet.name}-filter"
    parts = [
        element("label", "Filter", for_=name),
        element("input", type="search", id=name, data_filter=sheet.name, placeholder="words in any column"),
    ]
    statuses = list(dict.fromkeys(mark for mark in sheet.marks if mark))
    if 1 < len(statuses) <= _MOST_STATUSES:
        choices = [element("option", "all", value=""), *(element("option", word, value=word) for word in statuses)]
        parts.append(element("label", "Status", for_=f"{name}-status"))
        parts.append(element("select", joined(choices), id=f"{name}-status", data_status=sheet.name))
    parts.append(element("output", f"{len(sheet.rows)} rows", for_=name, id=f"{sheet.name}-count"))
    return element("div", joined(parts), class_="controls", hidden=True)


def _head(column: Column) -> Html:
    if not column.title:
        return element("td")
    return element("th", column.title, scope="col", class_="number" if column.numeric else None)


def _width(text: str) -> str | None:
    return "prose" if len(text) > _SENTENCES else "words" if len(text) > _MANY_WORDS else None


def _row(row: tuple[Cell, ...], columns: tuple[Column, ...], mark: str) -> Html:
    cells = []
    for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
        inside: object = element("code", cell.text) if cell.code and cell.text else cell.text
        kind = "number" if column.numeric else None if cell.code else _width(cell.text)
        tag, scope = ("th", "row") if place == 0 else ("td", None)
        sort = None if cell.sort is None else f"{cell.sort:.10g}"
        cells.append(element(tag, inside, scope=scope, class_=kind, data_sort=sort))
    return element("tr", Html("".join(cells)), data_status=mark or None)
