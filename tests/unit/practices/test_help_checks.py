"""Is this machine fit to measure on? Each trouble is planted in a machine that does not exist."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.block import Block, Conditions
from hasten.core.failure import Failure, RunnerFailed
from hasten.practices.help.run import MISSING, OK, WARNING, Check, check_machine
from hasten.targets.client import LoadReport, RunnerClient
from tests.unit.fake_target import MACHINE, FakeTarget

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan, Workload
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

    def ask(self, request: Message, *, stage: str, seconds: float) -> Message:
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


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock finds it a tenth of a second later, so that rounds end without waiting."""
    ticks = iter(range(10**6))

    class Ticking:
        @staticmethod
        def monotonic() -> float:
            return next(ticks) / 10

    monkeypatch.setattr("hasten.measure.schedule.time", Ticking)


def checks_of(target: PlantedTarget) -> dict[str, Check]:
    return {check.name: check for check in check_machine(target)}


def test_good_machine_passes() -> None:
    found = checks_of(PlantedTarget())
    usual = [check for name, check in found.items() if name not in ("runs on a GPU", "runs on an NPU", "cache")]
    assert {check.status for check in usual} == {OK}
    assert "avx512_vnni" in found["processor"].finding


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("other load", {"load_average": 3.0}),
        ("timer", {"timer_ns": 100_000}),
        ("clock", {"governor": "powersave"}),
        ("memory", {"memory_mb": 512}),
    ],
)
def test_trouble_is_a_warning_with_a_fix(name: str, changes: dict[str, Any]) -> None:
    found = checks_of(PlantedTarget(**changes))
    assert found[name].status == WARNING
    assert found[name].fix
    assert [check.name for check in found.values() if check.status == WARNING and check.name != "cache"] == [name]


def test_noise_is_a_warning() -> None:
    found = checks_of(PlantedTarget(times_ns=[1_000_000] * 16 + [3_000_000] * 4))
    assert found["noise"].status == WARNING
    assert "200%" in found["noise"].finding


def test_powersave_names_the_command() -> None:
    assert "cpupower" in checks_of(PlantedTarget(governor="powersave"))["clock"].fix


def test_virtual_machine_is_told_that_the_host_decides() -> None:
    clock = checks_of(PlantedTarget(governor=None, hypervisor=True))["clock"]
    assert clock.status == OK
    assert "host decides" in clock.finding


def test_missing_things_are_missing_and_not_warnings() -> None:
    found = checks_of(PlantedTarget(energy_counter=False, instructions=[]))
    assert found["energy"].status == MISSING
    assert found["runs on a GPU"].status == MISSING
    assert found["runs on an NPU"].finding == "no npu here"
    assert "may not speed things up" in found["processor"].finding


def test_without_an_engine_that_is_all_there_is_to_say() -> None:
    target = PlantedTarget()
    target.refuses = Failure("start", "target", "LiteRT is not installed", "pip install ai-edge-litert")
    assert check_machine(target) == [Check("engine", MISSING, "LiteRT is not installed", "pip install ai-edge-litert")]


def test_each_check_is_reported_as_soon_as_it_is_known() -> None:
    told: list[Check] = []
    assert check_machine(PlantedTarget(), told.append) == told


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert checks_of(PlantedTarget())["cache"].status == OK
    monkeypatch.setattr("hasten.practices.help.os.access", lambda path, mode: False)
    assert checks_of(PlantedTarget())["cache"].status == WARNING


def test_clock_that_never_moves_gives_no_error() -> None:
    assert "runs on the CPU" in checks_of(PlantedTarget(times_ns=[0] * 20))
