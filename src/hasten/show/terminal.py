"""Blocks as plain text for a terminal: the answer first, tables without frames, no name cut."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from hasten.core.printable import printable
from hasten.show.blocks import Chart, Detail, Facts, Headline, Notes, Prose, Snippet, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.show.blocks import Block, Verdicts

WIDTH: Final = 80
_GAP: Final = "  "
# A column of text is never squeezed below this, nor below a word of its own up to the second figure.
_MOST_KEYS: Final = 3
_NARROWEST, _LONGEST_WORD = 12, 28
_UNITS: Final = frozenset(("%", "s", "ms", "µs", "min", "B", "kB", "MB", "GB", "pp", "GFLOP/s", "GOP/s", "GB/s"))
# A name that has to be broken is broken behind one of these.
_JOINTS: Final = "/_.,;:+-@="


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
    lines: list[str] = []
    line = ""
    for word in _words(printable(text)):
        indent = rest if lines else first
        if line and cells_of(f"{indent}{line} {word}") > width:
            lines.append(f"{indent}{line}")
            line = word
        else:
            line = f"{line} {word}".lstrip()
    return [*lines, f"{rest if lines else first}{line}"] if line else []


def _words(text: str) -> list[str]:
    """The words of a text; a number and its unit are one."""
    words: list[str] = []
    for word in text.split():
        if words and words[-1][-1].isdigit() and word.rstrip(".,;:)") in _UNITS:
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def cells_of(text: str) -> int:
    """The columns that a text takes on a terminal: wide letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
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
        return "\n".join(f"  {printable(line)}".rstrip() for line in block.text.expandtabs(4).splitlines())
    if isinstance(block, Detail):
        return terminal_text(block.blocks, width=width, verbose=verbose)
    return "\n".join(_verdicts(block, width))


def _facts(facts: Facts, width: int) -> str:
    """Names, values and notes in columns; a long value wraps below itself."""
    rows = [[printable(part) for part in row] for row in facts.rows]
    names = max((cells_of(row[0]) for row in rows), default=0)
    values = max((cells_of(row[1]) for row in rows if len(row) > 2), default=0)
    lines = []
    for name, value, *note in rows:
        first = f"  {_padded(name, names)}  "
        if note and note[0]:
            first += f"{_padded(value, values)}  "
            lines += wrapped(note[0], width, first, " " * cells_of(first))
        else:
            lines += wrapped(value, width, first, " " * cells_of(first)) or [first.rstrip()]
    return "\n".join(lines)


def _notes(block: Notes, width: int) -> list[str]:
    lines = []
    for note in block.rows:
        lines += wrapped(note.text, width, "! ", "  ")
        lines += wrapped(note.hint, width, "  ", "  ")
    return lines


def _verdicts(verdicts: Verdicts, width: int) -> list[str]:
    """A paragraph for each practice, its name and verdict at the left."""
    titles = max((cells_of(printable(row.title)) for row in verdicts.rows), default=0)
    standings = max((cells_of(row.standing) for row in verdicts.rows), default=0)
    lines: list[str] = []
    for row in verdicts.rows:
        head = f"{_padded(printable(row.title), titles)}  {_padded(row.standing, standings)}  "
        lines += wrapped(f"{row.evidence} {row.what_to_do}", width, head, " " * cells_of(head)) or [head.rstrip()]
    return lines


def _table(sheet: Table, width: int, *, verbose: bool) -> str:
    """Columns side by side, empty ones left out. Numbers keep to one line; texts wrap, but are not squeezed: columns
    that cannot fit follow below, each row with what tells it from the others again."""
    shown = [
        place
        for place, column in enumerate(sheet.columns)
        if (verbose or not column.detail) and (not sheet.rows or any(row[place].text for row in sheet.rows))
    ]
    heads = [printable(sheet.columns[place].title) for place in shown]
    numeric = [sheet.columns[place].numeric for place in shown]
    # To say that one row is left out takes as much room as the row itself.
    fits = verbose or not sheet.most or len(sheet.rows) <= sheet.most + 1
    most = len(sheet.rows) if fits else sheet.most
    rows = [[printable(row[place].text).strip() for place in shown] for row in sheet.rows[:most]]
    lines: list[str] = []
    for group in _fitting(heads, rows, numeric, width):
        lines += [""] if lines else []
        lines += _part(group, heads, rows, numeric, width)
    if (more := len(sheet.rows) - most) > 0:
        lines.append(f"… {more} more (--verbose shows them)")
    return "\n".join(lines)


