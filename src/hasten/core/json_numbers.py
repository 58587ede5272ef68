"""Numbers on their way to JSON and back: what is infinite or unknown has no place there, and becomes null."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hasten.core.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def finite(value: float | None) -> float | None:
    """The number, or None where JSON has none for it."""
    return value if value is not None and math.isfinite(value) else None


def bounds_from_data(pair: Sequence[float | None]) -> tuple[float, float]:
    """An interval's ends back from JSON; one that was null is open."""
    low, high = pair
    return (-math.inf if low is None else low, math.inf if high is None else high)


def latency_data(latency: Interval) -> dict[str, Any]:
    """A latency with the keys that all commands use; after a single process it has no bounds."""
    return {"median_ms": latency.estimate, "ci95_ms": [finite(latency.low), finite(latency.high)]}


def latency_from_data(data: Mapping[str, Any]) -> Interval:
    """The latency back from JSON."""
    return Interval(data["median_ms"], *bounds_from_data(data["ci95_ms"]))
