"""Interleaved timing that shares no estimator with hasten: medians of ratios within short turns, in fresh processes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hasten.measure.warmup import warm_up
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.measure.rounds import Candidate

# Neighbors on the host come and go within tenths of a second: rivals whose turns are shorter meet them alike.
_TURN_SECONDS, _MOST_RUNS = 0.02, 400
_FEWEST_TURNS = 5
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

    A round has one fresh process a rival; they take turns there and back. Levels in a round differ by what the rivals
    differed by in the middle one of its turns, whatever slowed a turn as a whole.
    """
    found: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        turns = _turns(rivals, seconds_each)
        paces = turns.mean(axis=1)
        for level, beside in zip(found, np.median(turns - paces[:, None], axis=0), strict=True):
            level.append(float(np.median(paces) + beside))
    return found


def _turns(rivals: Sequence[Opened], seconds_each: float) -> NDArray[np.float64]:
    """Turns → rivals → the logarithm of the median milliseconds of a run."""
    turns: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        timers = [opened(stack) for opened in rivals]
        begin = time.monotonic()
        while len(turns) < _FEWEST_TURNS or time.monotonic() - begin < seconds_each * len(rivals):
            turn = [0.0] * len(rivals)
            for place in range(len(rivals)) if len(turns) % 2 == 0 else reversed(range(len(rivals))):
                turn[place] = math.log(float(np.median(timers[place](_TURN_SECONDS))) / 1e6)
            turns.append(turn)
    return np.array(turns)
