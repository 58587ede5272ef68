"""JSON that may be huge or cut off: arrays element by element, and documents closed where they break off."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.traces.content import Content

_CHUNK: Final = 1 << 20
_MOST_ELEMENT: Final = 16 << 20
_BETWEEN: Final = re.compile(r"[\s,]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_CLOSING: Final = {"[": "]", "{": "}"}


class CutOff(ValueError):
    """The document ends before its end, or is damaged; `why` says which."""


def array_elements(content: Content, begin: int) -> Iterator[Any]:
    """The elements of the array whose first one stands at or after this byte. CutOff where it breaks off."""
    decoder = json.JSONDecoder()
    letters = codecs.getincrementaldecoder("utf-8")("replace")
    text, at, position = "", 0, begin
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at least
        if at < len(text) and text[at] == "]":
            return
        try:
            element, end = decoder.raw_decode(text, at) if at < len(text) else (None, 0)
        except json.JSONDecodeError:
            element, end = None, 0
        except RecursionError:
            raise CutOff("an event is nested too deeply") from None
        # A number at the very end of what is here may go on in the next chunk.
        if end and (end < len(text) or position >= content.size):
            yield element
            at = end
            continue
        if position >= content.size:
            raise CutOff("the file ends inside its events")
        if len(text) - at > _MOST_ELEMENT:
            raise CutOff("an event cannot be read")
        text, at = text[at:] + letters.decode(content.data[position : position + _CHUNK]), 0
        position += _CHUNK
        content.told(position)


def document(content: Content) -> tuple[Any, str]:
    """The whole document, and what is wrong with it: nothing, or where it breaks off. None where nothing is left."""
    text = content.data[:].decode("utf-8", "replace")
    try:
        return json.loads(text), ""
    except RecursionError:
        return None, "the document is nested too deeply"
    except ValueError as error:
        position = getattr(error, "pos", len(text))
        cut = position >= len(text) - 1 or error.args[0].startswith("Unterminated string")
        why = "the file ends inside its document" if cut else f"the document is damaged at letter {position:,}"
        try:
            return json.loads(_closed(text, position)), why
        except (ValueError, RecursionError):
            return None, why


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
