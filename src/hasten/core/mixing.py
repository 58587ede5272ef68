"""How many nodes must stay float? Sensitivities, their order, and a search that asks for few evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Less than this part of a run's time between two mixes is not worth an evaluation.
TOLERANCE: Final = 0.05
# A guess aims at this part of the drop allowed, as the least float mix that passes has had some luck.
_ROOM: Final = 0.7
_LEAST_DROP: Final = 0.3
_MOST_GUESSES: Final = 2
_SMALLEST_SHARE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What quantising only these nodes does to the output, and what they have to give."""

    recipe: str
    nodes: tuple[int, ...]
    op: str
    location: str
    error: float
    """Root of the mean square of the difference at the output, relative to the output's own."""
    share: float
    """Their part of the weights, or of the time that integers save, as `share_of` says."""
    share_of: str = "weights"

    @property
    def cost(self) -> float:
        """Error for each part of the gain: what has most of it goes back to float first. Errors of nodes that know
        nothing of each other add up by their squares."""
        return self.error**2 / max(self.share, _SMALLEST_SHARE)

    def as_data(self) -> dict[str, Any]:
        """The sensitivity as JSON can hold it."""
        return {
            "recipe": self.recipe, "nodes": list(self.nodes), "op": self.op, "location": self.location,
            "error": self.error if math.isfinite(self.error) else None, "share": self.share,
            "share_of": self.share_of,
        }  # fmt: skip


def sensitivity_from_data(data: Mapping[str, Any]) -> Sensitivity:
    """The sensitivity back from JSON."""
    error = math.inf if data["error"] is None else data["error"]
    nodes, share_of = tuple(data["nodes"]), data.get("share_of", "")
    return Sensitivity(data["recipe"], nodes, data["op"], data["location"], error, data["share"], share_of)


class MixSearch:
    """Finds how many groups, taken in their order, must stay float. More are taken never to hurt.

    With none of them float the floor is known to break, with all of them it holds. Each try is where squared errors
    that add up would keep the floor with some room to spare, given the drop seen last; where that says nothing, the
    interval is halved by what its groups have to give. It ends where fewer promise next to nothing.
    """

    def __init__(self, order: Sequence[Sensitivity], drop: float | None, max_drop: float) -> None:
        self.too_few, self.enough = 0, len(order)
        self.evaluations = 0
        self._all, self._max_drop = len(order), max_drop
        self._given_back = list(accumulate((entry.share for entry in order), initial=0.0))
        squares = [entry.error**2 for entry in order]
        self._left = [math.fsum(squares[count:]) for count in range(len(order) + 1)]
        self._seen = (0, drop)

    @property
    def next(self) -> int | None:
        """How many to try now; None when the answer is known to be `enough`."""
        if self.enough - self.too_few <= 1:
            return None
        guess = self._by_errors() if self.evaluations < _MOST_GUESSES else None
        if guess is None:
            guess = self._halfway()
        if self.enough < self._all:
            less = self._given_back[self.enough] - self._given_back[min(guess, self.enough)]
            if less <= TOLERANCE:
                return None
        return min(max(guess, self.too_few + 1), self.enough - 1)

    def tell(self, tried: int, kept: bool, drop: float | None = None) -> None:
        """Take the outcome in."""
        self.evaluations += 1
        if kept:
            self.enough = min(self.enough, tried)
        else:
            self.too_few = max(self.too_few, tried)
        self._seen = (tried, drop)

    def _by_errors(self) -> int | None:
        """The fewest whose absence leaves an error for which the floor would hold; None where that tells nothing."""
        count, drop = self._seen
        if drop is None or not 0 < self._left[count] < math.inf:
            return None
        # A drop of nothing is luck: what was lost is not known better than to a part of what is allowed.
        allowed = self._left[count] * _ROOM * self._max_drop / max(drop, _LEAST_DROP * self._max_drop)
        return next(number for number, left in enumerate(self._left) if left <= allowed)

    def _halfway(self) -> int:
        middle = (self._given_back[self.too_few] + self._given_back[self.enough]) / 2
        inside = range(self.too_few + 1, self.enough)
        return min(inside, key=lambda count: abs(self._given_back[count] - middle))
