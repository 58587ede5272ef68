"""Mixes of float and integers that keep the floor, where a promising recipe breaks it.

Quantizing one node at a time shows which ones hurt; then a search finds how many of them must stay in float, with a few
evaluations where giving back one layer after the other takes up to as many as there are layers.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.goal import Goal
from hasten.core.trial import CHOOSING, Purpose
from hasten.search.sensitivity import Probe, sensitivities
from hasten.search.variant_store import VariantRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hasten.core.plan import Plan
    from hasten.core.trial import Trial
    from hasten.practices.quantize.facts import Sensitivity
    from hasten.search.variant_store import VariantStore

# An evaluation that promises to save less than this part of a run is not worth its while.
WORTH: Final = 0.025
# How a drop may follow from what is left of the squared error: times one of these, to one of these powers. Flips of
# predictions grow with the error itself, net losses with its square or faster, as small errors flip nothing.
_FACTORS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
_POWERS: Final = (0.5, 1.0, 2.0)
# No hypothesis is better than to this part of what it says.
_VAGUE: Final = 0.5
# Near the floor, about this part of the predictions flips, as often to the better as to the worse: what makes a drop on
# a few hundred samples uncertain by as much as a usual floor.
_FLIPS: Final = 0.05
# Where the number of samples is not known: a floor is set where the data still just tells.
_NOISE: Final = 1.5
_HARDLY: Final = 1e-6
# Where the drop of the recipe itself is not known: it breaks the floor clearly.
_CLEARLY: Final = 10.0
_MOST_TRIES: Final = 8


@dataclass(slots=True)
class Mixer:
    """Tries mixes of a variant on one plan, until about a time (of the monotonic clock)."""

    store: VariantStore
    plan: Plan
    attempt: Callable[[VariantRequest], Trial]
    """Makes and judges a variant."""
    until: float = math.inf

    @property
    def purpose(self) -> Purpose:
        """For another goal, other nodes stay in float."""
        return Purpose.FLOOR_AND_SIZE if self.store.settings.goal is Goal.SIZE else Purpose.FLOOR

    @property
    def is_out_of_time(self) -> bool:
        """Whether nothing more is begun."""
        return time.monotonic() > self.until

    def search(self, trial: Trial) -> Trial | None:
        """The mix of a variant that keeps the floor and gives back least, as far as the time allowed to find it."""
        order = self._in_order(trial)
        if self.is_out_of_time:
            return None
        error = Probe(self.store, self.plan).error_of(Path(trial.path)) if trial.path else math.inf
        allowed = self.store.judge.floor(CHOOSING).allowed or 0.0
        samples = self.store.judge.original(CHOOSING).accuracy.samples
        search, best = MixSearch(order, trial.drop, allowed, error, samples), None
        while (count := search.next) is not None and not self.is_out_of_time:
            nodes = [*trial.float_nodes, *(node for entry in order[:count] for node in entry.nodes)]
            tried = self._try(trial, nodes)
            search.tell(count, tried.passed_when_judged, tried.drop)
            if tried.passed_when_judged:
                if best is not None:
                    self.store.folder.forget_file(best)
                best = tried
        return best

    def further(self, trial: Trial) -> Trial | None:
        """A mix with more nodes in float than one that has turned out to break the floor; None if there is none to try.

        Half of what is still quantized goes back, in the order of its search.
        """
        base = self.store.folder.variants.get(trial.parent)
        if base is None or not trial.is_step:
            return None
        float_nodes = set(trial.float_nodes)
        left = [entry for entry in self._in_order(base) if not float_nodes.issuperset(entry.nodes)]
        if len(left) < 2 or self.is_out_of_time:
            return None
        return self._try(base, [*float_nodes, *(node for entry in left[: len(left) // 2] for node in entry.nodes)])

    def _in_order(self, trial: Trial) -> list[Sensitivity]:
        """The groups of a variant's nodes, those first that are to stay in float first."""
        found: list[Sensitivity] = []
        for entry in sensitivities(self.store, trial, self.plan):
            found.append(entry)
            if self.is_out_of_time:
                break
        return sorted(found, key=lambda entry: (-entry.cost, entry.nodes))

    def _try(self, trial: Trial, nodes: Iterable[int]) -> Trial:
        return self.attempt(VariantRequest(trial.recipe, tuple(sorted(nodes)), self.purpose, trial.variant))


