"""Names from files as text that cannot steer a terminal: a tensor, a class or a file can be named anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORMULA: Final = ("=", "+", "-", "@")
LOG_INDENT: Final = "  | "


def printable(text: str) -> str:
    """The text in one line, with a blank in place of each control character."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def cell_text(text: str) -> str:
    """The same for a cell of CSV: a quotation mark stands before what would be a formula to a spreadsheet."""
    plain = printable(text)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA) else plain


def printable_lines(text: str) -> str:
    """The same for a text whose line breaks are meant."""
    return "\n".join(map(printable, text.split("\n")))


def with_log(sentence: str, log: Iterable[str]) -> str:
    """A sentence in one line, and lines of a log below it. They are given apart: a name in the sentence could hold what
    begins such a line."""
    return f"\n{LOG_INDENT}".join(map(printable, (sentence, *log)))
