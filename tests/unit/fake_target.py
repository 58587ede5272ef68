"""A target without processes, for tests whose runners are simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.machine import Machine
from hasten.measure.rounds import MOST_RUNS_A_BLOCK
from hasten.targets.base import Capabilities

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.block import Block
    from hasten.targets.background_load import BackgroundLoad

MACHINE = Machine(
    system="Linux",
    release="6",
    architecture="x86_64",
    python="3.11.0",
    cpu="Simulated",
    cores=4,
    memory_mb=8192,
    engine="2.3.0",
    instructions=("avx2",),
    hypervisor=True,
    timer_ns=30,
    load_average=0.1,
)


class FakeTurns:
    """More of a block, by the blocks of a simulated runner."""

    block: Callable[..., Block]

    def more_of(self, block: Block, seconds: float, most: int, *, lead: int = 0) -> Block:
        """The block with the runs of another one."""
        more = self.block(seconds, max(most, MOST_RUNS_A_BLOCK), runner=block.runner, lead=lead)
        before, after = block.conditions, more.conditions
        joules = None if before.joules is None or after.joules is None else before.joules + after.joules
        conditions = replace(
            after,
            wall_seconds=before.wall_seconds + after.wall_seconds,
            cpu_seconds=before.cpu_seconds + after.cpu_seconds,
            joules=joules,
        )
        return replace(block, nanoseconds=block.nanoseconds + more.nanoseconds, conditions=conditions)


class FakeTarget:
    """What every target that is no real one has in common."""

    capabilities = Capabilities(host_paths=True, shared_memory=False, background_load=False)
    device = MACHINE

    def machine(self) -> Machine:
        """The device as the test describes it."""
        return self.device

    def stage(self, path: Path) -> str:
        """Nothing is copied."""
        return str(path)

    def start_load(self, kind: str, workers: int) -> BackgroundLoad:
        """There are no cores to keep busy."""
        raise RunnerFailed(Failure("start", "target", f"no {kind} load of {workers} here"))

    def close(self) -> None:
        """Nothing is held."""