class MixSearch:
    """Finds how many groups, taken in their order, must stay float.

    The drop of a mix is guessed from that of the recipe and from what giving back leaves of its error, under several
    hypotheses, each weighted by the outcomes of earlier trials. Next is what promises most: the chance to keep the
    floor times what it would save over the best known mix. It ends where nothing promises enough.

    A drop is an estimate from a few hundred samples: a mix that breaks the floor by little may do so by chance, and
    then speaks only that much against mixes with fewer groups in float.
    """

    def __init__(
        self,
        order: Sequence[Sensitivity],
        drop: float | None,
        max_drop: float,
        error: float = math.inf,
        samples: int | None = None,
    ) -> None:
        """`drop` and `error` are those of the recipe with none of them float, which is known to break the floor;
        `samples` is how many a drop is measured on."""
        self.enough = len(order)
        """The fewest that are known to suffice; all of them do."""
        self._all, self._max_drop = len(order), max(max_drop, _HARDLY)
        self._drop = _CLEARLY * self._max_drop if drop is None else drop
        self._noise = math.sqrt(_FLIPS / samples) if samples else _NOISE * self._max_drop
        self._given_back = list(accumulate((max(0.0, entry.share) for entry in order), initial=0.0))
        self._left = _errors_left(order, error)
        self._broken: dict[int, float] = {}
        """Count → how sure it is that it breaks the floor."""
        self._tried: set[int] = set()
        self._weights = dict.fromkeys(product(_FACTORS, _POWERS), 1.0)

    @property
    def evaluations(self) -> int:
        """How many were tried."""
        return len(self._tried)

    @property
    def next(self) -> int | None:
        """How many to try now; None when nothing more is worth it, and `enough` is the answer."""
        found = self.enough < self._all
        beyond = max((count for count, sure in self._broken.items() if sure == 1), default=0)
        open_counts = [count for count in range(beyond + 1, self.enough) if count not in self._tried]
        if not open_counts:
            return None
        if self.evaluations >= _MOST_TRIES:
            if found:
                return None
            middle = (max(self._broken) + 1 + self._all) // 2
            return None if middle == self._all else middle
        promises = {count: self._chance(count) * self._saved(count) for count in open_counts}
        best = max(open_counts, key=lambda count: (promises[count], count))
        return None if found and promises[best] <= WORTH else best

    def tell(self, tried: int, kept: bool, drop: float | None = None) -> None:
        """Take the outcome in."""
        self._tried.add(tried)
        if kept:
            self.enough = min(self.enough, tried)
        else:
            self._broken[tried] = self._sureness(drop)
        if drop is None:
            return
        for guess in self._weights:
            expected = self._guessed(tried, guess)
            spread = self._spread(expected)
            self._weights[guess] *= (math.exp(-(((drop - expected) / spread) ** 2) / 2) + _HARDLY) / spread

    def _sureness(self, drop: float | None) -> float:
        """How sure it is that a mix breaks the floor by its drop. What lost little was refused for something else, such
        as a crash."""
        return 1.0 if drop is None or drop <= self._max_drop else _normal((drop - self._max_drop) / self._noise)

    def _saved(self, count: int) -> float:
        return self._given_back[self.enough] - self._given_back[count]

    def _chance(self, count: int) -> float:
        """The chance to keep the floor. Of what a mix that broke it had left, one with fewer groups in float has all
        left, and one with more has much."""
        kept = math.fsum(
            weight * _normal((self._max_drop - expected) / self._spread(expected))
            for guess, weight in self._weights.items()
            for expected in [self._guessed(count, guess)]
        ) / math.fsum(self._weights.values())
        shared = {broken: min(1.0, _ratio(self._left[count], self._left[broken])) for broken in self._broken}
        return min([kept, *(1 - sure * shared[broken] for broken, sure in self._broken.items())])

    def _guessed(self, count: int, guess: tuple[float, float]) -> float:
        factor, power = guess
        return factor * self._drop * math.pow(_ratio(self._left[count], self._left[0]), power)

    def _spread(self, expected: float) -> float:
        return math.hypot(self._noise, _VAGUE * expected)


def _errors_left(order: Sequence[Sensitivity], error: float) -> list[float]:
    """The squared error that stays, by the number of groups given back.

    Squares add up, but neighbors count what lies between them twice: then their sum is more than there is.
    """
    squares = [entry.error * entry.error for entry in order]
    sums = [math.fsum(squares[count:]) for count in range(len(order) + 1)]
    whole = error * error if math.isfinite(error) else next(value for value in sums if math.isfinite(value))
    return [whole, *(value if math.isinf(value) else min(value, whole) for value in sums[1:])]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 and math.isfinite(part) else float(part > 0)


def _normal(value: float) -> float:
    """The normal distribution's share below a value."""
    return (1 + math.erf(value / math.sqrt(2))) / 2
