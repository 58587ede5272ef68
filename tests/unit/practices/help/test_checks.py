"""Is this machine fit to measure on? Each trouble is planted in a machine that does not exist."""

from __future__ import annotations

import itertools
import threading
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core import doubts
from hasten.core.block import Block, Conditions
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Standing
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.measure.effort import Effort
from hasten.practices.help import run as run_module
from hasten.practices.help.facts import CACHE, RUNS_ON, Device, Status
from hasten.practices.help.rules import finding_of, machine_checks, run_checks, with_measured_load
from hasten.practices.help.run import devices, run
from hasten.practices.help.view import document, view
from hasten.practices.help.words import BOOK
from hasten.show.terminal import terminal_text
from hasten.targets.client import LoadReport, RunnerClient
from hasten.targets.ssh import SshTarget
from hasten.targets.target_file import KnownDevice
from tests.unit.fake_target import MACHINE, FakeTarget
from tests.unit.practices.help import examples

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan, Workload
    from hasten.practices.help.facts import Check, CleanFound, DevicesFound, DoctorFound
    from hasten.runner.protocol import Message

GOOD = replace(
    MACHINE,
    cpu="Good",
    instructions=("avx2", "avx512_vnni"),
    governor="performance",
    turbo=True,
    hypervisor=False,
    energy_counter=True,
    load_average=0.2,
)


class PlantedRunner(RunnerClient):
    """Runs nothing; the machine is what the test says."""

    def __init__(self, plan: Plan, times_ns: list[int]) -> None:
        super().__init__(NoLink(), plan, 1.0)
        self.times_ns = times_ns

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        if self.plan.accelerator != "cpu":
            raise RunnerFailed(Failure("load", "accelerator", f"no {self.plan.accelerator} here", "Buy one."))
        return LoadReport(1.0, {"compile_ms": 1.0}, 1.0, "CompiledModel", 0, True, True, (), ())

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        return Block(runner, 0.0, array("q", self.times_ns), Conditions())


class NoLink:
    """Nothing is at the other end."""

    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        raise NotImplementedError

    def close(self) -> None:
        pass


class PlantedTarget(FakeTarget):
    """A machine as the test describes it."""

    name = "planted"

    def __init__(self, times_ns: list[int] | None = None, **changes: Any) -> None:
        self.device = replace(GOOD, **changes)
        self.times_ns = times_ns or [1_000_000] * 20
        self.refuses: Failure | None = None

    def machine(self) -> Machine:
        if self.refuses is not None:
            raise RunnerFailed(self.refuses)
        return self.device

    def start(self, plan: Plan) -> RunnerClient:
        if self.refuses is not None:
            raise RunnerFailed(self.refuses)
        return PlantedRunner(plan, self.times_ns)


def checks_of(target: PlantedTarget) -> dict[str, Check]:
    """Each look at the clock finds it a tenth of a second later, so that rounds end without waiting."""
    ticks = itertools.count()
    found = run(Effort(on=target, clock=lambda: next(ticks) / 10))
    return {check.name: check for check in found.checks}


def test_good_machine_passes() -> None:
    found = checks_of(PlantedTarget())
    usual = [check for name, check in found.items() if name not in (RUNS_ON["gpu"], RUNS_ON["npu"], CACHE)]
    assert {check.status for check in usual} == {Status.OK}
    assert found["processor"].finding.facts["int8"] == ["avx512_vnni"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("other load", {"load_average": 3.0}),
        ("timer", {"timer_ns": 100_000}),
        ("clock", {"governor": "powersave"}),
        ("memory", {"memory_mb": 512}),
        ("power", {"held_back": ("under-voltage",)}),
        ("power", {"held_back": ("throttled-earlier",)}),
    ],
)
def test_trouble_is_a_warning_with_a_fix(name: str, changes: dict[str, Any]) -> None:
    found = checks_of(PlantedTarget(**changes))
    assert found[name].status is Status.WARNING
    assert BOOK.hint(found[name].finding)
    assert [check.name for check in found.values() if check.status is Status.WARNING and check.name != CACHE] == [name]


def test_a_board_that_holds_nothing_back_is_fine_and_others_say_nothing_of_it() -> None:
    assert checks_of(PlantedTarget(held_back=()))["power"].status is Status.OK
    assert "power" not in checks_of(PlantedTarget())


def test_devices_have_the_keys_of_the_contract() -> None:
    rows = document(examples.devices())["devices"]
    for row in rows:
        assert {"name", "kind", "machine", "capabilities", "status", "why"} <= set(row)
    assert [row["status"] for row in rows] == ["ok", "ok", "in use", "missing"]
    assert [row["usable"] for row in rows] == [True, True, False, False]
    assert rows[3]["what_to_do"].startswith("Check that")


