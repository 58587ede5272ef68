"""Careful access to the data of a session's lines: what is absent, or not of the kind expected, is None or empty.

A report must open whatever a session holds: older files, cut-off work, kinds that came later.
"""

from __future__ import annotations

import math
from typing import Any


def at(data: object, *path: str | int) -> Any:
    """What stands there, or None."""
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list | tuple) and isinstance(step, int) and -len(data) <= step < len(data):
            data = data[step]
        else:
            return None
    return data


def number(data: object, *path: str | int) -> float | None:
    """A finite number, or None."""
    found = at(data, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def whole(data: object, *path: str | int) -> int | None:
    """A whole number, or None."""
    found = number(data, *path)
    return None if found is None else round(found)


def text(data: object, *path: str | int) -> str:
    """A text, or an empty one."""
    found = at(data, *path)
    return found if isinstance(found, str) else ""


def items(data: object, *path: str | int) -> list[Any]:
    """A list, or an empty one."""
    found = at(data, *path)
    return list(found) if isinstance(found, list | tuple) else []


def records(data: object, *path: str | int) -> list[dict[str, Any]]:
    """The mappings of a list."""
    return [entry for entry in items(data, *path) if isinstance(entry, dict)]
