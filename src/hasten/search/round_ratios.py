"""Comparison of candidates by the ratios of their times within shared rounds.

A level is the natural logarithm of a candidate's milliseconds in one round. Two candidates are compared by the rounds
that both were in, so that what disturbs a whole round touches neither. Rounds in which one of them was held up make
nobody better and no two alike: small differences vanish next to what held it up. Checked by simulation in the tests.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Final

from hasten.core.levels import place, undisturbed
from hasten.core.statistics import mean_interval

if TYPE_CHECKING:
    from hasten.core.levels import Levels

# So much slower in one whole round, or in each of two, is nothing that more rounds would mend. On a machine whose cores
# belong to others, too, single processes with two threads were seen to take 1.6 times as long as the next.
_FAR_IN_ONE: Final = math.log(1.9)
_FAR_IN_TWO: Final = math.log(1.25)
_SURE: Final = 0.99
# A round that took longer than the quickest of the same candidate by more than this (a logarithm) was held up. A host
# that moves its virtual cores was seen to slow two threads of a small model by 1.65 for seconds, one thread not at all;
# two variants that differ by 7 % were then alike. Single processes on a quiet machine differ by a tenth at most.
_HELD_UP: Final = math.log(1.3)
# Less is no news: then the simpler candidate stays.
MARGIN: Final = 0.01
_LIKELY: Final = 0.95
_CLEAR: Final = 0.03


def log_ratios(first: Levels, second: Levels) -> list[float]:
    """The second against the first in each round that both were in, and neither was held up."""
    quiet = undisturbed(first, _HELD_UP).keys() & undisturbed(second, _HELD_UP).keys()
    return [second[number] - first[number] for number in sorted(quiet)]


def all_log_ratios(first: Levels, second: Levels) -> list[float]:
    """The same in every round that both were in."""
    return [second[number] - level for number, level in sorted(first.items()) if number in second]


def is_held_up(levels: Levels, known: Levels) -> bool:
    """Whether a candidate took far longer in every one of these rounds than in the quickest of others."""
    return bool(levels and known) and min(levels.values()) > min(known.values()) + _HELD_UP


def relative(levels: Levels, base: Levels) -> float:
    """The logarithm of a candidate's latency over the base's, which is in every round; infinite if unknown."""
    return place(undisturbed(levels, _HELD_UP), base, anchor=0.0)


def surely_slower(levels: Levels, leader: Levels, base: Levels) -> bool:
    """Whether a candidate takes longer than the leader by more than its noise allows, in all rounds: one that was held
    up in most of them is not known to be slow.

    Two that never met are compared by the base, which both did meet: only what nobody could overlook counts.
    """
    found, quiet = all_log_ratios(leader, levels), log_ratios(leader, levels)
    usual = fmean(quiet) if quiet else relative(levels, base) - relative(leader, base)
    if not found or usual <= 0:
        return usual > _FAR_IN_ONE
    if len(found) == 1:
        return found[0] > _FAR_IN_ONE
    if len(found) == 2:
        return min(found) > _FAR_IN_TWO
    return mean_interval(found, _SURE).low > 0


def is_better(levels: Levels, best: Levels, base: Levels) -> bool:
    """Whether a candidate is worth leaving a simpler one for: likely faster by more than a margin, or clearly."""
    found = log_ratios(best, levels)
    if not found:
        return relative(levels, base) - relative(best, base) < -_CLEAR
    mean = fmean(found)
    if len(found) < 3:
        return mean < -_CLEAR
    return (mean < -MARGIN and mean_interval(found, _LIKELY).high < 0) or mean < -_CLEAR


def are_alike(levels: Levels, leader: Levels) -> bool:
    """Whether two are so alike that more rounds would not change what a user gets."""
    found = log_ratios(leader, levels)
    if len(found) < 3:
        return False
    interval = mean_interval(found, _LIKELY)
    return max(abs(interval.low), abs(interval.high)) < 2 * MARGIN
