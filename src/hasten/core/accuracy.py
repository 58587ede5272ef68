"""How right a model is, with an interval; and how two models differ, sample by sample on the same data."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.json_numbers import finite
from hasten.core.proportions import mcnemar_p_value, paired_difference_interval, wilson_interval
from hasten.core.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# A metric's value from the sums of its statistics over so many samples.
ValueOfSums = Callable[["Floats", int], float]

_RESAMPLES: Final = 1000
_CONFIDENCE: Final = 0.95


class Kind(enum.Enum):
    """What a figure says; the value is its name in JSON."""

    ACCURACY = "accuracy"
    """Measured against labels."""
    AGREEMENT = "agreement"
    """Measured against the original model's answers: both may be wrong."""
    UNKNOWN = "unknown"
    """Agreement on inputs made up at random, which says nothing about accuracy."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A metric's value on some data, with its 95 % interval."""

    metric: str
    value: float
    low: float
    high: float
    samples: int
    data: str
    kind: Kind = Kind.ACCURACY
    notes: tuple[str, ...] = ()
    higher_is_better: bool = True

    def as_data(self) -> dict[str, Any]:
        """The accuracy as JSON can hold it."""
        return {
            "metric": self.metric,
            "value": finite(self.value),
            "ci95": [finite(self.low), finite(self.high)],
            "samples": self.samples,
            "data": self.data,
            "kind": self.kind.value,
            "notes": list(self.notes),
            "higher_is_better": self.higher_is_better,
        }


def accuracy_from_data(data: dict[str, Any]) -> Accuracy:
    """The accuracy back from JSON."""
    low, high = data["ci95"]
    return Accuracy(
        metric=data["metric"],
        value=math.nan if data["value"] is None else data["value"],
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
        samples=data["samples"],
        data=data["data"],
        kind=Kind(data["kind"]),
        notes=tuple(data["notes"]),
        # Sessions from before it was recorded.
        higher_is_better=data.get("higher_is_better", data["metric"] != "mae"),
    )


class Change(enum.Enum):
    """Whether the second model is more or less right than the first; the value is its name in JSON."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class PairedAccuracy:
    """The second model against the first on the same samples. Counts and p value are there where a sample is right or
    wrong, and nothing between."""

    metric: str
    samples: int
    difference: float
    """The second's value less the first's."""
    low: float
    high: float
    higher_is_better: bool = True
    both_right: int | None = None
    lost: int | None = None
    won: int | None = None
    both_wrong: int | None = None
    p_value: float | None = None
    lost_samples: tuple[str, ...] = ()
    won_samples: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """Better or worse if the interval leaves out zero."""
        sign = 1 if self.higher_is_better else -1
        low, high = sorted((sign * self.low, sign * self.high))
        return Change.BETTER if low > 0 else Change.WORSE if high < 0 else Change.UNDECIDED

    @property
    def drop(self) -> float:
        """How much was lost; negative if something was gained."""
        return -self.difference if self.higher_is_better else self.difference

    def as_data(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {
            "metric": self.metric,
            "samples": self.samples,
            "difference": self.difference,
            "ci95": [finite(self.low), finite(self.high)],
            "change": self.change.value,
            "both_right": self.both_right,
            "lost": self.lost,
            "won": self.won,
            "both_wrong": self.both_wrong,
            "p_value": self.p_value,
            "lost_samples": list(self.lost_samples),
            "won_samples": list(self.won_samples),
        }


def interval_of_scores(statistics: Floats, value: ValueOfSums, *, proportion: bool, seed: int = 0) -> Interval:
    """A metric's value and interval from the statistics of each sample (a row each).

    Wilson's for a share of samples; for anything else a bootstrap over samples, widened by Bessel's correction.
    """
    count = len(statistics)
    if count == 0:
        raise ValueError("no samples")
    if proportion:
        return wilson_interval(round(float(statistics[:, 0].sum())), count, _CONFIDENCE)
    estimate = value(statistics.sum(axis=0), count)
    return _bootstrap(estimate, count, lambda weights: value(weights @ statistics, count), seed)


def compare_scores(
    metric: str,
    names: Sequence[str],
    first: Floats,
    second: Floats,
    value: ValueOfSums,
    *,
    proportion: bool,
    higher_is_better: bool = True,
    seed: int = 0,
) -> PairedAccuracy:
    """Two models' statistics on the same samples, row by row."""
    count = len(first)
    if count == 0 or first.shape != second.shape or len(names) != count:
        raise ValueError(f"{first.shape} and {second.shape} scores of {len(names)} samples cannot be paired")
    if proportion:
        return _compare_hits(metric, names, first[:, 0] > 0.5, second[:, 0] > 0.5)

    def difference(weights: Floats) -> float:
        return value(weights @ second, count) - value(weights @ first, count)

    found = _bootstrap(difference(np.ones(count)), count, difference, seed)
    return PairedAccuracy(metric, count, found.estimate, found.low, found.high, higher_is_better)


def _compare_hits(
    metric: str, names: Sequence[str], first: NDArray[np.bool_], second: NDArray[np.bool_]
) -> PairedAccuracy:
    lost, won = first & ~second, ~first & second
    lost_count, won_count = int(lost.sum()), int(won.sum())
    found = paired_difference_interval(won_count, lost_count, len(first), _CONFIDENCE)
    return PairedAccuracy(
        metric=metric,
        samples=len(first),
        difference=found.estimate,
        low=found.low,
        high=found.high,
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
    widening = math.sqrt(count / (count - 1))
    below, above = max(0.0, estimate - float(low)), max(0.0, float(high) - estimate)
    return Interval(estimate, estimate - below * widening, estimate + above * widening)
