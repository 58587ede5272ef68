"""A simulated machine with several back ends, and the examination of accelerators on it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.block import Block, Conditions
from hasten.core.failure import UNSUPPORTED, Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.placement import XNNPACK, Partition, Placement
from hasten.core.plan import Plan
from hasten.measure.effort import Effort
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph
from hasten.practices.accelerators.facts import AcceleratorOptions, AcceleratorsFound
from hasten.practices.accelerators.run import examine, plans_to_examine, run
from hasten.targets.client import LoadReport, RunnerClient, TensorInfo
from tests.model_builder import ModelBuilder
from tests.unit.fake_target import MACHINE, FakeTarget, FakeTurns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from hasten.core.machine import Machine
    from hasten.core.plan import Workload
    from hasten.model.graph import Graph
    from hasten.practices.accelerators.facts import AcceleratorRow
    from hasten.runner.protocol import Message

TRUTH = np.linspace(0, 1, 8, dtype=np.float32)

NODES = (0, 1, 2, 3)


def placed(*parts: tuple[str, tuple[int, ...]], left: tuple[int, ...] = ()) -> Placement:
    return Placement(tuple(Partition(name, 0, nodes) for name, nodes in parts), tuple((0, node) for node in left))


ON_XNNPACK = placed((XNNPACK, NODES))


@dataclass
class Back:
    """How one back end behaves."""

    latency_ms: float = 1.0
    outputs: np.ndarray = field(default_factory=TRUTH.copy)
    placement: Placement | None = ON_XNNPACK
    without_cpu: bool = False
    start_ms: float = 10.0
    cached_ms: float = 10.0
    refuses: Failure | None = None
    dies_in_round: int = 0
    busy_cores: float = 1.0
    interrupted_in_round: int = 0


GPU, NPU = placed(("LITERT_WEBGPU", NODES)), placed(("delegate", (0,)))


def backs(**changes: Back | None) -> dict[str, Back]:
    """Back ends that all run, on the CPU and beside it, unless told otherwise."""
    usual: dict[str, Back | None] = {
        "xnnpack": Back(),
        "xnnpack 4 threads": Back(1.01, busy_cores=4.0),
        "builtin": Back(3.0, placement=None),
        "reference": Back(30.0, placement=None),
        "ynnpack": Back(refuses=Failure("load", "engine", "LiteRtCreateCompiledModel answered …", code=UNSUPPORTED)),
        "gpu": Back(1.5, placement=GPU, without_cpu=True),
        "npu": Back(1.5, placement=NPU, without_cpu=True),
    }
    return {name: back for name, back in {**usual, **changes}.items() if back is not None}


@dataclass
class SimulatedMachine(FakeTarget):
    """A target whose runners behave as the back end that their plan asks for."""

    backs: dict[str, Back]
    now: float = 100.0
    name: str = "simulated"
    noise: float = 0.003
    starts: dict[str, int] = field(default_factory=dict)
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def start(self, plan: Plan) -> RunnerClient:
        return SimulatedRunner(self, plan)

    def monotonic(self) -> float:
        return self.now


class SimulatedRunner(FakeTurns, RunnerClient):
    def __init__(self, machine: SimulatedMachine, plan: Plan) -> None:
        super().__init__(NoLink(), plan, 1.0)
        self.machine, self.back_name = machine, name_of(plan)
        machine.starts[self.back_name] = machine.starts.get(self.back_name, 0) + 1
        machine.now += 0.2

    @property
    def back(self) -> Back:
        return self.machine.backs[self.back_name]

    def hello(self) -> Machine:
        return replace(MACHINE, stand_ins={"gpu": "a software GPU, as this machine has no other"})

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        if self.back.refuses is not None:
            raise RunnerFailed(self.back.refuses)
        start = self.back.cached_ms if self.plan.cache else self.back.start_ms
        self.machine.now += start / 1e3
        tensors = (TensorInfo("x", "float32", (1, 8), 32, True),)
        return LoadReport(
            start, {}, 0.0, "CompiledModel", 0, True, self.back.without_cpu, tensors, tensors, self.back.placement
        )

    def evaluate_many(
        self, samples: Sequence[Sequence[bytes | memoryview]], *, fresh: bool = False
    ) -> list[tuple[bytes | memoryview, ...]]:
        return [(self.back.outputs.astype(np.float32).tobytes(),) for _ in samples]

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        back = self.back
        if back.dies_in_round and runner + 1 >= back.dies_in_round and most == 400:
            raise RunnerFailed(Failure("run", "crash", "the runner died of SIGSEGV"))
        if back.interrupted_in_round and runner + 1 >= back.interrupted_in_round and most == 400:
            raise KeyboardInterrupt
        latency = back.latency_ms * float(np.exp(self.machine.source.normal(0, self.machine.noise)))
        runs = max(1, min(most, int(seconds * 1e3 / latency)))
        wall = runs * latency / 1e3
        self.machine.now += wall
        self.peak_memory_mb = 20.0
        times = array("q", [round(latency * 1e6)] * min(runs, 8))
        return Block(runner, self.machine.now, times, Conditions(wall, wall * back.busy_cores))

    def close(self) -> None:
        """Nothing to close."""


class NoLink:
    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to close."""