def test_all_devices_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None would be done if they came one after the other: each waits for all."""
    names = [f"pi-{number}" for number in range(6)]
    barrier = threading.Barrier(len(names), timeout=30)

    def look(device: KnownDevice) -> Device:
        barrier.wait()
        return Device(device.name, SshTarget.capabilities)

    monkeypatch.setattr(run_module, "_look", look)
    monkeypatch.setattr(run_module, "known_devices", lambda: tuple(map(KnownDevice, names)))
    told: list[float] = []
    found = devices(progress=lambda share, text: told.append(share))
    assert [device.name for device in found.devices] == names
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_noise_is_a_warning() -> None:
    noise = checks_of(PlantedTarget(times_ns=[1_000_000] * 16 + [3_000_000] * 4))["noise"]
    assert noise.status is Status.WARNING
    assert noise.finding.facts["spread"] == pytest.approx(2.0)


def test_powersave_names_the_command() -> None:
    assert "cpupower" in BOOK.hint(checks_of(PlantedTarget(governor="powersave"))["clock"].finding)


def test_virtual_machine_is_told_that_the_host_decides() -> None:
    clock = checks_of(PlantedTarget(governor=None, hypervisor=True))["clock"]
    assert (clock.status, clock.finding) == (Status.OK, remark("help.clock-unknown", virtual=True))


def test_missing_things_are_missing_and_not_warnings() -> None:
    found = checks_of(PlantedTarget(energy_counter=False, instructions=[]))
    assert found["energy"].status is Status.MISSING
    assert found[RUNS_ON["gpu"]].status is Status.MISSING
    assert BOOK.text(found[RUNS_ON["npu"]].finding) == "no npu here"
    assert found["processor"].finding.facts["int8"] == []


def test_without_an_engine_that_is_all_there_is_to_say() -> None:
    target = PlantedTarget()
    target.refuses = Failure("start", "target", "LiteRT is not installed.", "Run pip install ai-edge-litert.")
    found = run(Effort(on=target))
    assert not found.has_engine
    assert [(check.name, check.status) for check in found.checks] == [("engine", Status.MISSING)]
    assert document(found)["checks"][0]["fix"] == "Run pip install ai-edge-litert."
    assert finding_of(found).standing is Standing.TO_DO


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert checks_of(PlantedTarget())["cache"].status is Status.OK
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    locked = checks_of(PlantedTarget())["cache"]
    assert (locked.status, locked.finding.facts["why"]) == (Status.WARNING, "Not a directory")


def test_load_that_has_just_begun_is_seen_in_the_runs() -> None:
    blocks = tuple(
        Block(0, 0.0, array("q", [1_000_000] * 40), Conditions(0.05, 0.05, other_cores_busy=1.5, cores=2))
        for _ in range(4)
    )
    idle = machine_checks(replace(MACHINE, load_average=0.0))
    found = with_measured_load((*idle, *run_checks("cpu", Samples(blocks))))
    (load,) = [check for check in found if check.name == "other load"]
    assert (load.status, load.finding.facts["cores"]) == (Status.WARNING, pytest.approx(1.5))
    quiet = run_checks("cpu", Samples(tuple(replace(block, conditions=Conditions()) for block in blocks)))
    assert with_measured_load((*idle, *quiet)) == (*idle, *quiet)


def test_little_free_memory_is_a_warning() -> None:
    by_name = {check.name: check for check in machine_checks(replace(MACHINE, memory_mb=8192, free_memory_mb=300))}
    assert by_name["memory"].status is Status.WARNING


def test_clock_that_never_moves_gives_no_error() -> None:
    assert RUNS_ON["cpu"] in checks_of(PlantedTarget(times_ns=[0] * 20))


@pytest.mark.parametrize(
    "found", [examples.fine(), examples.troubled(), examples.without_engine(), examples.devices(), examples.cleaned()]
)
def test_it_fits_a_terminal(found: DoctorFound | DevicesFound | CleanFound) -> None:
    assert max(map(len, terminal_text(view(found)).splitlines())) <= 80


@pytest.mark.parametrize(("slow", "share"), [(1.0, 0.0), (1.06, 0.5), (1.12, 0.2), (1.5, 0.3), (1.5, 0.01)])
def test_a_machine_is_noisy_where_its_latency_has_a_doubt_of_noise(slow: float, share: float) -> None:
    random = np.random.default_rng(0)
    factors = np.where(random.random(400) < share, slow, 1.0) * random.normal(1, 0.01, 400)
    block = Block(0, 0.0, array("q", (factors * 1e6).astype(int).tolist()), Conditions())
    samples = Samples((block,), 0)
    noisy = {doubts.DISTURBED, doubts.OUTLIERS} & {doubt.code for doubt in samples.doubts()}
    _, check = run_checks("cpu", samples)
    assert (check.status is Status.WARNING) == bool(noisy)
