"""What each goal costs, read from a measurement.

A goal turns a measurement into levels: round → natural logarithm of a cost that is better if it is smaller. All
verdicts then follow one rule (`core.levels`, `core.comparison`), whatever the cost is:

- latency: milliseconds of a run, from its undisturbed runs;
- size: bytes of the file, exactly known;
- energy: millijoules of a run, by the machine's counter over the blocks of a round;
- throughput: milliseconds between two results while as many runners as fit keep all cores busy;
- start: milliseconds from the file to the first result (init and first run) in a fresh process.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import DEFAULT_MARGIN, FEWEST_ROUNDS
from hasten.core.goal import Amount, Goal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.measurement import Burst, Measurement
    from hasten.core.statistics import Interval

_MS_PER_SECOND: Final = 1e3


def decisive(goal: Goal, one_bytes: int, other_bytes: int) -> Goal:
    """The goal that two candidates are compared by: of two files that are equally large, their latency."""
    known = one_bytes > 0 and other_bytes > 0
    equal = known and abs(math.log(other_bytes / one_bytes)) <= DEFAULT_MARGIN
    return Goal.LATENCY if goal is Goal.SIZE and equal else goal


def measured_levels(goal: Goal, found: Measurement) -> dict[int, float]:
    """Round → logarithm of the goal's cost there; rounds in which it is not known are left out."""
    if goal is Goal.LATENCY:
        return found.samples.levels
    if goal is Goal.SIZE:
        return size_levels(found.model.size_bytes)
    if goal is Goal.ENERGY:
        costs = found.samples.millijoules
    elif goal is Goal.START:
        costs = {start.round: start.init_ms + start.first_run_ms for start in found.starts}
    else:
        costs = _times_between_results(found.bursts)
    return {number: math.log(cost) for number, cost in costs.items() if cost > 0}


def size_levels(size_bytes: int) -> dict[int, float]:
    """A size is known exactly, as if from as many rounds as any verdict asks for; none where it is not known."""
    return dict.fromkeys(range(FEWEST_ROUNDS), math.log(size_bytes)) if size_bytes > 0 else {}


def _times_between_results(bursts: Sequence[Burst]) -> dict[int, float]:
    """Round → milliseconds between two results: the median of its bursts."""
    rounds: dict[int, list[float]] = {}
    for burst in bursts:
        if burst.per_second > 0:
            rounds.setdefault(burst.round, []).append(_MS_PER_SECOND / burst.per_second)
    return {number: median(times) for number, times in rounds.items()}


def amount_of(goal: Goal, cost: Interval) -> Amount:
    """A cost, as levels give it, in the unit that the goal is shown in."""
    if not goal.more_is_better:
        return Amount(cost.estimate, (cost.low, cost.high))
    low, high = (_MS_PER_SECOND / end if 0 < end < math.inf else math.nan for end in (cost.high, cost.low))
    known = math.isfinite(low) and math.isfinite(high)
    return Amount(_MS_PER_SECOND / cost.estimate, (low, high) if known else (-math.inf, math.inf))