def name_of(plan: Plan) -> str:
    if plan.delegate:
        return plan.delegate
    if plan.accelerator != "cpu":
        return plan.accelerator
    if plan.options:
        return "ynnpack"
    if plan.kernel != "delegate":
        return plan.kernel
    return "xnnpack" if plan.threads == 1 else f"xnnpack {plan.threads} threads"


class Examination:
    """Examines the simulated back ends, and keeps what was reported."""

    def __init__(self, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graph, self.monkeypatch = graph, monkeypatch
        self.progress: list[tuple[float, str]] = []
        self.kept: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(
        self, found: dict[str, Back], seconds: float = 60.0, delegates: Sequence[str] = (), cache: str = ""
    ) -> dict[str, AcceleratorRow]:
        """The rows by name, where the plan has all cores."""
        self.machine = SimulatedMachine(found)
        self.use_clock()
        candidate = Candidate("model.tflite", self.graph.path, Model("model.tflite", 100, "ab" * 32))
        effort = Effort(
            seconds,
            self.machine,
            lambda share, text: self.progress.append((share, text)),
            lambda *trial: self.kept.append(trial),
        )
        plans = plans_to_examine(Plan(), 1, delegates)
        self.rows = examine(candidate, self.graph, plans, effort, cache=cache)
        return {row.name: row for row in self.rows}

    def whole(
        self,
        machine: SimulatedMachine,
        plan: Plan = Plan(),
        options: AcceleratorOptions = AcceleratorOptions(),
        seconds: float = 60.0,
    ) -> AcceleratorsFound:
        """The whole run, which asks the machine for its cores."""
        self.machine = machine
        self.use_clock()
        model = Model("model.tflite", 100, "ab" * 32)
        candidate = Candidate("model.tflite", self.graph.path, model, plan)
        found = run(candidate, self.graph, options, Effort(seconds, machine))
        assert isinstance(found, AcceleratorsFound)
        self.rows = found.rows
        return found

    def use_clock(self) -> None:
        self.monkeypatch.setattr("hasten.measure.schedule.time", SimpleNamespace(monotonic=self.machine.monotonic))


def codes(row: AcceleratorRow) -> list[str]:
    """What is said of a row, by the codes of its parts."""
    return [part["code"] for part in row.why.facts["parts"]] if "parts" in row.why.facts else [row.why.code]


def facts_of(row: AcceleratorRow, code: str) -> dict[str, Any]:
    """The facts of one part of what is said of a row."""
    return next(part["facts"] for part in row.why.facts["parts"] if part["code"] == code)


def graph_in(folder: Path) -> Graph:
    """ADD, ADD, MUL, ADD."""
    g = ModelBuilder()
    x = g.input("x", (1, 8))
    g.output(g.add(g.mul(g.add(g.add(x, x), x), x), x), "y")
    path = folder / "model.tflite"
    path.write_bytes(g.build())
    return read_graph(path)
