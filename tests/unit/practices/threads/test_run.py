"""The study of threads on a simulated machine: what it measures, in which order, and what is left when things fail."""

from __future__ import annotations

import collections
from array import array
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core import doubts
from hasten.core.block import Block, Conditions
from hasten.core.codec import from_data
from hasten.core.errors import Interrupted
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Standing
from hasten.core.machine import Cluster, Machine
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.session import Line
from hasten.measure.effort import Effort
from hasten.measure.rounds import Candidate
from hasten.practices.threads.facts import QUIET, Option, ThreadsFound
from hasten.practices.threads.rules import doubts_of, finding_of
from hasten.practices.threads.run import conditions_for, run, thread_counts, thread_options
from hasten.practices.threads.view import document, sections, view
from hasten.practices.threads.words import condition_words
from hasten.show.blocks import Chart
from hasten.show.terminal import terminal_text
from hasten.targets.client import LoadReport, RunnerClient
from tests.unit.fake_target import MACHINE, FakeTarget, FakeTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.runner.protocol import Message


@dataclass
class SimulatedMachine(FakeTarget):
    """A machine of so many cores. `latency_ms` takes plan, kind of load and its workers."""

    latency_ms: Callable[[Plan, str, int], float]
    cores: int = 2
    clusters: tuple[tuple[int, ...], ...] = ((0, 1),)
    cores_used: Callable[[Plan], float] = lambda plan: plan.threads * 0.95
    fails: Callable[[Plan, str], str] = lambda plan, kind: ""
    load_fails: str = ""
    load_taken: float = 0.9
    others_busy: float = 0.0
    joules_a_second: float | None = None
    interrupt_after: int = 10**9
    name: str = "simulated"
    now: float = 0.0
    kind: str = ""
    workers: int = 0
    open_loads: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)
    noise: float = 0.01
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def machine(self) -> Machine:
        return replace(MACHINE, cores=self.cores, clusters=tuple(Cluster(cores) for cores in self.clusters))

    def start(self, plan: Plan) -> RunnerClient:
        return SimulatedRunner(self, plan)

    def start_load(self, kind: str, workers: int) -> SimulatedLoad:
        if self.load_fails == "start":
            raise RunnerFailed(Failure("start", "target", "no work can be started here"))
        self.kind, self.workers, self.open_loads = kind, workers, self.open_loads + 1
        return SimulatedLoad(self)

    def monotonic(self) -> float:
        return self.now


class SimulatedLoad:
    def __init__(self, machine: SimulatedMachine) -> None:
        self.machine = machine

    def __enter__(self) -> SimulatedLoad:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        if self.machine.load_fails == "meanwhile":
            raise RunnerFailed(Failure("start", "target", "the work beside the model ended by itself"))

    def close(self) -> None:
        self.machine.kind, self.machine.workers = "", 0
        self.machine.open_loads -= 1


class SimulatedRunner(FakeTurns, RunnerClient):
    def __init__(self, machine: SimulatedMachine, plan: Plan) -> None:
        super().__init__(_NoLink(), plan, 1.0)
        self.machine = machine

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        if message := self.machine.fails(self.plan, self.machine.kind):
            raise RunnerFailed(Failure("load", "engine", message))
        self.machine.now += 0.2
        return LoadReport(100.0, {"compile_ms": 100.0}, 9.0, "CompiledModel", self.plan.threads - 1, True, True, (), ())

    def more_of(self, block: Block, seconds: float, most: int, *, lead: int = 0) -> Block:
        found = super().more_of(block, seconds, most, lead=lead)
        del self.machine.log[-1]  # no block of its own
        return found

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        machine = self.machine
        if most >= 400:
            machine.log.append((machine.kind, self.plan.threads))
            if len(machine.log) > machine.interrupt_after:
                raise KeyboardInterrupt
        latency_ms = machine.latency_ms(self.plan, machine.kind, machine.workers)
        latency_ms *= float(np.exp(machine.source.normal(0, machine.noise)))
        runs = max(1, min(12, int(seconds * 1e3 / latency_ms)))
        wall = runs * latency_ms / 1e3
        machine.now += max(wall, seconds)
        used = machine.cores_used(self.plan)
        times = array("q", [round(latency_ms * 1e6)] * runs)
        joules = None if machine.joules_a_second is None else wall * machine.joules_a_second
        others = machine.workers * machine.load_taken + machine.others_busy
        return Block(runner, machine.now, times, Conditions(wall, wall * used, others, 0.0, joules=joules))

    def close(self) -> None:
        pass


class _NoLink:
    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        raise NotImplementedError

    def close(self) -> None: ...


def result(machine: SimulatedMachine, plan: Plan = Plan(), load: str = QUIET, **effort: Any) -> ThreadsFound | Failure:
    """A study on the simulated machine and by its clock."""
    candidate = Candidate("m.tflite", Path("m.tflite"), Model("m.tflite", 1000, "0" * 64), plan)
    return run(candidate, load, (), Effort(on=machine, clock=machine.monotonic, **effort))


