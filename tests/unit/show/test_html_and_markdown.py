"""Blocks as HTML and Markdown: whatever a name holds, it stays text, in its cell."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Headline,
    Note,
    Notes,
    Prose,
    Section,
    Snippet,
    Table,
    VerdictRow,
    Verdicts,
    charts_of,
    columns,
)
from hasten.show.html import heading, section_html
from hasten.show.markdown import block_lines, plain, section_lines
from tests.unit.show.hostile import HOSTILE


def section(name: str) -> Section:
    sheet = Table("sheet", name, columns("name", "#time"), ((Cell(name, code=True), Cell(name, 1.0)),), marks=(name,))
    inside = (
        Headline(name),
        Prose(name),
        Facts(((name, name), (name, name, name))),
        sheet,
        Notes((Note(name, name), Note(name))),
        Snippet(name, "python"),
        Verdicts((VerdictRow("threads", name, "to do", name, name),)),
    )
    return Section("s", name, (*inside, Detail((Chart("chart", name, name, {}, sheet),))))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("charts", [True, False])
def test_html_is_well_formed_and_no_name_is_a_tag(name: str, charts: bool) -> None:
    tags = _Tags()
    tags.feed(section_html(section(name), {"threads"}, charts=charts))
    assert tags.open == []
    assert tags.seen.isdisjoint({"script", "b", "img"})


def test_html_has_the_classes_that_the_styles_know() -> None:
    shown = section_html(section("x"), set(), charts=False)
    for name in ("headline", "lead", "notes", "hint", "note", "facts", "verdicts", "badge to-do"):
        assert f'class="{name}"' in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_keeps_a_name_in_its_cell(name: str) -> None:
    lines = section_lines(section(name))
    assert all(line.isprintable() for text in lines for line in text.split("\n"))
    rows = [line for line in lines if line.startswith("| ")]
    cells = [row.replace("\\|", "").count("|") for row in rows]
    # Facts have three columns, tables two, verdicts three.
    assert set(cells) <= {3, 4}


def test_markdown_escapes_what_would_be_markup() -> None:
    assert plain("*a* <b> [c](d) `e` | # f") == "\\*a\\* \\<b\\> \\[c\\](d) \\`e\\` \\| \\# f"
    assert plain("- item") == "\\- item"
    assert plain("1. item") == "1\\. item"
    assert plain("1.5 ms - 2 ms") == "1.5 ms - 2 ms"


def test_markdown_fences_are_longer_than_those_inside() -> None:
    assert block_lines([Snippet("```\ncode\n```", "sh")]) == ["", "````sh", "```\ncode\n```", "````"]


def test_markdown_shows_details_too() -> None:
    assert "More\\." not in "\n".join(block_lines([Detail((Prose("More."),))]))
    assert "More." in "\n".join(block_lines([Detail((Prose("More."),))]))


def test_charts_are_found_inside_details() -> None:
    assert [chart.name for chart in charts_of([section("x")])] == ["chart"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2.3× faster (95 % CI 2.0–2.5)", "2.3× faster (95\u00a0%\u00a0CI 2.0–\u20602.5)"),
        ("top-1 of 92.1 % in 3.07 ms", "top\u20111 of 92.1\u00a0% in 3.07\u00a0ms"),
        ("14.0 MB and 5 models, sea-level", "14.0\u00a0MB and 5 models, sea-level"),
        ("<b>1 s</b>", "&lt;b&gt;1\u00a0s&lt;/b&gt;"),
    ],
)
def test_a_heading_keeps_numbers_with_their_units(text: str, shown: str) -> None:
    assert heading(text) == shown
    assert shown in section_html(Section("x", text, (Headline(text),)), {"x"}, charts=False)
