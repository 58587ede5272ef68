"""Runners of one model side by side, as a server or a batch job runs it: what the whole machine gets done.

Latency asks how long one run takes while the rest of the machine idles; throughput asks how many runs all cores finish
together. So a plan gets as many runners as its threads leave room for, and their runs are counted while all of them
run: memory and caches are shared then as they would be. The runners are asked at the same moment and run for 0.2 s,
next to which the millisecond by which they begin apart is nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from hasten.core.measurement import Burst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.block import Block
    from hasten.core.plan import Plan
    from hasten.targets.client import RunnerClient

BURST_SECONDS: Final = 0.2
# A model of 10 µs fills the time with so many.
_MOST_RUNS: Final = 20_000


def crew_size(plan: Plan, cores: int) -> int:
    """How many runners of a plan keep all cores busy. An accelerator is one, and shared by none."""
    allowed = len(plan.cores) or cores
    return max(1, allowed // plan.threads) if plan.runs_on_cpu else 1


def burst_of(crew: Sequence[RunnerClient], number: int) -> Burst:
    """Runs of all runners at the same time; RunnerFailed if one of them fails."""

    def runs(runner: RunnerClient) -> Block:
        return runner.block(BURST_SECONDS, _MOST_RUNS, runner=number, lead=1)

    with ThreadPoolExecutor(len(crew)) as pool:
        blocks = list(pool.map(runs, crew))
    seconds = tuple(sum(block.nanoseconds) / 1e9 for block in blocks)
    return Burst(number, tuple(len(block.nanoseconds) for block in blocks), seconds)