def study(machine: SimulatedMachine, plan: Plan = Plan(), load: str = QUIET, **effort: Any) -> ThreadsFound:
    found = result(machine, plan, load, **effort)
    assert isinstance(found, ThreadsFound)
    return found


def chosen(found: ThreadsFound) -> Option:
    assert found.choice is not None
    return found.choice.option


def text_of(found: ThreadsFound) -> str:
    text = terminal_text(view(found), verbose=True)
    assert max(map(len, terminal_text(view(found)).splitlines())) <= 80
    return text


def usual(plan: Plan, kind: str, workers: int) -> float:
    """Two threads pay alone, and are worse than one beside other work."""
    alone = {1: 10.0, 2: 5.6, 3: 9.0}[plan.threads]
    return alone if not workers else alone * {1: 1.3, 2: 3.5, 3: 4.0}[plan.threads]


def test_the_situation_decides() -> None:
    for load, threads in (("quiet", 2), ("shared", 1), ("busy", 1)):
        found = study(SimulatedMachine(usual), load=load)
        assert chosen(found) == Option(threads)
        assert found.by_load["quiet"].threads == 2
        assert finding_of(found).standing is (Standing.TO_DO if threads == 2 else Standing.GOOD)


@pytest.mark.parametrize("load", ["quiet", "shared", "busy"])
def test_reruns_on_a_noisy_machine_agree(load: str) -> None:
    machines = [SimulatedMachine(usual, noise=0.15, source=np.random.default_rng(seed)) for seed in range(10)]
    found = collections.Counter(chosen(study(machine, load=load)) for machine in machines)
    assert max(found.values()) >= 9


def test_every_option_has_a_row_under_every_condition() -> None:
    data = document(study(SimulatedMachine(usual)))
    assert {(row["threads"], row["load"], row["load_kind"]) for row in data["rows"]} == {
        (threads, load, kind)
        for threads in (1, 2, 3)
        for load, kind in (
            ("quiet", None),
            ("shared", "compute"),
            ("shared", "memory"),
            ("busy", "compute"),
            ("busy", "memory"),
        )
    }
    assert data["recommended"] == 2
    assert data["energy"].startswith("cpu_seconds")
    assert [len(series["points"]) for series in data["plot"]["series"]] == [3] * 5
    assert data["effect"][1]["effect"] == "taken"


def test_conditions_alternate_and_no_load_is_left_over() -> None:
    machine = SimulatedMachine(usual)
    study(machine)
    changes = [kind for i, (kind, _) in enumerate(machine.log) if i == 0 or machine.log[i - 1][0] != kind]
    assert changes.count("") >= 4
    assert changes.count("compute") >= 3
    assert changes.count("memory") >= 3
    assert machine.open_loads == 0


def test_a_sure_choice_ends_the_study_before_its_time() -> None:
    machine = SimulatedMachine(usual)
    study(machine, seconds=10_000.0)
    assert machine.now < 200


def test_little_time_is_kept_to_and_the_doubt_is_named() -> None:
    machine = SimulatedMachine(usual)
    found = study(machine, seconds=0.5)
    assert machine.now < 10
    assert found.choice is not None
    assert not found.choice.sure
    assert "threads.unsure" in {doubt.code for doubt in doubts_of(found)}


def test_each_trial_is_kept_as_it_ends() -> None:
    kept: list[tuple[str, str, dict[str, Any]]] = []
    found = study(SimulatedMachine(usual), keep=lambda kind, label, data: kept.append((kind, label, data)))
    assert {kind for kind, _, _ in kept} == {"measurement"}
    total = sum(from_data(Measurement, data).samples.count for _, _, data in kept)
    assert total == sum(row.samples for row in found.rows)
    assert {data["load"] for _, _, data in kept} == {"quiet", "shared", "busy"}


def test_a_session_without_its_study_shows_the_same_latencies_beside_a_load() -> None:
    kept: list[Line] = []
    machine = SimulatedMachine(usual, noise=0.2)
    found = study(machine, keep=lambda kind, label, data: kept.append(Line(kind, label, "", data)))
    (section,) = sections(kept)
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    shown = {(value["threads"], value["condition"]): value["ms"] for value in chart.spec["data"]["values"]}
    for row in (row for row in found.rows if row.load_workers):
        assert shown[row.threads, condition_words(row.condition)] == pytest.approx(row.median_ms)


def test_an_interruption_leaves_what_was_measured() -> None:
    kept: list[str] = []
    with pytest.raises(Interrupted) as interrupted:
        study(SimulatedMachine(usual, interrupt_after=60), keep=lambda kind, label, data: kept.append(label))
    found = interrupted.value.found
    assert found.interrupted
    assert found.rows
    assert len(kept) >= len(found.rows)
    assert text_of(found)


