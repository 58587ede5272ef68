"""A comparison of two latencies: a verdict from neighboring blocks in several pairs of fresh processes."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.codec import key, record
from hasten.core.statistics import Interval, mean_interval, smallest_detectable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.block import Block

# A verdict is given as soon as one is possible, so the data are looked at again and again, and each look is a chance to
# be wrong: the verdict asks for 99 % where the interval that is shown has 95 %. Differences below the margin are no
# news to anybody, and memory layout alone makes them. Both are checked by simulation in the tests.
_VERDICT_CONFIDENCE: Final = 0.99
DEFAULT_MARGIN: Final = 0.01
FEWEST_ROUNDS: Final = 5
# A difference that nobody could overlook needs fewer: slow models leave no time for more.
FEWEST_WHEN_CLEAR: Final = 3
_CLEAR: Final = 0.10


class Verdict(enum.Enum):
    """What can be said of the second against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"


@record
class Comparison:
    """The second against the first: below 1 means that the second takes less time."""

    verdict: Verdict
    ratio: float
    ci95: tuple[float, float]
    smallest_detectable: float = key(null=math.inf)
    """The smallest relative difference that so many rounds, this noisy, would find four times out of five."""
    rounds: int

    @property
    def needed_rounds(self) -> int:
        """How many rounds a verdict on such a difference takes at least."""
        return _rounds_for(math.log(self.ratio))

    @property
    def lacks_rounds(self) -> bool:
        """Whether there is no verdict for the one reason that too few rounds were run."""
        return self.verdict is Verdict.UNDECIDED and self.rounds < self.needed_rounds

    @property
    def leaning(self) -> Verdict:
        """The verdict; without one for lack of rounds, a clear difference that these few agree on."""
        agree = not self.ci95[0] <= 1 <= self.ci95[1]
        if not (self.lacks_rounds and agree and is_clear(math.log(self.ratio))):
            return self.verdict
        return Verdict.SLOWER if self.ratio > 1 else Verdict.FASTER


def log_ratio_of_round(first: Sequence[Block], second: Sequence[Block]) -> float:
    """One round's answer: the median of the log ratios of neighboring blocks."""
    pairs = zip(first, second, strict=False)
    return float(np.median([math.log(_median_ns(b) / _median_ns(a)) for a, b in pairs]))


def compare_rounds(log_ratios: Sequence[float], margin: float = DEFAULT_MARGIN) -> Comparison:
    """The verdict from one log ratio for each pair of fresh processes."""
    shown = mean_interval(log_ratios)
    return Comparison(
        verdict=_verdict(log_ratios, shown, margin),
        ratio=math.exp(shown.estimate),
        ci95=(math.exp(shown.low), math.exp(shown.high) if shown.high < 700 else math.inf),
        smallest_detectable=_relative(smallest_detectable(log_ratios, _VERDICT_CONFIDENCE, margin)),
        rounds=len(log_ratios),
    )


def is_clear(log_ratio: float) -> bool:
    """Whether it is a difference that nobody could overlook."""
    return abs(log_ratio) > _CLEAR


def _rounds_for(log_ratio: float) -> int:
    return FEWEST_WHEN_CLEAR if is_clear(log_ratio) else FEWEST_ROUNDS


def _verdict(log_ratios: Sequence[float], shown: Interval, margin: float) -> Verdict:
    if len(log_ratios) < _rounds_for(shown.estimate):
        return Verdict.UNDECIDED
    strict = mean_interval(log_ratios, _VERDICT_CONFIDENCE)
    if strict.high < 0 and strict.estimate < -margin:
        return Verdict.FASTER
    if strict.low > 0 and strict.estimate > margin:
        return Verdict.SLOWER
    if max(abs(shown.low), abs(shown.high)) < 2 * margin:
        return Verdict.SAME
    return Verdict.UNDECIDED


def _median_ns(block: Block) -> float:
    """The block's median; a clock too coarse to see the run at all counts as its finest step."""
    return max(float(np.median(block.nanoseconds)), 1.0)


def _relative(log_ratio: float) -> float:
    return math.expm1(log_ratio) if log_ratio < 700 else math.inf
