"""Goals: what a search can be asked to gain, and how figures and gains of each are written. `core.costs` measures."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core import units
from hasten.core.codec import record
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_OLDER_NAME: Final = "speed"
_FACT: Final = "goal"


class Goal(str, enum.Enum):
    """What to gain; the value is its name on the command line and in JSON."""

    LATENCY = "latency"
    SIZE = "size"
    ENERGY = "energy"
    THROUGHPUT = "throughput"
    START = "start"

    @classmethod
    def _missing_(cls, value: object) -> Goal | None:
        """Sessions and commands of earlier releases called it speed."""
        return cls.LATENCY if value == _OLDER_NAME else None

    @property
    def more_is_better(self) -> bool:
        """Whether its figures, as they are shown, are better if they are larger."""
        return self is Goal.THROUGHPUT

    @property
    def unit(self) -> str:
        """The unit of its figures in JSON."""
        return _UNITS[self]

    @property
    def heading(self) -> str:
        """What its figures are called, as on the axis of a chart."""
        return _TITLES[self]

    def written(self, value: float) -> str:
        """A figure as a person reads it."""
        return _WRITTEN[self](value)

    def range_written(self, ci95: Sequence[float]) -> str:
        """The interval of a figure; empty where it has no ends."""
        low, high = ci95
        if self is Goal.SIZE or not (math.isfinite(low) and math.isfinite(high)):
            return ""
        if self in (Goal.LATENCY, Goal.START):
            return units.interval_ms(low, high)
        return f"{self.written(low)} to {self.written(high)}"

    def gain(self, ratio: float, ci95: Sequence[float | None] | None = None) -> str:
        """A ratio of costs (below 1 is better) in words: `1.80× more energy-efficient (95 % CI 1.70–1.90)`."""
        if self is Goal.SIZE:
            return f"{units.percent(abs(1 - ratio))} {'smaller' if ratio <= 1 else 'larger'}"
        return units.speedup(ratio, ci95, words=_BETTER_AND_WORSE[self])

    def ratio_written(self, ratio: float, ci95: Sequence[float | None]) -> str:
        """A ratio of costs with no claim: `time ratio 0.923, 95 % CI 0.901–0.946`; of throughputs, what they are."""
        ends = [end for end in ci95 if end is not None and math.isfinite(end)]
        if self.more_is_better:
            ratio, *ends = (1 / value if value else math.inf for value in (ratio, *reversed(ends)))
        if len(ends) < 2:
            return f"{_RATIOS[self]} ratio {ratio:.3f}"
        decimals = units.ratio_decimals(ends, 3)
        return f"{_RATIOS[self]} ratio {ratio:.{decimals}f}, 95 % CI {units.ratio_interval(ends, 3)}"


GOALS: Final = tuple(goal.value for goal in Goal)
"""The names, in the order in which help lists them."""
MEASURED: Final = (Goal.ENERGY, Goal.THROUGHPUT, Goal.START)
"""Goals whose levels a trial keeps next to those of its latency."""
_UNITS: Final = {
    Goal.LATENCY: "ms",
    Goal.SIZE: "bytes",
    Goal.ENERGY: "mJ",
    Goal.THROUGHPUT: "inferences/s",
    Goal.START: "ms",
}
_TITLES: Final = {
    Goal.LATENCY: "latency",
    Goal.SIZE: "size",
    Goal.ENERGY: "energy per inference",
    Goal.THROUGHPUT: "throughput",
    Goal.START: "start",
}
_WRITTEN: Final[dict[Goal, Callable[[Any], str]]] = {
    Goal.LATENCY: units.milliseconds,
    Goal.SIZE: lambda value: units.size(round(value)) if math.isfinite(value) else "unknown",
    Goal.ENERGY: units.millijoules,
    Goal.THROUGHPUT: units.rate,
    Goal.START: units.milliseconds,
}
_BETTER_AND_WORSE: Final = {
    Goal.LATENCY: ("faster", "slower"),
    Goal.ENERGY: ("more energy-efficient", "less energy-efficient"),
    Goal.THROUGHPUT: ("higher throughput", "lower throughput"),
    Goal.START: ("faster to start", "slower to start"),
}
_RATIOS: Final = {
    Goal.LATENCY: "time",
    Goal.SIZE: "size",
    Goal.ENERGY: "energy",
    Goal.THROUGHPUT: "throughput",
    Goal.START: "start time",
}


@record
class Amount:
    """A figure in the unit of its goal, with its 95 % interval."""

    value: float
    ci95: tuple[float, float] = (-math.inf, math.inf)


def goal_named(name: object) -> Goal:
    """The goal of that name; a UsageError lists the names."""
    try:
        return Goal(name)
    except ValueError:
        raise UsageError(f"There is no goal {name!r}.", f"Choose one of {', '.join(GOALS)}.") from None


def goal_in(facts: Mapping[str, Any]) -> Goal:
    """The goal that the facts of a remark name; the latency where they name none."""
    return Goal(facts.get(_FACT, Goal.LATENCY))


def goal_fact(goal: Goal) -> dict[str, str]:
    """The goal as a fact of a remark; none for the latency."""
    return {} if goal is Goal.LATENCY else {_FACT: goal.value}