def test_an_interruption_before_the_first_round_leaves_nothing() -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        study(SimulatedMachine(usual, interrupt_after=0))
    assert not isinstance(interrupted.value, Interrupted)


def test_a_count_that_fails_costs_only_its_own_rows() -> None:
    found = study(SimulatedMachine(usual, fails=lambda plan, kind: "too many threads" if plan.threads == 3 else ""))
    assert chosen(found) == Option(2)
    assert {row.option.threads for row in found.rows} == {1, 2}
    assert "too many threads" in found.troubles[0].message


def test_a_model_that_fails_is_one_failure() -> None:
    machine = SimulatedMachine(usual, fails=lambda plan, kind: "damaged")
    failure = result(machine)
    assert isinstance(failure, Failure)
    assert failure.message == "damaged"
    assert not machine.log


@pytest.mark.parametrize("when", ["start", "meanwhile"])
def test_without_work_beside_it_the_rest_is_still_told(when: str) -> None:
    found = study(SimulatedMachine(usual, load_fails=when))
    assert chosen(found) == Option(2)
    assert {row.condition.situation for row in found.rows} == {"quiet"}
    assert len(found.troubles) == 4
    failure = result(SimulatedMachine(usual, load_fails=when), load="busy")
    assert isinstance(failure, Failure)
    assert failure.kind == "target"


def test_setting_without_effect_is_named() -> None:
    found = study(SimulatedMachine(lambda plan, kind, workers: 10.0, cores_used=lambda plan: 1.0))
    assert chosen(found) == Option(1)
    assert found.by_load["quiet"].why.code == "threads.no-effect"
    assert [effect.evidence.code for effect in found.effect[1:]] == ["threads.idle"] * 2


def test_big_and_little_cores_are_tried_apart() -> None:
    def by_affinity(plan: Plan, kind: str, workers: int) -> float:
        strength = 2.0 if plan.cores == (2, 3) else 1.0 if plan.cores == (0, 1) else 1.4
        return 100.0 / (strength * min(plan.threads, len(plan.cores) or 2)) * (1 + workers)

    found = study(SimulatedMachine(by_affinity, cores=4, clusters=((2, 3), (0, 1))))
    assert chosen(found) == Option(2, (2, 3))
    data = document(found)
    assert (data["recommended"], data["recommended_cores"]) == (2, [2, 3])
    assert "threads=2,cores=2-3" in data["finding"]["what_to_do"]
    assert "2 threads on cores 2-3" in text_of(found)


def test_energy_is_told_where_there_is_a_counter_and_only_alone() -> None:
    found = study(SimulatedMachine(usual, joules_a_second=10.0))
    assert document(found)["energy"] == "counter"
    assert all((row.energy_mj is None) == bool(row.condition.workers) for row in found.rows)
    assert "mJ with 2 threads" in text_of(found)


def test_work_that_did_not_take_the_cores_is_a_doubt() -> None:
    found = study(SimulatedMachine(usual, load_taken=0.1), load="busy")
    assert doubts.LOAD_MISSING in {doubt.code for doubt in doubts_of(found)}


def test_a_machine_that_was_not_idle_is_named_in_the_recommendation() -> None:
    found = study(SimulatedMachine(usual, others_busy=0.6))
    assert finding_of(found).remark.facts["others"] == pytest.approx(0.6)
    assert "The device was not idle" in document(found)["why"]


def test_counts_up_to_the_cores_and_one_beyond() -> None:
    assert thread_counts(1) == (1, 2)
    assert thread_counts(4) == (1, 2, 3, 4, 5)
    assert thread_counts(20) == (1, 2, 3, 4, 6, 8, 12, 16, 20, 21)
    assert thread_counts(2, current=8) == (1, 2, 3, 8)


def test_options_of_unlike_cores_and_of_a_plan_with_cores() -> None:
    options = thread_options(8, ((4, 5, 6, 7), (0, 1, 2, 3)), Option(1))
    assert [o.threads for o in options if o.cores == (4, 5, 6, 7)] == [1, 2, 4]
    assert len([o for o in options if not o.cores]) == 9
    assert thread_options(2, ((2, 3), (0, 1)), Option(1, (2, 3)), (1, 2)) == [Option(1, (2, 3)), Option(2, (2, 3))]


def test_the_count_in_use_is_measured_whatever_counts_are_named() -> None:
    assert thread_options(4, (), Option(1), (2, 4)) == [Option(1), Option(2), Option(4)]
    assert thread_options(4, (), Option(2), (2, 4)) == [Option(2), Option(4)]


def test_loads_are_half_of_the_cores_and_all() -> None:
    assert [(c.situation, c.workers) for c in conditions_for(8)] == [
        ("quiet", 0),
        ("shared", 4),
        ("shared", 4),
        ("busy", 8),
        ("busy", 8),
    ]
    assert conditions_for(1)[1].workers == 1
