"""A sequential test whether a model keeps its accuracy above a floor: it may decide before all samples were seen.

The scores of two models on the same samples differ by a drop each, and the question is whether the mean drop exceeds
what is allowed. As the test looks after every sample, an interval of fixed size would err far too often. Instead two
players bet, one on each answer, with stakes that would lose money on average if the other answer were true; by Ville's
inequality such a player multiplies the money by 20 with a chance of at most 1 in 20, however often one looks
(Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024; also for draws without
replacement). A player spreads the money over stakes of several sizes, as the best one is known only afterwards.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.codec import record
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEFAULT_RISK: Final = 0.05
# Shares of the largest stake that can never lose everything; a mixture over them is within a few samples of the best.
_STAKES: Final = np.geomspace(0.002, 0.98, 24)
_ROUNDING: Final = 1e-9


class Decision(enum.Enum):
    """Whether the floor holds; the value is its name in JSON."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"


@record
class FloorDecision:
    """The decision about a floor after a number of samples."""

    decision: Decision
    max_drop: float
    samples: int
    """How many samples it took, or have been seen so far."""
    total: int | None
    """The size of the data that the decision is about; None if it is about whatever the samples were drawn from."""
    mean_drop: float
    risk: float

    @property
    def saved(self) -> int:
        """How many samples need not be looked at any more."""
        return 0 if self.total is None or self.decision is Decision.UNSURE else self.total - self.samples


class FloorTest:
    """Takes drops (the original's score less the candidate's) as they come, and says when they suffice.

    With `total` the question is what all that many samples would show, of which these come in random order, and there
    is an answer at the latest when all have been seen. Without it the question is about the source of the samples, and
    may stay open. Either way a wrong answer has a chance of at most `risk`.
    """

    def __init__(
        self, max_drop: float, total: int | None = None, *, span: float = 1.0, risk: float = DEFAULT_RISK
    ) -> None:
        if not (math.isfinite(max_drop) and span > 0 and 0 < risk < 1):
            raise UsageError(f"A floor needs a finite drop and a risk between 0 and 1, not {max_drop} and {risk}.")
        self._max_drop, self._total, self._span, self._risk = max_drop, total, span, risk
        self._seen, self._sum = 0, 0.0
        # Logarithms of what each stake has grown to: rows bet that the floor is broken, and that it is kept.
        self._wealth = np.zeros((2, len(_STAKES)))
        self._answer: FloorDecision | None = None

    def add(self, drops: Sequence[float] | Floats) -> FloorDecision:
        """Take further drops in; the answer stands once it has been given."""
        for drop in np.asarray(drops, dtype=np.float64) / self._span:
            if self._answer is not None:
                break
            if not abs(drop) <= 1 + _ROUNDING:
                raise ValueError(f"a drop of {drop * self._span} is outside of the span {self._span}")
            self._take(float(drop))
        return self._answer or self._report(Decision.UNSURE)

    def _take(self, drop: float) -> None:
        allowed = self._allowed_mean()
        if 1 + allowed > _ROUNDING and 1 - allowed > _ROUNDING:
            gain = drop - allowed
            self._wealth[0] += np.log1p(_STAKES * max(gain / (1 + allowed), -1.0))
            self._wealth[1] += np.log1p(_STAKES * max(-gain / (1 - allowed), -1.0))
        self._seen += 1
        self._sum += drop
        decision = self._certain() or self._by_wealth()
        if decision is not None:
            self._answer = self._report(decision)

    def _allowed_mean(self) -> float:
        """The mean of the samples still to come at which all of them together would just keep the floor."""
        allowed = self._max_drop / self._span
        if self._total is None:
            return allowed
        return (self._total * allowed - self._sum) / max(1, self._total - self._seen)

    def _certain(self) -> Decision | None:
        """What no further sample can change any more."""
        allowed = self._max_drop / self._span
        if self._total is None:
            return Decision.KEPT if allowed >= 1 else Decision.BROKEN if allowed < -1 else None
        left, room = self._total - self._seen, self._total * allowed - self._sum + _ROUNDING
        return Decision.KEPT if room >= left else Decision.BROKEN if room < -left else None

    def _by_wealth(self) -> Decision | None:
        enough = -math.log(self._risk)
        largest = self._wealth.max(axis=1)
        if largest.max() < enough:  # and so is their mean
            return None
        grown = largest + np.log(np.exp(self._wealth - largest[:, None]).mean(axis=1))
        if max(grown) < enough:
            return None
        return Decision.BROKEN if grown[0] > grown[1] else Decision.KEPT

    def _report(self, decision: Decision) -> FloorDecision:
        mean = self._sum / self._seen * self._span if self._seen else 0.0
        return FloorDecision(decision, self._max_drop, self._seen, self._total, mean, self._risk)
