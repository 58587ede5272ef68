"""Whether a model's accuracy keeps a limit, of which the data are a sample: kept, broken or undecided.

The one rule for a gate and for a choice among models. Like a floor (`core/floor.py`) it is judged by the 95 % interval,
and what is undecided may be chosen if its estimate keeps the limit; with `strict`, only what is kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.core.floor import FloorState
from hasten.evaluate.intervals import binomial_cdf, wilson_interval
from hasten.evaluate.split import FEWEST_SAMPLES

if TYPE_CHECKING:
    from hasten.core.accuracy import Accuracy

_CONFIDENCE: Final = 0.95
_MOST_SAMPLES: Final = 10**6


def limit_state(found: Accuracy, limit: float, *, counted: bool) -> FloorState:
    """By the 95 % interval. That of a share is too narrow for a handful of samples: there the exact test must agree.

    `counted`: each sample is right or wrong, and the value is a share of them.
    """
    if counted:
        if not _decides(round(found.value * found.samples), found.samples, limit):
            return FloorState.UNDECIDED
    elif found.samples < FEWEST_SAMPLES:
        return FloorState.UNDECIDED
    worst, best = (found.low, found.high) if found.higher_is_better else (-found.high, -found.low)
    least = limit if found.higher_is_better else -limit
    if worst >= least:
        return FloorState.KEPT
    return FloorState.BROKEN if best < least else FloorState.UNDECIDED


def may_be_chosen(found: Accuracy, limit: float, *, counted: bool, strict: bool) -> bool:
    """The rule for what is chosen. As in a search, fewer samples than it asks for choose nothing by their estimate."""
    state = limit_state(found, limit, counted=counted)
    if state is not FloorState.UNDECIDED:
        return state is FloorState.KEPT
    within = found.value >= limit if found.higher_is_better else found.value <= limit
    return within and not strict and found.samples >= FEWEST_SAMPLES


def _decides(right: int, samples: int, limit: float) -> bool:
    """Whether so many right answers are too many or too few for a model that is right in this share of cases."""
    found = wilson_interval(right, samples)
    if found.low < limit <= found.high:
        return False
    tail = (1 - _CONFIDENCE) / 2
    if found.low >= limit:
        return binomial_cdf(samples - right, samples, 1 - limit) <= tail
    return binomial_cdf(right, samples, limit) <= tail


def samples_to_decide(found: Accuracy, limit: float, *, counted: bool) -> int | None:
    """About how many samples would decide, if the value stays; None where the value is the limit itself, or nearly."""
    away = abs(found.value - limit)
    if not away or not math.isfinite(found.value):
        return None
    if not counted:
        needed = max(FEWEST_SAMPLES, found.samples * ((found.high - found.low) / 2 / away) ** 2)
        return math.ceil(needed) if needed <= _MOST_SAMPLES else None
    count = found.samples
    while count <= _MOST_SAMPLES and not _decides(round(found.value * count), count, limit):
        count = max(count + 1, round(count * 1.02))  # "about" is meant so
    return count if count <= _MOST_SAMPLES else None
