"""A comparison of two latencies: a verdict from the levels of several pairs of fresh processes."""

from __future__ import annotations

import enum
import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from hasten.core.codec import key, record
from hasten.core.goal import Goal
from hasten.core.levels import Contrast, contrast, exponential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.levels import Levels

# A verdict is given as soon as one is possible, so the data are looked at again and again, and each look is a chance to
# be wrong: the verdict asks for 99 % where the interval that is shown has 95 %. Differences below the margin are no
# news to anybody, and memory layout or a slower core alone makes them: that whole interval must lie beyond the margin.
# Both are checked by simulation in the tests.
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
    """The smallest relative difference that these rounds can tell from noise: what a verdict names is larger, what is
    undecided is not. Infinite where no verdict is possible: of too few rounds, or next to other programs."""
    rounds: int
    contention: float = 0.0
    """How many cores other programs used while one of the two needed them: why there is no verdict against it."""
    quickest_disagree: bool = False
    """Whether many runs were disturbed and the quickest say the opposite of the rest: why there is no verdict."""

    @property
    def is_withheld(self) -> bool:
        """Whether the rounds would give a verdict, and the machine was too busy to believe it."""
        return self.contention > 0 or self.quickest_disagree

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


def compare_levels(
    first: Levels, second: Levels, base: Levels | None = None, margin: float = DEFAULT_MARGIN
) -> Comparison | None:
    """The verdict from levels in rounds of fresh processes; None if the two never met the base (else the first)."""
    found = contrast(first, second, base)
    if found is None:
        return None
    compared = _comparison(found, margin)
    if compared.verdict is Verdict.UNDECIDED or not _most_rounds_disagree(
        first, second, found, compared.verdict, margin
    ):
        return compared
    return replace(compared, verdict=Verdict.UNDECIDED, smallest_detectable=math.inf, quickest_disagree=True)


def compare_rounds(log_ratios: Sequence[float], margin: float = DEFAULT_MARGIN) -> Comparison:
    """The verdict on two candidates with these ratios in rounds that nothing disturbed."""
    first, second = ({number: sign * ratio / 2 for number, ratio in enumerate(log_ratios)} for sign in (-1, 1))
    found = compare_levels(first, second, margin=margin)
    assert found is not None, "no rounds"
    return found


def outcome_words(verdict: Verdict, ratio: float, ci95: Sequence[float | None], goal: Goal = Goal.LATENCY) -> str:
    """The second against the first in words that claim no more than the verdict; a size is exact."""
    if goal is Goal.SIZE or verdict in (Verdict.FASTER, Verdict.SLOWER):
        return goal.gain(ratio, ci95)
    alike = "equally fast" if goal is Goal.LATENCY else f"same {goal.heading}"
    return f"{alike if verdict is Verdict.SAME else 'undecided'} ({goal.ratio_written(ratio, ci95)})"


def _comparison(found: Contrast, margin: float) -> Comparison:
    shown, strict = found.interval(0.95), found.interval(_VERDICT_CONFIDENCE)
    enough = found.rounds >= _rounds_for(found.estimate)
    detectable = strict.high - strict.estimate + margin if enough else math.inf
    return Comparison(
        verdict=_verdict(found, detectable, margin),
        ratio=math.exp(found.estimate),
        ci95=(exponential(shown.low), exponential(shown.high)),
        # As a share of the slower one: the smaller of the two ways to tell a difference in percent.
        smallest_detectable=-math.expm1(-detectable) if math.isfinite(detectable) else math.inf,
        rounds=found.rounds,
    )


def is_clear(log_ratio: float) -> bool:
    """Whether it is a difference that nobody could overlook."""
    return abs(log_ratio) > _CLEAR


def _most_rounds_disagree(first: Levels, second: Levels, found: Contrast, verdict: Verdict, margin: float) -> bool:
    """Whether the rounds that count are the fewer, and all together say something else. One plan may be slow in most of
    its processes by itself, and then its quick ones are the exception."""
    shared = [second[number] - level for number, level in first.items() if number in second]
    if found.rounds >= len(shared) / 2:
        return False
    mean = fmean(shared)
    return abs(mean) > 2 * margin if verdict is Verdict.SAME else mean * found.estimate < 0


def _rounds_for(log_ratio: float) -> int:
    return FEWEST_WHEN_CLEAR if is_clear(log_ratio) else FEWEST_ROUNDS


def _verdict(found: Contrast, detectable: float, margin: float) -> Verdict:
    if math.isinf(detectable):
        return Verdict.UNDECIDED
    if abs(found.estimate) > detectable:
        return Verdict.SLOWER if found.estimate > 0 else Verdict.FASTER
    shown = found.interval(0.95)
    if max(abs(shown.low), abs(shown.high)) < 2 * margin:
        return Verdict.SAME
    return Verdict.UNDECIDED
