"""Shares of yes and no: intervals of one share, and of the difference of two that were taken on the same samples."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_BISECTIONS: Final = 60


def wilson_interval(successes: int, count: int, confidence: float = 0.95) -> Interval:
    """A share with Wilson's score interval, whose coverage is near what it claims for shares of any size."""
    _check_counts(successes, count)
    z = _normal_quantile(confidence)
    share = successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    # At the ends rounding would leave the share itself outside.
    low = 0.0 if successes == 0 else min(share, max(0.0, centre - half))
    high = 1.0 if successes == count else max(share, min(1.0, centre + half))
    return Interval(share, low, high)


def clopper_pearson_interval(successes: int, count: int, confidence: float = 0.95) -> Interval:
    """A share with Clopper and Pearson's exact interval: never less sure than it claims, and so rather wide."""
    _check_counts(successes, count)
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if successes > 0:
        low = _root(lambda p: 1 - binomial_cdf(successes - 1, count, p) - tail)
    if successes < count:
        high = _root(lambda p: tail - binomial_cdf(successes, count, p))
    return Interval(successes / count, low, high)


def paired_difference_interval(won: int, lost: int, count: int, confidence: float = 0.95) -> Interval:
    """The difference of two shares on the same samples, from how many were won and lost.

    Bonett and Price's adjusted interval (2012): one more of each, then Wald's; unlike plain Wald it keeps its level
    where hardly any sample changed.
    """
    _check_counts(won + lost, count)
    up, down = (won + 1) / (count + 2), (lost + 1) / (count + 2)
    half = _normal_quantile(confidence) * math.sqrt((up + down - (up - down) ** 2) / (count + 2))
    estimate = (won - lost) / count
    return Interval(estimate, max(-1.0, min(estimate, up - down - half)), min(1.0, max(estimate, up - down + half)))


def mcnemar_p_value(won: int, lost: int) -> float:
    """How likely so lopsided a split of the changed samples is if neither side is better: McNemar's exact test."""
    changed = won + lost
    return min(1.0, 2 * binomial_cdf(min(won, lost), changed, 0.5)) if changed else 1.0


def binomial_cdf(most: int, count: int, probability: float) -> float:
    """The chance of at most so many successes."""
    if most < 0:
        return 0.0
    if most >= count or probability <= 0:
        return 1.0
    if probability >= 1:
        return 0.0
    k = np.arange(most + 1)
    factorials = _log_factorials(count)
    logs = factorials[count] - factorials[k] - factorials[count - k]
    logs = logs + k * math.log(probability) + (count - k) * math.log1p(-probability)
    return float(min(1.0, np.exp(logs).sum()))


@lru_cache(maxsize=8)
def _log_factorials(largest: int) -> NDArray[Any]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def _normal_quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _check_counts(part: int, count: int) -> None:
    if not 0 <= part <= count or count < 1:
        raise ValueError(f"{part} of {count} is no share")
