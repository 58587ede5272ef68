"""A sequential test whether a model keeps its accuracy above a floor: it may decide before all samples were seen.

The scores of two models on the same samples differ by a drop each, and the question is whether the mean drop of all
samples of this kind exceeds what is allowed. As the test looks after every sample, an interval of fixed size would err
far too often. Instead two players bet, one on each answer, with stakes that would lose money on average if the other
answer were true; by Ville's inequality such a player multiplies the money by 100 with a chance of at most 1 in 100,
however often one looks (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024). A
player spreads the money over stakes of several sizes, as the best one is known only afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import UsageError
from hasten.core.floor import FloorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Together with the interval after the last sample, a wrong answer stays below 5 %.
DEFAULT_RISK: Final = 0.01
# Shares of the largest stake that can never lose everything; a mixture over them is within a few samples of the best.
_STAKES: Final = np.geomspace(0.002, 0.98, 24)
_ROUNDING: Final = 1e-9


class FloorTest:
    """Takes drops (the original's score less the candidate's) as they come, and says when they suffice.

    They must come in random order. A wrong answer has a chance of at most `risk`; there may be none.
    """

    def __init__(self, max_drop: float, *, span: float = 1.0, risk: float = DEFAULT_RISK) -> None:
        if not (math.isfinite(max_drop) and span > 0 and 0 < risk < 1):
            raise UsageError(f"A floor needs a finite drop and a risk between 0 and 1, not {max_drop} and {risk}.")
        self.state = FloorState.UNDECIDED
        """The answer, which stands once it has been given."""
        self.samples = 0
        """How many it took, or have been seen so far."""
        self._allowed, self._span, self._risk = max_drop / span, span, risk
        # Logarithms of what each stake has grown to: rows bet that the floor is broken, and that it is kept.
        self._wealth = np.zeros((2, len(_STAKES)))
        if abs(self._allowed) >= 1:  # no sample can change that
            self.state = FloorState.KEPT if self._allowed > 0 else FloorState.BROKEN

    def add(self, drops: Sequence[float] | Floats) -> FloorState:
        """Take further drops in; those after the answer do not count."""
        if self.state is not FloorState.UNDECIDED or not len(drops):
            return self.state
        scaled = np.asarray(drops, dtype=np.float64) / self._span
        if not (np.abs(scaled) <= 1 + _ROUNDING).all():
            raise ValueError(f"a drop of {np.abs(scaled).max() * self._span} is outside of the span {self._span}")
        gains = scaled - self._allowed
        stakes = np.stack((gains / (1 + self._allowed), -gains / (1 - self._allowed)))
        # What each stake has grown to after each sample.
        grown = np.log1p(np.maximum(stakes, -1.0)[:, :, None] * _STAKES).cumsum(axis=1) + self._wealth[:, None]
        largest = grown.max(axis=2)
        mean = largest + np.log(np.exp(grown - largest[:, :, None]).mean(axis=2))
        enough = np.flatnonzero(mean.max(axis=0) >= -math.log(self._risk))
        last = int(enough[0]) if len(enough) else len(scaled) - 1
        self.samples += last + 1
        self._wealth = grown[:, last]
        if len(enough):
            self.state = FloorState.BROKEN if mean[0, last] > mean[1, last] else FloorState.KEPT
        return self.state
