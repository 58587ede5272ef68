"""How many nodes must stay float? Sensitivities, their order, and a search that asks for few evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# An evaluation that promises to save less than this part of a run is not worth its while.
WORTH: Final = 0.025
# How a drop may follow from what is left of the squared error: times one of these, to one of these powers. Flips of
# predictions grow with the error itself, net losses with its square; and errors promise too much more often than not.
_FACTORS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
_POWERS: Final = (0.5, 1.0)
# A drop is not known better than to so many times the drop allowed: a floor is set where the data still just tells.
_NOISE: Final = 1.5
_HARDLY: Final = 1e-6
# Where the drop of the recipe itself is not known: it breaks the floor clearly.
_CLEARLY: Final = 10.0
_MOST_TRIES: Final = 8
_SMALLEST_SHARE: Final = 1e-4
# What all weights in integers are worth, as a part of a run's time.
_WORTH_OF_WEIGHTS: Final = 0.1


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
    weights: float = 0.0
    """Their part of the weights, whatever the share is of."""

    @property
    def cost(self) -> float:
        """Error for each part of the gain: what has most of it goes back to float first. Errors of nodes that know
        nothing of each other add up by their squares. Who asks for speed has some use for a smaller file, too."""
        return self.error**2 / max(self.share + _WORTH_OF_WEIGHTS * self.weights, _SMALLEST_SHARE)

    def as_data(self) -> dict[str, Any]:
        """The sensitivity as JSON can hold it."""
        return {
            "recipe": self.recipe,
            "nodes": list(self.nodes),
            "op": self.op,
            "location": self.location,
            "error": self.error if math.isfinite(self.error) else None,
            "share": self.share,
            "share_of": self.share_of,
            "weights": self.weights,
        }


def sensitivity_from_data(data: Mapping[str, Any]) -> Sensitivity:
    """The sensitivity back from JSON."""
    error = math.inf if data["error"] is None else data["error"]
    nodes, share_of = tuple(data["nodes"]), data.get("share_of", "")
    weights = data.get("weights", 0.0)
    return Sensitivity(data["recipe"], nodes, data["op"], data["location"], error, data["share"], share_of, weights)


class MixSearch:
    """Finds how many groups, taken in their order, must stay float. More are taken never to hurt.

    The drop of a mix is guessed from that of the recipe and from what giving back leaves of its error, under several
    hypotheses, each of which has the weight that the outcomes so far lend it. Next is what promises most: the chance
    to keep the floor times what it would save over the best so far. It ends where nothing promises enough.
    """

    def __init__(
        self, order: Sequence[Sensitivity], drop: float | None, max_drop: float, error: float = math.inf
    ) -> None:
        """`drop` and `error` are those of the recipe with none of them float, which is known to break the floor."""
        self.enough = len(order)
        """The fewest that are known to suffice; all of them do."""
        self.evaluations = 0
        self._all, self._max_drop = len(order), max(max_drop, _HARDLY)
        self._drop = _CLEARLY * self._max_drop if drop is None else drop
        self._given_back = list(accumulate((max(0.0, entry.share) for entry in order), initial=0.0))
        self._left = _errors_left(order, error)
        self._broken: list[int] = []
        self._weights = dict.fromkeys(product(_FACTORS, _POWERS), 1.0)

    @property
    def next(self) -> int | None:
        """How many to try now; None when nothing more is worth it, and `enough` is the answer."""
        found, open_counts = self.enough < self._all, range(max(self._broken, default=0) + 1, self.enough)
        if not open_counts:
            return None
        if self.evaluations >= _MOST_TRIES:
            return None if found else (open_counts[0] + self._all) // 2
        promises = {count: self._chance(count) * self._saved(count) for count in open_counts}
        best = max(open_counts, key=lambda count: (promises[count], count))
        return None if found and promises[best] <= WORTH else best

    def tell(self, tried: int, kept: bool, drop: float | None = None) -> None:
        """Take the outcome in."""
        self.evaluations += 1
        if kept:
            self.enough = min(self.enough, tried)
        else:
            self._broken.append(tried)
        if drop is None:
            return
        # What ended early because the floor broke is known less well than its size suggests.
        noise = max(_NOISE * self._max_drop, abs(drop) / 2)
        for guess in self._weights:
            self._weights[guess] *= math.exp(-(((drop - self._guessed(tried, guess)) / noise) ** 2) / 2) + _HARDLY

    def _saved(self, count: int) -> float:
        return self._given_back[self.enough] - self._given_back[count]

    def _chance(self, count: int) -> float:
        """The chance to keep the floor. Much of what a mix that broke it had left, this one has left as well."""
        noise = _NOISE * self._max_drop
        kept = math.fsum(
            weight * _normal((self._max_drop - self._guessed(count, guess)) / noise)
            for guess, weight in self._weights.items()
        ) / math.fsum(self._weights.values())
        return min([kept, *(1 - _ratio(self._left[count], self._left[broken]) for broken in self._broken)])

    def _guessed(self, count: int, guess: tuple[float, float]) -> float:
        factor, power = guess
        return factor * self._drop * math.pow(_ratio(self._left[count], self._left[0]), power)


def _errors_left(order: Sequence[Sensitivity], error: float) -> list[float]:
    """The squared error that stays when so many groups are given back, by their number.

    Squares add up, but neighbours count what lies between them twice: then their sum is more than there is.
    """
    squares = [entry.error**2 for entry in order]
    sums = [math.fsum(squares[count:]) for count in range(len(order) + 1)]
    whole = error**2 if math.isfinite(error) else next(value for value in sums if math.isfinite(value))
    return [whole, *(value if math.isinf(value) else min(value, whole) for value in sums[1:])]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 and math.isfinite(part) else float(part > 0)


def _normal(value: float) -> float:
    """The normal distribution's share below a value."""
    return (1 + math.erf(value / math.sqrt(2))) / 2
