"""Limits that a user sets besides accuracy: latency, size, energy, throughput or start of the result, and the time of
the search."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from hasten.core.checks import ABOVE_ZERO, check_given
from hasten.core.codec import key, record
from hasten.core.errors import UsageError
from hasten.core.goal import GOALS, Amount, Goal
from hasten.core.units import tells

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MILLISECONDS: Final = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
BYTES: Final = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_MILLIJOULES: Final = {"uj": 1e-3, "µj": 1e-3, "mj": 1.0, "j": 1e3}
_PER_SECOND: Final = {"": 1.0, "/s": 1.0}
_UNITS: Final[dict[Goal, Mapping[str, float]]] = {
    Goal.LATENCY: MILLISECONDS,
    Goal.SIZE: BYTES,
    Goal.ENERGY: _MILLIJOULES,
    Goal.THROUGHPUT: _PER_SECOND,
    Goal.START: MILLISECONDS,
}
_EXAMPLES: Final = "latency=5ms, size=1MB, energy=3mJ, throughput=200/s, start=50ms"
# What an undecided check does to a pipeline. A gate that cannot decide must not be green by accident.
UNDECIDED_CHOICES: Final = ("pass", "fail")
DEFAULT_UNDECIDED: Final = "fail"
_QUANTITY: Final = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ%/]*)\s*")
_SPANS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SHORTEST_BUDGET_S: Final = 1.0
# Beyond a limit by this factor is beyond it, however few the rounds.
_CLEAR: Final = 1.6


@record
class Limit:
    """The most that the result may take, and the least throughput that it must have; None: whatever it comes to."""

    latency_ms: float | None = None
    size_bytes: int | None = key("size", default=None)
    energy_mj: float | None = None
    throughput: float | None = None
    """Inferences for each second."""
    start_ms: float | None = None

    def __post_init__(self) -> None:
        check_given(self, ("latency_ms", "size_bytes", "energy_mj", "throughput", "start_ms"), ABOVE_ZERO)

    @property
    def asked(self) -> dict[Goal, float]:
        """What is limited, and to what."""
        values = (self.latency_ms, self.size_bytes, self.energy_mj, self.throughput, self.start_ms)
        return {goal: float(value) for goal, value in zip(Goal, values, strict=True) if value is not None}

    def describe(self) -> str:
        """The limit in words; empty where there is none."""
        return ", ".join(f"{goal.value} {goal.written(value)}" for goal, value in self.asked.items())


def keeps_limit(goal: Goal, asked: float, found: Amount | None) -> bool | None:
    """Whether a figure is within its limit; None where that is undecided: its interval holds the limit, or it has none
    that tells anything and is too close to the limit."""
    if found is None:
        return None
    low, high = found.ci95
    if goal is Goal.SIZE or tells(low, high):
        within = {end >= asked if goal.more_is_better else end <= asked for end in (low, high)}
        return within.pop() if len(within) == 1 else None
    excess = log_excess(goal, asked, found)
    return None if abs(excess) <= math.log(_CLEAR) else excess < 0


def log_excess(goal: Goal, asked: float, found: Amount) -> float:
    """The logarithm of how far a figure is beyond its limit; below 0 within."""
    if found.value <= 0:
        return math.inf if goal.more_is_better else -math.inf
    excess = math.log(found.value / asked)
    return -excess if goal.more_is_better else excess


def limit_from_texts(texts: Iterable[str]) -> Limit:
    """`latency=5ms`, `size=1MB`, `energy=3mJ`, `throughput=200/s`, `start=50ms`; several in one text are joined by
    commas."""
    found: dict[Goal, float] = {}
    for text in (part for given in texts for part in given.split(",")):
        name, _, value = (part.strip() for part in text.partition("="))
        if name not in GOALS:
            raise UsageError(f"--limit {text} is not known.", f"Use one of these, with your own number: {_EXAMPLES}.")
        found[Goal(name)] = _quantity(text, value, _UNITS[Goal(name)])
    size = found.get(Goal.SIZE)
    if size is not None and size < 1:
        raise UsageError("No model is smaller than 1 B.", "Write the limit like this: --limit size=1MB.")
    return Limit(
        found.get(Goal.LATENCY),
        None if size is None else int(size),
        found.get(Goal.ENERGY),
        found.get(Goal.THROUGHPUT),
        found.get(Goal.START),
    )


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