def _part(
    group: Sequence[int], heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[str]:
    """Some columns of a table."""
    kinds = [numeric[place] for place in group]
    parts = [[row[place] for place in group] for row in (heads, *rows)]
    widths = _widths(parts[0], parts[1:], kinds, width)
    return [line for part in parts for line in _row_lines(part, widths, kinds)]


def _fitting(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[list[int]]:
    """Which columns stand side by side: all where that fits, else as many as do, each time with the first ones."""
    keys = list(range(_columns_that_tell_rows_apart(rows)))
    _, least = _full_and_least(heads, rows, numeric)
    groups: list[list[int]] = [[]]
    for place in range(len(heads)):
        group = groups[-1]
        if len(group) > len(keys) and sum(least[it] + len(_GAP) for it in group) + least[place] > width:
            group = keys.copy()
            groups.append(group)
        group.append(place)
    return groups


def _columns_that_tell_rows_apart(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first columns do; one if a few do not."""
    apart = (count for count in range(1, _MOST_KEYS + 1) if len({tuple(row[:count]) for row in rows}) == len(rows))
    return next(apart, 1)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int) -> list[int]:
    """The columns' widths: as wide as what they hold where that fits, else the widest are narrowed first."""
    widths, least = _full_and_least(heads, rows, numeric)
    while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        spare = [place for place in range(len(widths)) if widths[place] > least[place]]
        if not spare:
            break
        widths[max(spare, key=lambda place: widths[place])] -= 1
    return widths


def _full_and_least(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """The widths of columns that hold everything on one line, and those that they can be narrowed to."""
    columns = [[row[place] for row in rows] for place in range(len(heads))]
    full = [max(map(cells_of, (head, *column))) for head, column in zip(heads, columns, strict=True)]
    least = [_least(*column) for column in zip(heads, columns, numeric, strict=True)]
    return full, [min(pair) for pair in zip(full, least, strict=True)]


def _least(head: str, column: Sequence[str], is_number: bool) -> int:
    heading = _longest_word(head)
    if is_number:
        return max([heading, *map(cells_of, column)])
    words = max((_longest_word(text) for text in column), default=0)
    return max(heading, _NARROWEST, min(words, _LONGEST_WORD))


def _longest_word(text: str) -> int:
    return max(map(cells_of, text.split()), default=0)


def _row_lines(texts: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    stacks = [_in_column(text, width) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for height in range(max(map(len, stacks), default=0)):
        parts = [
            _padded(stack[height] if height < len(stack) else "", width, right=is_number)
            for stack, width, is_number in zip(stacks, widths, numeric, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return lines or [""]


def _in_column(text: str, width: int) -> list[str]:
    """A text in lines of a column; a word that is longer than the column goes on in the next line."""
    pieces = [piece for word in text.split() for piece in _pieces(word, max(width, 1))]
    lines: list[str] = []
    for piece, begins_word in pieces:
        if lines and begins_word and cells_of(f"{lines[-1]} {piece}") <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines or [""]


def _pieces(word: str, width: int) -> list[tuple[str, bool]]:
    """A word in pieces that fit, each with whether it begins the word."""
    pieces: list[tuple[str, bool]] = []
    while cells_of(word) > width:
        end = next(end for end in range(1, len(word) + 1) if end == len(word) or cells_of(word[: end + 1]) > width)
        joint = max((word.rfind(letter, 0, end) + 1 for letter in _JOINTS), default=0)
        end = joint if joint > end // 2 else end
        pieces.append((word[:end], not pieces))
        word = word[end:]
    return [*pieces, (word, not pieces)] if word else pieces


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * max(0, width - cells_of(text))
    return blanks + text if right else text + blanks
