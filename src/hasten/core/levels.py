"""Latencies of candidates that took turns in rounds, and their ratios: one estimator for both.

A level is the natural logarithm of a candidate's milliseconds in one round. A latency is the geometric mean over
rounds, so the mean of the ratios within rounds is the ratio of the latencies: what is shown as a ratio always follows
from the latencies next to it. A candidate that was not in all rounds is placed by the base, which is: what slowed a
whole round down counts neither for nor against it.

Rounds that something disturbed do not count. Of two candidates, they are told by the sum of both levels, which has
nothing to do with the difference: to leave out the slow rounds of each by itself would favor the luckier one. Checked
by simulation in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from hasten.core.statistics import Interval, mean_interval, student_quantile

Levels = Mapping[int, float]
"""Round → natural logarithm of the milliseconds there."""
# A round that took longer than the quickest by more than this (a logarithm) was disturbed.
_DISTURBED: Final = math.log(1.15)
# Of two candidates, the mean of both counts. A neighbor on the same physical core slows them by unlike factors and does
# not cancel out, so rounds near the quickest count; and the quicker half, as processes may differ by themselves.
_BOTH_QUICK: Final = math.log(1.08)
_BOTH_DISTURBED: Final = math.log(1.3)
_LARGEST_EXPONENT: Final = 700.0


@dataclass(frozen=True, slots=True)
class Contrast:
    """The logarithm of one latency over another, with its standard error."""

    estimate: float
    standard_error: float
    rounds: int
    """The rounds of the one that has fewer of them."""

    def interval(self, confidence: float) -> Interval:
        """Student's interval; without ends after a single round."""
        if self.rounds < 2:
            return Interval(self.estimate, -math.inf, math.inf)
        half = student_quantile(self.rounds - 1, confidence) * self.standard_error
        return Interval(self.estimate, self.estimate - half, self.estimate + half)


def undisturbed(levels: Levels, within: float = _DISTURBED) -> dict[int, float]:
    """The rounds that count: those next to the quickest. On a quiet machine all of them."""
    below = min(levels.values(), default=0.0) + within
    return {number: level for number, level in levels.items() if level <= below}


def place(levels: Levels, base: Levels, anchor: float | None = None) -> float:
    """The logarithm of a candidate's latency next to the base's; infinite if the two never met.

    The base's own is `anchor` where it is known better than by its levels.
    """
    found = above(levels, base)
    if not found:
        return math.inf
    return (fmean(undisturbed(base).values()) if anchor is None else anchor) + fmean(found.values())


def latency_of(
    levels: Levels, base: Levels | None = None, anchor: float | None = None, confidence: float = 0.95
) -> Interval | None:
    """A candidate's latency in milliseconds with its interval over rounds; None if it never met the base."""
    at = place(levels, levels if base is None else base, anchor)
    if not math.isfinite(at):
        return None
    estimate, spread = math.exp(at), mean_interval(list(undisturbed(levels).values()), confidence)
    if not math.isfinite(spread.low):
        return Interval(estimate, -math.inf, math.inf)
    factor = exponential(spread.high - spread.estimate)
    return Interval(estimate, estimate / factor, estimate * factor)


def contrast(first: Levels, second: Levels, base: Levels | None = None) -> Contrast | None:
    """The second against the first, each placed by the base (the first, if none is given); None if one never met it.

    The standard error is the jackknife's over rounds: where both were in the same rounds, that of their ratios there.
    """
    base = first if base is None else base
    one = dict.fromkeys(base, 0.0) if first == base else above(first, base)
    other = above(second, base)
    if not one or not other:
        return None
    estimate = fmean(other.values()) - fmean(one.values())
    rounds = min(len(one), len(other))
    if rounds == 1:
        return Contrast(estimate, math.inf, 1)
    numbers = {*one, *other}
    squares = sum((_without(other, number) - _without(one, number) - estimate) ** 2 for number in numbers)
    return Contrast(estimate, math.sqrt((len(numbers) - 1) / len(numbers) * squares), rounds)


def exponential(value: float) -> float:
    """The exponential; infinite where a float cannot hold it."""
    return math.exp(value) if value < _LARGEST_EXPONENT else math.inf


def above(levels: Levels, base: Levels) -> dict[int, float]:
    """How far a candidate is above the base in each round that both were in and that nothing disturbed."""
    means = {number: (level + base[number]) / 2 for number, level in levels.items() if number in base}
    ordered = sorted(means.values())
    half = ordered[len(ordered) // 2] - ordered[0] if ordered else 0.0
    counted = undisturbed(means, min(max(half, _BOTH_QUICK), _BOTH_DISTURBED))
    return {number: levels[number] - base[number] for number in counted}


def _without(values: Mapping[int, float], left_out: int) -> float:
    return fmean(value for number, value in values.items() if number != left_out)
