"""Warming up until steady: the first calls can be thirty times slower than the rest."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hasten.targets.client import RunnerClient

_BLOCK_SECONDS: Final = 0.03
_MOST_RUNS_A_BLOCK: Final = 200
_MOST_BLOCKS: Final = 16
_STEADY_WITHIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How the warm-up went."""

    runs: int
    settled: bool
    """False: each block was still faster than the one before when patience ran out."""


def warm_up(runner: RunnerClient) -> WarmUp:
    """Run blocks until one is no faster than the one before it (within 5 %)."""
    runs = 0
    before: float | None = None
    for _ in range(_MOST_BLOCKS):
        block = runner.block(_BLOCK_SECONDS, _MOST_RUNS_A_BLOCK)
        runs += len(block.nanoseconds)
        now = median(block.nanoseconds)
        if before is not None and now > before * (1 - _STEADY_WITHIN):
            return WarmUp(runs, settled=True)
        before = now
    return WarmUp(runs, settled=False)
