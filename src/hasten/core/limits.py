"""Limits that a user sets besides accuracy: the latency or size of the result, and the time of the search."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from hasten.core.codec import key, record
from hasten.core.errors import UsageError
from hasten.core.remark import Remark, remark
from hasten.core.units import milliseconds, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MILLISECONDS: Final = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
BYTES: Final = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# What an undecided check does to a pipeline. A gate that cannot decide must not be green by accident.
UNDECIDED_CHOICES: Final = ("pass", "fail")
DEFAULT_UNDECIDED: Final = "fail"
_QUANTITY: Final = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ%]*)\s*")
_SPANS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SHORTEST_BUDGET_S: Final = 1.0


@record
class Limit:
    """The most that the result may take; None: whatever it takes."""

    latency_ms: float | None = None
    size_bytes: int | None = key("size", default=None)

    def describe(self) -> str:
        """The limit in words; empty where there is none."""
        words = [] if self.latency_ms is None else [f"latency {milliseconds(self.latency_ms)}"]
        return ", ".join(words + ([] if self.size_bytes is None else [f"size {size(self.size_bytes)}"]))

    def holds(self, latency_ms: float, size_bytes: int) -> bool:
        """Whether a result stays within."""
        return not self.misses(latency_ms, size_bytes)

    def misses(self, latency_ms: float, size_bytes: int) -> list[Remark]:
        """Which limits a result breaks, and with what."""
        code, found = "tune.unreachable", []
        if self.latency_ms is not None and latency_ms > self.latency_ms:
            found.append(remark(code, limit="latency", asked=self.latency_ms, nearest=latency_ms))
        if self.size_bytes is not None and size_bytes > self.size_bytes:
            found.append(remark(code, limit="size", asked=self.size_bytes, nearest=size_bytes))
        return found


def limit_from_texts(texts: Iterable[str]) -> Limit:
    """`latency=5ms`, `size=1MB`; several in one text are joined by commas."""
    latency_ms: float | None = None
    size_bytes: int | None = None
    for text in (part for given in texts for part in given.split(",")):
        name, _, value = (part.strip() for part in text.partition("="))
        if name == "latency":
            latency_ms = _quantity(text, value, MILLISECONDS)
        elif name == "size":
            size_bytes = int(_quantity(text, value, BYTES))
        else:
            raise UsageError(f"--limit {text} is not known.", "Limit the latency (latency=5ms) or the size (size=1MB).")
    return Limit(latency_ms, size_bytes)


def budget_from_text(text: str) -> float:
    """`90s`, `5m` or `1h` in seconds."""
    try:
        seconds = _quantity(text, text, _SPANS)
    except UsageError:
        seconds = 0.0
    if seconds < _SHORTEST_BUDGET_S:
        raise UsageError(f"--budget {text} is not a time of at least one second.", "Write it like 90s, 5m or 1h.")
    return seconds


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """`5 ms` in the base unit; None for what is no number, or has a unit that is not among these."""
    matched = _QUANTITY.fullmatch(text)
    scale = None if matched is None else units.get(matched[2].lower())
    return None if matched is None or scale is None else float(matched[1]) * scale


def _quantity(text: str, value: str, units: Mapping[str, float]) -> float:
    number = quantity(value, units)
    if number is None or not 0 < number < math.inf:
        known = ", ".join(filter(None, units))
        raise UsageError(f"{text!r} is not a number with a known unit.", f"Use one of these units: {known}.")
    return number
