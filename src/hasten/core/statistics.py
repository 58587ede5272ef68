"""Statistics of latencies: estimates that outliers do not move, and intervals that know how the samples were taken.

Samples of one process are not independent: they share its memory layout, and neighbors in time share the machine's
mood. So the units are blocks inside fresh processes, and the bootstrap draws processes first, then blocks of each.
With few processes such a bootstrap is too sure of itself, and drawing twice makes up for only a part of it; it is
widened by Bessel's correction and the root of Student's factor for so few, with which simulations (in the tests) find
the truth inside a 95 % interval in 90 % (three processes that differ a lot) to 99 % (processes alike) of the cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.codec import bounds_from_data, convert, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_RESAMPLES: Final = 1000
# Quantiles of Student's distribution by degrees of freedom; tabulated (Abramowitz & Stegun, table 26.10) so that the
# core needs no SciPy. Beyond the table its expansion about the normal quantile (26.7.5 there) is right to three digits.
_STUDENT: Final[dict[float, tuple[float, ...]]] = {
    0.95: (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    0.99: (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947),
}
_NORMAL: Final[dict[float, float]] = {0.95: 1.960, 0.99: 2.576}
# Tukey's fence for "far out" values.
_FAR_OUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the range that it lies in with the confidence asked for."""

    estimate: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width as a share of the estimate."""
        return (self.high - self.low) / 2 / self.estimate if self.estimate else math.inf


def grouped_interval(groups: Sequence[Sequence[float]], confidence: float = 0.95, seed: int = 0) -> Interval:
    """The median of values that come in groups (a group for each process, a value for each of its blocks)."""
    arrays = [np.asarray(group, dtype=np.float64) for group in groups if len(group)]
    if not arrays:
        raise ValueError("no values")
    estimate = float(np.median(np.concatenate(arrays)))
    independent = len(arrays) if len(arrays) > 1 else len(arrays[0])
    if independent == 1:
        return Interval(estimate, -math.inf, math.inf)
    tail = (1 - confidence) / 2
    low, high = np.quantile(_bootstrap_medians(arrays, np.random.default_rng(seed)), [tail, 1 - tail])
    student = student_quantile(independent - 1, confidence) / _NORMAL[confidence]
    widening = math.sqrt(student * independent / (independent - 1))
    # A group with many more values than the others can pull the estimate out of the interval, which weighs all alike.
    below, above = max(0.0, estimate - float(low)), max(0.0, float(high) - estimate)
    return Interval(estimate, estimate - below * widening, estimate + above * widening)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean of a few independent values, with Student's interval."""
    array = np.asarray(values, dtype=np.float64)
    estimate = float(array.mean())
    if len(array) == 1:
        return Interval(estimate, -math.inf, math.inf)
    half = student_quantile(len(array) - 1, confidence) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return Interval(estimate, estimate - half, estimate + half)


def outlier_share(values: Floats, least: float = 0.0) -> float:
    """The share of values far above the rest: beyond three interquartile ranges, and above the least given."""
    lower, upper = np.quantile(values, [0.25, 0.75])
    return float(np.mean(values > max(least, upper + _FAR_OUT * (upper - lower))))


def relative_spread(values: Sequence[float]) -> float:
    """How far the middle half of the values is apart, as a share of their median."""
    lower, centre, upper = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
    with np.errstate(over="ignore"):  # beside a median of next to nothing, any spread is endless
        return float((upper - lower) / centre) if centre else 0.0


def trend(values: Sequence[float]) -> float:
    """The relative rise from the first third of a series to its last third; 0 where it is too short to say."""
    third = len(values) // 3
    if third == 0:
        return 0.0
    first, last = float(np.median(values[:third])), float(np.median(values[-third:]))
    return last / first - 1 if first else 0.0


def student_quantile(degrees: int, confidence: float) -> float:
    """The two-sided quantile of Student's distribution."""
    table = _STUDENT[confidence]
    if degrees <= len(table):
        return table[degrees - 1]
    z = _NORMAL[confidence]
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def _bootstrap_medians(arrays: list[Floats], source: np.random.Generator) -> Floats:
    """Medians of resampled data: groups drawn with replacement, then values of each, as many as the largest has."""
    size = max(len(values) for values in arrays)
    draws = np.stack([source.choice(values, size=(_RESAMPLES, size)) for values in arrays])
    chosen = source.integers(0, len(arrays), size=(len(arrays), _RESAMPLES))
    resampled = draws[chosen, np.arange(_RESAMPLES)]
    return np.asarray(np.median(resampled, axis=(0, 2)))


# A latency with the keys that all commands use; after a single process it has no bounds.
convert(
    Interval,
    lambda latency: {"median_ms": latency.estimate, "ci95_ms": [finite(latency.low), finite(latency.high)]},
    lambda data: Interval(data["median_ms"], *bounds_from_data(data["ci95_ms"])),
)
