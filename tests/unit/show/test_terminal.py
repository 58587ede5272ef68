"""Blocks on a terminal: nothing cut, nothing that steers the terminal, tables that stay readable."""

from __future__ import annotations

import pytest

from hasten.show.blocks import (
    Block,
    Cell,
    Chart,
    Detail,
    Facts,
    Headline,
    Note,
    Notes,
    Prose,
    Snippet,
    Table,
    VerdictRow,
    Verdicts,
    columns,
)
from hasten.show.terminal import cells_of, terminal_text, wrapped
from tests.unit.show.hostile import HOSTILE

WORDS = "several words that fill more than a line of a terminal, and then some more of them to be sure of it"


def table(*rows: tuple[str, ...], heads: tuple[str, ...] = ("name", "#time", "why")) -> Table:
    return Table("t", "A table", columns(*heads), tuple(tuple(map(Cell, row)) for row in rows))


def lines_of(*blocks: Block, verbose: bool = False) -> list[str]:
    return terminal_text(blocks, verbose=verbose).split("\n")


class TestTables:
    def test_what_fits_is_one_line_a_row(self) -> None:
        assert lines_of(table(("int8", "1.50 ms", "kept"), ("a longer name", "12.0 ms", "")))[:3] == [
            "name              time  why",
            "int8           1.50 ms  kept",
            "a longer name  12.0 ms",
        ]

    def test_texts_wrap_and_numbers_do_not(self) -> None:
        lines = lines_of(table(("int8", "1,234.50 ms", WORDS), ("float", "2 ms", WORDS)))
        assert all(cells_of(line) <= 80 for line in lines)
        assert sum("1,234.50 ms" in line for line in lines) == 1
        assert " ".join(WORDS.split()[:3]) in " ".join(lines)

    def test_columns_of_text_are_not_squeezed(self) -> None:
        heads = ("name", *(f"#figure{number}" for number in range(9)), "why")
        lines = lines_of(table(("int8+float9", *["123.456 ms"] * 9, WORDS), heads=heads))
        assert any("int8+float9" in line for line in lines)
        assert len(lines) < 20

    def test_a_long_name_is_continued_and_never_cut(self) -> None:
        name = "block_7/" * 20 + "depthwise"
        lines = lines_of(table((name, "1 ms", WORDS)))
        assert all(cells_of(line) <= 80 for line in lines)
        column = "".join(line[: line.index("  ")] if "  " in line else line for line in lines[1:])
        assert name in column.replace(" ", "")

    def test_details_are_shown_with_verbose_only(self) -> None:
        sheet = table(("a", "1 ms", "b"), heads=("name", "#?time", "why"))
        assert "1 ms" not in terminal_text([sheet])
        assert "1 ms" in terminal_text([sheet], verbose=True)

    def test_a_table_without_rows_shows_its_headings(self) -> None:
        assert lines_of(table()) == ["name  time  why"]

    def test_wide_letters_keep_columns_in_line(self) -> None:
        lines = lines_of(table(("模型", "1 ms", "x"), ("four", "1 ms", "x")))
        assert len({cells_of(line) for line in lines[1:]}) == 1

    @pytest.mark.parametrize("name", HOSTILE)
    def test_hostile_names_stay_letters(self, name: str) -> None:
        for line in lines_of(table((name, "1 ms", name))):
            assert line.isprintable()
            assert cells_of(line) <= 80

    def test_markup_is_text(self) -> None:
        assert "[bold]no[/bold] :smile:" in terminal_text([table(("[bold]no[/bold] :smile:", "1", ""))])


class TestOtherBlocks:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_nothing_steers_the_terminal(self, name: str) -> None:
        sheet = table((name, "1 ms", name))
        blocks: list[Block] = [
            Headline(name),
            Prose(name),
            Facts(((name, name), (name, name, name))),
            sheet,
            Chart("c", name, name, {}, sheet),
            Notes((Note(name, name),)),
            Snippet(f"{name}\nsecond line"),
            Verdicts((VerdictRow("p", name, "to do", name, name),)),
            Detail((Prose(name),)),
        ]
        assert all(line.isprintable() for line in lines_of(*blocks, verbose=True))

    def test_facts_stand_in_columns(self) -> None:
        assert lines_of(Facts((("latency", "1.5 ms", "95 % CI 1–2 ms"), ("p95", "12.5 ms", ""), ("model", "m")))) == [
            "  latency  1.5 ms   95 % CI 1–2 ms",
            "  p95      12.5 ms",
            "  model    m",
        ]

    def test_a_note_comes_with_its_hint(self) -> None:
        assert lines_of(Notes((Note("It is noisy.", "Measure longer."),))) == ["! It is noisy.", "  Measure longer."]

    def test_details_need_verbose(self) -> None:
        blocks: list[Block] = [Headline("Answer."), Detail((Prose("More."),))]
        assert terminal_text(blocks) == "Answer."
        assert terminal_text(blocks, verbose=True) == "Answer.\n\nMore."

    def test_verdicts_wrap_below_themselves(self) -> None:
        lines = lines_of(Verdicts((VerdictRow("threads", "Threads", "to do", WORDS, "Use 2."),)))
        assert lines[0].startswith("Threads  to do  several words")
        assert lines[1].startswith(" " * 16)

    def test_words_stay_whole(self) -> None:
        path = "/a/very/long/path" * 8
        assert wrapped(f"See {path} for more", 80) == ["See", path, "for more"]


def test_columns_that_do_not_fit_follow_below_with_what_tells_the_rows_apart() -> None:
    heads = ("condition", "#threads", *(f"#figure{number}" for number in range(9)))
    rows = tuple(
        (Cell(name), Cell(str(threads)), *(Cell(f"{number}.{threads} ms") for number in range(9)))
        for name in ("idle device", "busy device")
        for threads in (1, 2)
    )
    text = terminal_text([Table("t", "", columns(*heads), rows)])
    assert max(map(len, text.splitlines())) <= 80
    first, second = text.split("\n\n")
    for part in (first, second):
        assert [line.split()[:3] for line in part.splitlines()[1:]] == [
            [*name.split(), str(threads)] for name in ("idle device", "busy device") for threads in (1, 2)
        ]
    assert all(f"{number}.2 ms" in text for number in range(9))
