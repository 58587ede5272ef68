"""A target without processes, for tests whose runners are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.machine import Machine
from hasten.targets.base import Capabilities

if TYPE_CHECKING:
    from pathlib import Path

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
