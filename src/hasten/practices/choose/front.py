"""The Pareto front of accuracy and latency while it is measured: who is on it, who is not, and what is open.

A model leaves the race only when another beats it for sure: at least as accurate (by the whole interval of the
difference on the same samples, where accuracies are measured), and faster by the verdict that all commands use. Then it
is not on the true front either, however the rest turns out. What is not sure is said, and a pair is timed further only
while its times are undecided: where the accuracies cannot be told apart, more rounds would not help.

Sizes are known without timing. They count by their limit: a model that is too large beats none that is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_ROUNDS, Verdict
from hasten.practices.choose.facts import ModelRow, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.statistics import Interval

    Gain = Callable[[str, str], Interval | None]
    """By how much the first is more accurate than the second; None where that cannot be compared."""
    Speed = Callable[[str, str], Verdict]
    """The latency of the first against the second's: faster means that the first takes less time."""
    Rounds = Callable[[str], int]

# Beyond these, a pair that is still undecided is so alike that the front says so.
MOST_ROUNDS: Final = 12
# Time that is left goes into the figures of the front, up to these.
SHARP_ROUNDS: Final = 10


@dataclass(slots=True)
class Front:
    """What is known of the front now; times that change need a new one. Rows have their sizes; accuracies and times are
    asked for."""

    rows: Sequence[ModelRow]
    gain: Gain
    speed: Speed
    size_limit: float = math.inf
    _rivals: dict[str, tuple[ModelRow, ...]] = field(default_factory=dict)
    """By name: who could beat it, whatever the times are; the most accurate first, as that is the winner to name."""
    _winners: dict[str, ModelRow | None] = field(default_factory=dict)
    """Remembered, as the search for one asks for others: among many that are as fast as each other, over and over."""

    def __post_init__(self) -> None:
        for row in self.rows:
            gains = [(gain.estimate, one) for one in self.rows if (gain := self._gain_in_reach(one, row)) is not None]
            gains.sort(key=lambda pair: -pair[0])
            self._rivals[row.name] = tuple(one for _, one in gains)

    def _gain_in_reach(self, one: ModelRow, other: ModelRow) -> Interval | None:
        """By how much one is more accurate than another that it could beat; None if it could not."""
        if one.name == other.name or (one.size_bytes > self.size_limit >= other.size_bytes):
            return None
        gain = self.gain(one.name, other.name)
        return gain if gain is not None and gain.high >= 0 else None

    def winner_over(self, row: ModelRow) -> ModelRow | None:
        """A model that beats this one for sure."""
        if row.name not in self._winners:
            self._winners[row.name] = next((one for one in self._rivals[row.name] if self._beats(one, row)), None)
        return self._winners[row.name]

    def _beats(self, one: ModelRow, other: ModelRow) -> bool:
        gain = self.gain(one.name, other.name)
        if gain is None or gain.low < 0:
            return False
        speed = self.speed(one.name, other.name)
        if speed is not Verdict.SAME:
            return speed is Verdict.FASTER
        # Of two that are as fast as each other, the more accurate or the smaller one is enough; equals stay.
        # It must stand itself: along a chain of such steps, small differences would add up.
        better = gain.low > 0 or (gain.high == 0 and one.size_bytes < other.size_bytes)
        return better and self.winner_over(one) is None

    def rivals_of(self, row: ModelRow) -> list[ModelRow]:
        """The models that may beat this one, as far as times and accuracies can tell. One that is beaten itself is not
        among them: what beats it then beats this one, too."""
        return [one for one in self._rivals[row.name] if self._may_beat(one, row) and self.winner_over(one) is None]

    def _may_beat(self, one: ModelRow, other: ModelRow) -> bool:
        speed = self.speed(one.name, other.name)
        if speed is Verdict.SLOWER:
            return False
        gain = self.gain(one.name, other.name)
        equal = gain is not None and gain.low == gain.high == 0 and one.size_bytes >= other.size_bytes
        return not (speed is Verdict.SAME and equal)

    def place(self, row: ModelRow) -> Place:
        """Where it stands. What has no accuracy stands nowhere."""
        if self.gain(row.name, row.name) is None:
            return Place.UNKNOWN
        if self.winner_over(row) is not None:
            return Place.OFF
        return Place.POSSIBLE if self.rivals_of(row) else Place.ON

    def standing(self) -> list[ModelRow]:
        """Those that nothing beats for sure, in their order."""
        return [row for row in self.rows if self.place(row) in (Place.ON, Place.POSSIBLE)]

    def open(self, rounds: Rounds) -> list[str]:
        """Who needs more rounds, by name: whose times could still change the front, or the answer whether it is faster
        than the model that it is compared with. Those of unknown accuracy come last."""
        standing = self.standing()
        names = {row.name for row in standing}
        wanted: dict[str, None] = {}
        for row in standing:
            if rounds(row.name) < FEWEST_ROUNDS:
                wanted[row.name] = None
            for rival in self._rivals[row.name]:
                if rival.name in names and self._is_open(rival.name, row.name, rounds):
                    wanted |= dict.fromkeys((rival.name, row.name))
        for row in (row for row in self.rows if self.place(row) is Place.UNKNOWN):
            wanted |= dict.fromkeys(self._open_without_accuracy(row, names, rounds))
        return [name for name in wanted if rounds(name) < MOST_ROUNDS]

    def to_sharpen(self, rounds: Rounds) -> list[str]:
        """The models of the front, by name, whose figures more rounds would sharpen."""
        return [row.name for row in self.standing() if rounds(row.name) < SHARP_ROUNDS]

    def _open_without_accuracy(self, row: ModelRow, standing: set[str], rounds: Rounds) -> list[str]:
        """A model that cannot be on the front is worth rounds next to its original, if that is on it: where the
        original is beaten, or was never timed, a look is enough."""
        original = next((one for one in self.rows if one.name == row.reference), None)
        if original is None:
            return [row.name] if 0 < rounds(row.name) < FEWEST_ROUNDS else []
        worth = original.name in standing or self.place(original) is Place.UNKNOWN
        few = rounds(row.name) < FEWEST_ROUNDS
        return [row.name, original.name] if worth and few and self._is_open(row.name, original.name, rounds) else []

    def _is_open(self, one: str, other: str, rounds: Rounds) -> bool:
        timed = min(rounds(one), rounds(other))
        return 0 < timed < MOST_ROUNDS and self.speed(one, other) is Verdict.UNDECIDED
