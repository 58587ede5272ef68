"""JSON that may be huge or cut off: arrays element by element, and documents closed where they break off."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import DAMAGED, TRUNCATED
from hasten.core.remark import remark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.remark import Remark
    from hasten.traces.content import Content

_CHUNK: Final = 1 << 20
_MOST_ELEMENT: Final = 2 << 20
_BETWEEN: Final = re.compile(r"[\s,]*")
_NEXT: Final = re.compile(r"\}\s*,\s*\{")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_CLOSING: Final = {"[": "]", "{": "}"}


class CutOff(ValueError):
    """The document ends too early; `cause` says how."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def array_elements(content: Content, begin: int) -> Iterator[Any]:
    """The elements of the array whose first one stands at or after this byte; None for one that is damaged.

    CutOff where the file ends before the array does.
    """
    decoder = json.JSONDecoder()
    letters = codecs.getincrementaldecoder("utf-8")("replace")
    text, at, position = "", 0, begin
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at least
        if at < len(text) and text[at] == "]":
            return
        element, end = _decoded(decoder, text, at)
        # A number at the very end of what is here may go on in the next chunk.
        if end and (end < len(text) or position >= content.size):
            yield element
            at = end
        elif position < content.size and len(text) - at < _MOST_ELEMENT:
            text, at = text[at:] + letters.decode(content.data[position : position + _CHUNK]), 0
            position += _CHUNK
            content.told(position)
        elif (again := _NEXT.search(text, at)) is not None:
            yield None
            at = again.end() - 1
        else:
            raise CutOff("events" if position >= content.size else "event")


def _decoded(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """The value that begins here and where it ends; 0 where none can be read."""
    try:
        return decoder.raw_decode(text, at) if at < len(text) else (None, 0)
    except (ValueError, RecursionError):  # what is no JSON, or an integer of thousands of digits
        return None, 0


def document(content: Content) -> tuple[Any, Remark | None]:
    """The whole document, None where nothing can be read; and what is wrong with it, if anything."""
    text = content.data[:].decode("utf-8", "replace")
    try:
        return json.loads(text), None
    except RecursionError:
        return None, remark(DAMAGED, cause="nesting")
    except ValueError as error:
        position = getattr(error, "pos", len(text))
        cut = position >= len(text) - 1 or (text[position] == '"' and not _TOKEN.match(text, position))
        fault = remark(TRUNCATED, cause="document")
        if not cut:
            fault = remark(DAMAGED, cause="document", position=position)
        try:
            return json.loads(_closed(text, position)), fault
        except (ValueError, RecursionError):
            return None, fault


def _closed(text: str, position: int) -> str:
    """What stands before a position, up to the last whole element, with its brackets closed."""
    opened: list[str] = []
    safe, closing = 0, ""
    for token in _TOKEN.finditer(text, 0, position):
        letter = token[0]
        if letter in _CLOSING:
            opened.append(_CLOSING[letter])
        elif letter in "]}" and opened:
            opened.pop()
        elif letter != ",":
            continue
        safe = token.start() if letter == "," else token.end()
        closing = "".join(reversed(opened))
    return text[:safe] + closing
