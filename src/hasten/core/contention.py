"""A verdict that the machine allows: what other programs take from a plan says nothing about the plan.

A plan with two threads next to a busy program on two cores waits for it; one with a single thread does not. The ratio
is then that of the load. Contention can only slow a plan down, so a plan that is faster in spite of it is faster; one
that seems slower, or equal, is undecided.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from hasten.core.block import cores_of_others, usable_cores_of_others
from hasten.core.comparison import DEFAULT_MARGIN, Comparison, Verdict, compare_levels
from hasten.core.costs import measured_levels
from hasten.core.goal import Goal
from hasten.core.samples import BUSY_CORES, MANY_DISTURBED

if TYPE_CHECKING:
    from hasten.core.measurement import Measurement

# So many times slower in whole rounds is nothing that load on the machine explains.
BEYOND_LOAD: Final = 4.0
# A thread of a back end that waits now and then still counts as one.
_BUSY_THREAD: Final = 0.1


def compare_measurements(
    first: Measurement,
    second: Measurement,
    base: Measurement | None = None,
    margin: float = DEFAULT_MARGIN,
    goal: Goal = Goal.LATENCY,
) -> Comparison:
    """The second against the first, from the rounds in which both met the base (the first, if none is given).

    Where they met in no round undisturbed, there is no more than the ratio of what was seen of each.
    """
    one, other = (measured_levels(goal, found) for found in (first, second))
    found = compare_levels(one, other, None if base is None else measured_levels(goal, base), margin)
    if found is None:
        return Comparison(Verdict.UNDECIDED, _seen_ratio(first, second, goal), (0.0, math.inf), math.inf, 0)
    return allowed_by_load(found, first, second, goal)


def _seen_ratio(first: Measurement, second: Measurement, goal: Goal) -> float:
    """The ratio of what was seen of two that never met."""
    if goal is Goal.LATENCY:
        return second.samples.median_ms / first.samples.median_ms if first.samples.median_ms else 1.0
    one, other = (measured_levels(goal, found).values() for found in (first, second))
    return math.exp(fmean(other) - fmean(one)) if one and other else 1.0


def allowed_by_load(
    found: Comparison, first: Measurement, second: Measurement, goal: Goal = Goal.LATENCY
) -> Comparison:
    """The comparison; without its verdict where other programs may have made it.

    A file is as large next to other programs as alone. An energy counter counts what they take as well. No load
    explains a latency that is many times another.
    """
    if goal is Goal.SIZE or (goal is Goal.LATENCY and is_beyond_load(found.ratio)):
        return found
    busy = max(
        cores_of_others(one.samples.blocks) if goal is Goal.ENERGY else busy_cores(one) for one in (first, second)
    )
    counted = goal is Goal.ENERGY and busy > BUSY_CORES and found.verdict is not Verdict.UNDECIDED
    if counted or _is_for_the_load(found.verdict, first, second):
        return replace(found, verdict=Verdict.UNDECIDED, smallest_detectable=math.inf, contention=busy)
    if goal is Goal.LATENCY and not _quickest_agree(found.verdict, first, second):
        return replace(found, verdict=Verdict.UNDECIDED, smallest_detectable=math.inf, quickest_disagree=True)
    return found


def is_beyond_load(ratio: float) -> bool:
    """Whether latencies of this ratio differ by more than load on the machine explains."""
    return ratio <= 0 or max(ratio, 1 / ratio) > BEYOND_LOAD


def _is_for_the_load(verdict: Verdict, first: Measurement, second: Measurement) -> bool:
    """Whether the plan that wants more cores lost, or did not win, while other programs used some of them."""
    wanted = wanted_cores(first), wanted_cores(second)
    if verdict is Verdict.UNDECIDED or wanted[0] == wanted[1]:
        return False
    heavier = first if wanted[0] > wanted[1] else second
    won = verdict is (Verdict.SLOWER if heavier is first else Verdict.FASTER)
    return not won and is_contended(heavier)


def is_contended(found: Measurement) -> bool:
    """Whether other programs used cores that the plan needed."""
    conditions = [block.conditions for block in found.samples.blocks]
    cores = [count for item in conditions if (count := item.usable_cores or item.cores)]
    busy = busy_cores(found)
    return bool(cores) and busy > BUSY_CORES and wanted_cores(found) + busy > max(cores) + BUSY_CORES


def wanted_cores(found: Measurement) -> int:
    """The plan's threads; for a back end with threads of its own, as many as it kept busy."""
    if found.plan.runs_on_cpu:
        return found.plan.threads
    wall = sum(block.conditions.wall_seconds for block in found.samples.blocks)
    cpu = sum(block.conditions.cpu_seconds for block in found.samples.blocks)
    return max(1, math.ceil(cpu / wall - _BUSY_THREAD)) if wall else 1


def busy_cores(found: Measurement) -> float:
    """Cores that other programs used among those of the plan, on average over the time of all blocks."""
    return usable_cores_of_others(found.samples.blocks)


def _quickest_agree(verdict: Verdict, first: Measurement, second: Measurement) -> bool:
    """Whether the quickest runs, which nothing disturbed, say the same where many others were disturbed."""
    one, other = first.samples, second.samples
    disturbed = max(one.disturbed_share, other.disturbed_share) >= MANY_DISTURBED
    if not disturbed or verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return True
    quicker = other.undisturbed_below_ms < one.undisturbed_below_ms
    return quicker is (verdict is Verdict.FASTER)
