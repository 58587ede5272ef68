"""Names from files as text that cannot steer a terminal: a tensor, a class or a file can be named anything."""

from __future__ import annotations

from typing import Final

LOG_LINE: Final = "\n  | "
"""What begins each line of a log behind the sentence of an error."""


def printable(text: str) -> str:
    """The text in one line, with a blank in place of each control character."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def printable_lines(text: str) -> str:
    """The same for a text whose line breaks are meant."""
    return "\n".join(map(printable, text.split("\n")))


def printable_message(text: str) -> str:
    """The same for a sentence that may have lines of a log behind it."""
    return LOG_LINE.join(map(printable, text.split(LOG_LINE)))
