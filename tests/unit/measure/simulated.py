"""A target without processes and without waiting: blocks come from a seeded simulation with a clock of its own."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from tests.unit.fake_target import FakeTarget, FakeTurns

from hasten.core.block import Block, Conditions, ProfiledRun, RawEvent
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.measure.rounds import Candidate
from hasten.targets.client import LoadReport, RunnerClient

if TYPE_CHECKING:
    import pytest

    from hasten.core.machine import Machine
    from hasten.runner.protocol import Message

_MOST_KEPT = 12
"""Times kept of a block: the clock moves as for all of them."""


@dataclass
class Clock:
    """Time that passes only when the simulation says so."""

    now: float = 1000.0

    def monotonic(self) -> float:
        """As time.monotonic."""
        return self.now


def install_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The simulated clock in place of the real one, wherever measuring looks at the time."""
    clock = Clock()
    monkeypatch.setattr("hasten.measure.schedule.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@dataclass
class Behaviour:
    """How a model behaves, by process and by block."""

    latency_ms: float = 1.0
    process_noise: float = 0.0
    block_noise: float = 0.002
    init_ms: tuple[float, ...] = (10.0,)
    """By process, from the first on; the last one goes on."""
    first_run_ms: tuple[float, ...] = (5.0,)
    warm_up: tuple[float, ...] = ()
    """Factors of the first blocks of a process."""
    never_steady: bool = False
    peak_memory_mb: float | None = 20.0
    watts: float | None = None
    """What the machine draws while it runs; None for a machine without a counter."""
    other_cores_busy: float = 0.0
    cores: int | None = None
    """Of the machine; None where it does not tell."""
    fails: dict[int, str] = field(default_factory=dict)
    """Process number → stage at which it fails; "block 3" is the third block after the warm-up."""
    code: str = ""
    """That of its failures."""


class SimulatedRunner(FakeTurns, RunnerClient):
    """One process."""

    def __init__(self, target: SimulatedTarget, plan: Plan) -> None:
        super().__init__(_NoLink(), plan, 1.0)
        self.target, self.name, self.process = target, "", -1
        self.behaviour = Behaviour()
        self.blocks = 0
        self.timed_blocks = 0
        self.factor = 1.0
        self.closed = False

    def hello(self) -> Machine:
        return self.target.device

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        self.name = path.stem
        self.behaviour = self.target.behaviours.get(self.name) or Behaviour()
        self.process = self.target.processes_of.get(self.name, 0)
        self.target.processes_of[self.name] = self.process + 1
        self.factor = float(np.exp(self.target.source.normal(0, self.behaviour.process_noise)))
        self._fail_at("load")
        init, first = (
            times[min(self.process, len(times) - 1)] for times in (self.behaviour.init_ms, self.behaviour.first_run_ms)
        )
        self.target.clock.now += (init + first) / 1e3
        self.target.log.append(("load", self.name, self.process))
        return LoadReport(init, {"compile_ms": init}, first, "CompiledModel", self.plan.threads - 1, True, True, (), ())

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        self.blocks += 1
        warming = most < 400  # the warm-up asks for fewer runs a block
        if not warming:
            self.timed_blocks += 1
            self._fail_at(f"block {self.timed_blocks}")
            self.target.log.append(("block", self.name, self.process))
        latency_ms = self.behaviour.latency_ms * self.factor * self._warmth()
        latency_ms *= float(np.exp(self.target.source.normal(0, self.behaviour.block_noise)))
        runs = max(1, min(most, int(seconds * 1e3 / latency_ms)))
        at, wall = self.target.clock.now, runs * latency_ms / 1e3
        self.target.clock.now += wall + lead * latency_ms / 1e3 + self.target.request_seconds
        self.peak_memory_mb = self.behaviour.peak_memory_mb
        times = array("q", [max(1, round(latency_ms * 1e6))] * min(runs, _MOST_KEPT))
        busy = len(times) * latency_ms / 1e3
        joules = None if self.behaviour.watts is None else self.behaviour.watts * busy
        others, cores = self.behaviour.other_cores_busy, self.behaviour.cores
        return Block(runner, at, times, Conditions(wall, busy, others, 0.0, 0, None, None, joules, cores=cores))

    def more_of(self, block: Block, seconds: float, most: int, *, lead: int = 0) -> Block:
        blocks = self.timed_blocks
        found = super().more_of(block, seconds, most, lead=lead)
        self.timed_blocks = blocks
        self.target.log[-1] = ("more", self.name, self.process)
        return found

    def profile(self, runs: int) -> list[ProfiledRun]:
        self._fail_at("profile")
        self.target.log.append(("profile", self.name, runs))
        microseconds = round(self.behaviour.latency_ms * 1e3)
        event = RawEvent("invoke", "Invoke", 0, 0, 1, microseconds)
        self.target.clock.now += runs * microseconds / 1e6
        return [ProfiledRun(microseconds + 1.0, (event,)) for _ in range(runs)]

    def close(self) -> None:
        self.closed = True

    def _warmth(self) -> float:
        if self.behaviour.never_steady:
            return float(0.9**self.blocks * 100)
        position = self.blocks - 1
        return self.behaviour.warm_up[position] if position < len(self.behaviour.warm_up) else 1.0

    def _fail_at(self, stage: str) -> None:
        if self.behaviour.fails.get(self.process) == stage:
            where, kind = stage.split()[0].replace("block", "run"), "target" if self.behaviour.code else "crash"
            raise RunnerFailed(Failure(where, kind, f"{self.name} died", "Retry.", code=self.behaviour.code))


class SimulatedTarget(FakeTarget):
    """A place where simulated runners run."""

    name = "simulated"
    request_seconds = 0.0
    """What a request takes, next to the runs."""

    def __init__(self, clock: Clock, behaviours: dict[str, Behaviour] | None = None, seed: int = 0) -> None:
        self.clock = clock
        self.behaviours = behaviours or {}
        self.source = np.random.default_rng(seed)
        self.start_seconds = 0.15
        self.refuses: Failure | None = None
        self.runners: list[SimulatedRunner] = []
        self.processes_of: dict[str, int] = {}
        self.log: list[tuple[str, str, int]] = []

    def machine(self) -> Machine:
        """The device, if it answers."""
        if self.refuses is not None:
            raise RunnerFailed(self.refuses)
        return self.device

    def start(self, plan: Plan) -> SimulatedRunner:
        """A fresh runner."""
        if self.refuses is not None:
            raise RunnerFailed(self.refuses)
        self.clock.now += self.start_seconds
        self.runners.append(SimulatedRunner(self, plan))
        return self.runners[-1]

    def order_of_turns(self, process: int) -> str:
        """The names of those whose turns they are in one round, one letter each."""
        return "".join(name[0] for what, name, number in self.log if what in ("block", "more") and number == process)


class _NoLink:
    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        """Nothing is at the other end."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to close."""


def candidate(name: str, plan: Plan = Plan()) -> Candidate:
    """A candidate of that name; there is no file behind it."""
    return Candidate(name, Path(f"{name}.tflite"), Model(f"{name}.tflite", 100, "00"), plan)
