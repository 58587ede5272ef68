"""Interleaved timing that shares no estimator with hasten: the quick end of all runs of a round, in fresh processes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hasten.measure.warmup import warm_up
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from hasten.measure.rounds import Candidate

# Neighbors on the host come and go within tenths of a second: rivals whose turns are shorter meet them alike.
_TURN_SECONDS, _MOST_RUNS = 0.02, 400
_FEWEST_TURNS = 5
_QUICK_SHARE = 0.03
_DRAWS, _MARGIN = 2000, 0.01
Timer = Callable[[float], Sequence[float]]
"""Seconds → nanoseconds of the runs in a block of that length."""
Opened = Callable[[contextlib.ExitStack], Timer]
"""Starts a fresh process that times, until the stack is left."""


def of_candidate(candidate: Candidate) -> Opened:
    """A runner of hasten's, without the statistics."""

    def opened(stack: contextlib.ExitStack) -> Timer:
        runner = stack.enter_context(LocalTarget().start(candidate.plan))
        runner.load(candidate.path, candidate.workload)
        warm_up(runner)
        return lambda seconds: runner.block(seconds, _MOST_RUNS, lead=1).nanoseconds

    return opened


def levels_in_rounds(rivals: Sequence[Opened], rounds: int, seconds_each: float) -> list[list[float]]:
    """For each rival the logarithm of its milliseconds in each round.

    A round has one fresh process a rival; they take turns there and back. The quickest runs are those that no neighbor
    on the host slowed, however few they are: ratios of all runs would be those of slowed cores.
    """
    found: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        for level, times in zip(found, _round(rivals, seconds_each), strict=True):
            level.append(math.log(float(np.quantile(times, _QUICK_SHARE)) / 1e6))
    return found


def usual(levels: Sequence[float]) -> float:
    """One level for all rounds: the mean of the quicker half, in which neighbors left the rival some free runs."""
    ordered = sorted(levels)
    return float(np.mean(ordered[: (len(ordered) + 1) // 2]))


@dataclass(frozen=True, slots=True)
class Duel:
    """The time of one rival over that of another, as their usual levels say, with an interval of 95 %."""

    ratio: float
    low: float
    high: float

    @property
    def outcome(self) -> str:
        """What the first is. Nobody notices a difference below the margin, however sure it is."""
        if self.high < 1 and self.ratio < 1 - _MARGIN:
            return "faster"
        return "slower" if self.low > 1 and self.ratio > 1 + _MARGIN else "not told apart"


def duel(first: Sequence[float], second: Sequence[float]) -> Duel:
    """The first over the second. The interval is that of rounds drawn again, both rivals' at once: a slow round slows
    both."""
    pairs = np.array([first, second])
    drawn = np.random.default_rng(0).integers(0, pairs.shape[1], (_DRAWS, pairs.shape[1]))
    found = [usual(pairs[0, rounds]) - usual(pairs[1, rounds]) for rounds in drawn]
    low, high = np.quantile(found, (0.025, 0.975))
    return Duel(math.exp(usual(first) - usual(second)), math.exp(low), math.exp(high))


def _round(rivals: Sequence[Opened], seconds_each: float) -> list[list[float]]:
    """Rivals → nanoseconds of their runs."""
    times: list[list[float]] = [[] for _ in rivals]
    with contextlib.ExitStack() as stack:
        timers = [opened(stack) for opened in rivals]
        begin, turn = time.monotonic(), 0
        while turn < _FEWEST_TURNS or time.monotonic() - begin < seconds_each * len(rivals):
            for place in range(len(rivals)) if turn % 2 == 0 else reversed(range(len(rivals))):
                times[place] += timers[place](_TURN_SECONDS)
            turn += 1
    return times
