"""Intervals of a metric: of one model's value, and of the difference of two models on the same samples."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy import PairedAccuracy
from hasten.core.paired import paired_difference_interval
from hasten.core.statistics import Interval, student_quantile
from hasten.data.metrics import FunctionMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hasten.data.metrics import Metric

    Floats = NDArray[np.float64]

_RESAMPLES: Final = 1000
_CONFIDENCE: Final = 0.95


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


def mcnemar_p_value(won: int, lost: int) -> float:
    """How likely so lopsided a split of the changed samples is if neither side is better: McNemar's exact test."""
    changed = won + lost
    return min(1.0, 2 * binomial_cdf(min(won, lost), changed, 0.5)) if changed else 1.0


def binomial_cdf(most: int, count: int, probability: float) -> float:
    """The chance of at most `most` successes."""
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


def _normal_quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _check_counts(part: int, count: int) -> None:
    if not 0 <= part <= count or count < 1:
        raise ValueError(f"{part} of {count} is no share")


def interval_of_scores(statistics: Floats, metric: Metric, seed: int = 0) -> Interval:
    """A metric's value and interval from the statistics of each sample (a row each).

    Wilson's for a share of samples; for anything else a bootstrap over samples, widened by Bessel's correction and
    Student's factor for so few.
    """
    count = len(statistics)
    if count == 0:
        raise ValueError("no samples")
    if counts_samples(metric, statistics):
        return wilson_interval(round(float(statistics[:, 0].sum())), count, _CONFIDENCE)
    estimate = metric.value(statistics.sum(axis=0), count)
    if isinstance(metric, FunctionMetric) and _is_constant(statistics):
        return _of_alike(estimate, count, float(np.abs(statistics).max()))
    return _bootstrap(estimate, count, lambda weights: metric.value(weights @ statistics, count), seed)


def compare_scores(
    metric: Metric, names: Sequence[str], first: Floats, second: Floats, seed: int = 0
) -> PairedAccuracy:
    """Two models' statistics on the same samples, row by row."""
    count = len(first)
    if count == 0 or first.shape != second.shape or len(names) != count:
        raise ValueError(f"{first.shape} and {second.shape} scores of {len(names)} samples cannot be paired")
    if counts_samples(metric, first, second):
        return _compare_hits(metric, names, first[:, 0] > 0.5, second[:, 0] > 0.5)

    def difference(weights: Floats) -> float:
        return metric.value(weights @ second, count) - metric.value(weights @ first, count)

    estimate = difference(np.ones(count))
    if isinstance(metric, FunctionMetric) and _is_constant(second - first):
        found = _of_alike(estimate, count, float(np.abs((first, second)).max()))
    else:
        found = _bootstrap(estimate, count, difference, seed)
    return PairedAccuracy(metric.name, count, found.estimate, found.low, found.high, metric.higher_is_better)


def counts_samples(metric: Metric, *statistics: Floats) -> bool:
    """Whether each sample is right or wrong: by the metric, or as a function of the user's own scores them all with 0
    or 1."""
    own = isinstance(metric, FunctionMetric)
    return metric.proportion or (own and all(np.isin(scores, (0.0, 1.0)).all() for scores in statistics))


def _is_constant(scores: Floats) -> bool:
    return bool(np.ptp(scores) == 0)


def _of_alike(estimate: float, count: int, scale: float) -> Interval:
    """Where all samples score alike, resampling them would claim to be certain. As many others as Wilson's interval
    leaves room for may differ, by about as much as scores of the user's own function are large."""
    if count == 1:
        return Interval(estimate, -math.inf, math.inf)
    beyond = scale * wilson_interval(0, count, _CONFIDENCE).high
    return Interval(estimate, estimate - beyond, estimate + beyond)


def _compare_hits(
    metric: Metric, names: Sequence[str], first: NDArray[np.bool_], second: NDArray[np.bool_]
) -> PairedAccuracy:
    if not metric.higher_is_better:  # 1 is a miss
        first, second = ~first, ~second
    lost, won = first & ~second, ~first & second
    lost_count, won_count = int(lost.sum()), int(won.sum())
    found = paired_difference_interval(won_count, lost_count, len(first))
    if not metric.higher_is_better:
        found = Interval(0.0 - found.estimate, -found.high, -found.low)
    return PairedAccuracy(
        metric=metric.name,
        samples=len(first),
        difference=found.estimate,
        low=found.low,
        high=found.high,
        higher_is_better=metric.higher_is_better,
        both_right=int((first & second).sum()),
        lost=lost_count,
        won=won_count,
        both_wrong=int((~first & ~second).sum()),
        p_value=mcnemar_p_value(won_count, lost_count),
        lost_samples=tuple(names[index] for index in np.flatnonzero(lost).tolist()),
        won_samples=tuple(names[index] for index in np.flatnonzero(won).tolist()),
    )


def _bootstrap(estimate: float, count: int, value: Callable[[Floats], float], seed: int) -> Interval:
    if count == 1:
        return Interval(estimate, -math.inf, math.inf)
    source = np.random.default_rng(seed)
    values = [
        value(np.bincount(source.integers(0, count, count), minlength=count).astype(np.float64))
        for _ in range(_RESAMPLES)
    ]
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    widening = math.sqrt(count / (count - 1)) * student_quantile(count - 1, _CONFIDENCE) / _normal_quantile(_CONFIDENCE)
    below, above = max(0.0, estimate - float(low)), max(0.0, float(high) - estimate)
    return Interval(estimate, estimate - below * widening, estimate + above * widening)
