"""From which size of a network on delegating pays: timed points on a ladder of sizes, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.comparison import Verdict
from hasten.core.json_numbers import latency_data
from hasten.core.units import count

if TYPE_CHECKING:
    from hasten.core.comparison import Comparison
    from hasten.core.statistics import Interval


@dataclass(frozen=True, slots=True)
class LadderPoint:
    """A network of one size, on the CPU (XNNPACK) and on the accelerator."""

    macs: int
    cpu: Interval
    accelerator: Interval
    against_cpu: Comparison

    def as_data(self) -> dict[str, Any]:
        """The point as JSON can hold it, with what a plot needs."""
        return {
            "macs": self.macs,
            "cpu": latency_data(self.cpu),
            "accelerator": latency_data(self.accelerator),
            "against_cpu": self.against_cpu.as_data(),
        }


@dataclass(frozen=True, slots=True)
class Pays:
    """The ladder of one accelerator, from the smallest network to the largest; and what kept it from being whole."""

    points: tuple[LadderPoint, ...]
    trouble: str = ""

    @property
    def from_macs(self) -> int | None:
        """The smallest size from which on it is surely faster; None if it is not so even at the largest."""
        found = None
        for point in reversed(self.points):
            if point.against_cpu.verdict is not Verdict.FASTER:
                break
            found = point.macs
        return found

    def sentence(self) -> str:
        """What the ladder says, for networks like the ones that were timed."""
        if not self.points:
            return f"from which size on it pays is not known: {self.trouble}"
        smallest, largest = self.points[0].macs, self.points[-1].macs
        cut = f" (no further: {self.trouble})" if self.trouble else ""
        if self.from_macs is None:
            return f"pays at no size from {count(smallest)} to {count(largest)} MACs{cut}"
        if self.from_macs == smallest:
            return f"pays at every size tried, from {count(smallest)} MACs on{cut}"
        below = max(point.macs for point in self.points if point.macs < self.from_macs)
        return f"pays from {count(self.from_macs)} MACs on, and not surely at {count(below)}{cut}"

    def as_data(self) -> dict[str, Any]:
        """Keys beside those of the accelerator's row."""
        return {
            "pays_from_macs": self.from_macs,
            "ladder": [point.as_data() for point in self.points],
            "ladder_trouble": self.trouble or None,
        }
