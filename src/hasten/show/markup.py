"""HTML from Python: whatever is not markup already is escaped, so that no name from a model can become a tag."""

from __future__ import annotations

import html
import json
from typing import Any, Final

_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"
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
