"""Interleaved timing that shares no estimator with hasten: medians of blocks that take turns in fresh processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hasten.measure.warmup import warm_up
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from hasten.measure.rounds import Candidate

_BLOCK_SECONDS, _MOST_RUNS = 0.05, 400
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


def levels_in_rounds(rivals: Sequence[Opened], rounds: int, turns: int) -> list[list[float]]:
    """For each rival the logarithm of its milliseconds in each round.

    A round has one fresh process a rival; their blocks take turns there and back.
    """
    found: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            timers = [opened(stack) for opened in rivals]
            blocks: list[list[float]] = [[] for _ in rivals]
            for turn in range(turns):
                order = range(len(rivals)) if turn % 2 == 0 else reversed(range(len(rivals)))
                for place in order:
                    blocks[place].append(math.log(float(np.median(timers[place](_BLOCK_SECONDS))) / 1e6))
        for level, block in zip(found, blocks, strict=True):
            level.append(float(np.median(block)))
    return found
