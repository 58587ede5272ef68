"""The machine is described wherever hasten runs, with less where the system tells less."""

from __future__ import annotations

import builtins
import itertools
import os
import subprocess
import sys
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.block import Block, cores_of_others, usable_cores_of_others
from hasten.core.errors import UsageError
from hasten.runner import machine
from hasten.runner.machine import describe_clusters, keep_to_cores

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.block import Conditions

CPU_INFO = "processor : 0\nmodel name : Best CPU\nflags : fpu avx2 fma hypervisor\n"
CPU_INFO_ARM = "processor : 0\nFeatures : fp asimd asimddp i8mm\nHardware : BCM2835\nModel : Some Board\n"
STAT = "cpu  100 0 50 1000 5 1 2 30 0 0\ncpu0 1 2 3\n"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without /proc and /sys; files can be put there."""
    for name in ("_PROC", "_CPU", "_POWERCAP", "_THERMAL", "_FIRMWARE", "_HWMON"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(machine, name, folder)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_machine_is_described() -> None:
    found = machine.describe_machine()
    assert found.cores >= 1
    assert found.memory_mb > 0
    assert found.timer_ns > 0


def test_a_machine_that_tells_nothing_is_described(bare: Path) -> None:
    assert bare.is_dir()
    found = machine.describe_machine()
    assert found.instructions == ()
    assert found.governor is None
    assert found.turbo is None
    assert (found.device, found.temperature_c, found.held_back) == ("", None, None)
    assert not found.hypervisor
    assert not found.energy_counter
    conditions = machine.ConditionsMeter().finish()
    assert conditions.wall_seconds > 0
    assert (conditions.other_cores_busy, conditions.stolen_share, conditions.joules) == (None, None, None)
    assert (conditions.frequency_mhz, conditions.temperature_c) == (None, None)


@pytest.mark.parametrize(
    ("text", "name", "instructions", "is_virtual"),
    [(CPU_INFO, "Best CPU", ("avx2", "fma"), True), (CPU_INFO_ARM, "Some Board", ("asimd", "asimddp", "i8mm"), False)],
)
def test_the_cpu_is_read_from_the_kernels_list(
    bare: Path, text: str, name: str, instructions: tuple[str, ...], is_virtual: bool
) -> None:
    write(bare / "_PROC/cpuinfo", text)
    found = machine.describe_machine()
    assert (found.cpu, found.instructions, found.hypervisor) == (name, instructions, is_virtual)


@pytest.mark.parametrize(
    ("parts", "cpu"),
    [
        (["0xd08"] * 4, "Cortex-A72"),
        (["0xd05"] * 4 + ["0xd41"] * 4, "Cortex-A55 + Cortex-A78"),
        (["0xfff"] * 4, "Some Board"),
    ],
)
def test_cores_of_arm_are_named(bare: Path, parts: list[str], cpu: str) -> None:
    cores = "".join(f"processor : {n}\nCPU implementer : 0x41\nCPU part : {part}\n\n" for n, part in enumerate(parts))
    write(bare / "_PROC/cpuinfo", cores + "Hardware : BCM2835\nModel : Some Board\n")
    found = machine.describe_machine()
    assert (found.cpu, found.device) == (cpu, "Some Board")


def test_a_boards_name_is_that_of_its_device_tree(bare: Path) -> None:
    write(bare / "_PROC/cpuinfo", CPU_INFO_ARM)
    write(bare / "_PROC/device-tree/model", "Radxa ROCK 5B\0")
    assert machine.describe_machine().device == "Radxa ROCK 5B"


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        ("0\n", ()),
        ("1\n", ("under-voltage",)),
        ("50005\n", ("under-voltage", "throttled")),
        ("0x50000\n", ("under-voltage-earlier", "throttled-earlier")),
        ("e0008\n", ("soft-temperature-limit", "frequency-capped-earlier", "throttled-earlier")),
        ("garbage\n", None),
    ],
)
def test_a_raspberry_pi_says_why_it_holds_its_clock_back(bare: Path, bits: str, names: tuple[str, ...] | None) -> None:
    write(bare / "_FIRMWARE/soc/soc:firmware/get_throttled", bits)
    assert machine.describe_machine().held_back == names


def test_other_kernels_tell_of_the_voltage_only(bare: Path) -> None:
    write(bare / "_HWMON/hwmon1/name", "rpi_volt\n")
    write(bare / "_HWMON/hwmon1/in0_lcrit_alarm", "1\n")
    assert machine.describe_machine().held_back == ("under-voltage",)
    assert machine.ConditionsMeter().finish().held_back == 1


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("cpufreq/boost", "1\n", True),
        ("cpufreq/boost", "0\n", False),
        ("intel_pstate/no_turbo", "1\n", False),
        ("intel_pstate/no_turbo", "0\n", True),
    ],
)
def test_turbo_is_read_from_either_driver(bare: Path, file: str, text: str, turbo: bool) -> None:
    write(bare / "_CPU" / file, text)
    assert machine.describe_machine().turbo is turbo


def test_conditions_are_differences_of_counters(bare: Path) -> None:
    write(bare / "_PROC/stat", STAT)
    write(bare / "_POWERCAP/intel-rapl:0/energy_uj", "1000000\n")
    write(bare / "_POWERCAP/intel-rapl:0:0/energy_uj", "77\n")
    write(bare / "_THERMAL/thermal_zone0/temp", "41500\n")
    write(bare / "_CPU/cpu0/cpufreq/scaling_cur_freq", "2400000\n")
    meter = machine.ConditionsMeter()
    write(bare / "_POWERCAP/intel-rapl:0/energy_uj", "3500000\n")
    found = meter.finish()
    assert found.joules == pytest.approx(2.5)
    assert found.stolen_share == 0
    assert (found.temperature_c, found.frequency_mhz) == (41.5, 2400)


def test_what_happens_between_the_parts_of_a_block_is_none_of_its_conditions(bare: Path) -> None:
    counter = bare / "_POWERCAP/intel-rapl:0/energy_uj"
    write(counter, "1000000\n")
    meter = machine.ConditionsMeter()
    write(counter, "2000000\n")
    assert meter.finish().joules == pytest.approx(1.0)
    write(counter, "9000000\n")  # drawn by others
    meter.go_on()
    write(counter, "9500000\n")
    assert meter.finish().joules == pytest.approx(1.5)


@pytest.mark.parametrize(
    "names", [("package-0", "package-1", "psys"), ("package-0-die-0", "", "psys"), ("", "", "psys")]
)
def test_energy_is_counted_once(bare: Path, names: tuple[str, ...]) -> None:
    """The counter of the whole platform has that of each package in it."""
    zones = [bare / f"_POWERCAP/intel-rapl:{place}" for place in range(len(names))]
    for zone, name in zip(zones, names, strict=True):
        write(zone / "energy_uj", "1000000\n")
        if name:
            write(zone / "name", f"{name}\n")
    meter = machine.ConditionsMeter()
    for zone in zones:
        write(zone / "energy_uj", "3000000\n")
    counted = sum(name.startswith("package") for name in names) or names.count("")
    assert meter.finish().joules == pytest.approx(2.0 * counted)


def stat(*cores: tuple[int, int]) -> str:
    """What /proc/stat says: ticks that each core was busy, and that the hypervisor took."""
    total = tuple(map(sum, zip(*cores, strict=True)))
    lines = [f"cpu{name} {busy} 0 0 9000 0 0 0 {stolen} 0 0" for name, (busy, stolen) in enumerate(cores)]
    return "\n".join([f"cpu  {total[0]} 0 0 9000 0 0 0 {total[1]} 0 0", *lines, "intr 1 2 3", ""])


def conditions_of_a_second(
    bare: Path, monkeypatch: pytest.MonkeyPatch, cpu_seconds: float, text: str, usable: set[int]
) -> Conditions:
    """What is found after one second in which this process used some CPU time, and /proc/stat came to this."""
    clocks = {"perf_counter": 5.0, "process_time": 1.0}
    for name in clocks:
        monkeypatch.setattr(f"time.{name}", lambda name=name: clocks[name])
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine, "usable_core_numbers", lambda: usable)
    write(bare / "_PROC/stat", stat(*[(0, 0)] * 8))
    meter = machine.ConditionsMeter()
    write(bare / "_PROC/stat", text)
    clocks["perf_counter"] += 1.0
    clocks["process_time"] += cpu_seconds
    return meter.finish()


def test_stolen_time_is_a_share_of_the_time_that_cores_had_work(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven idle cores make the one that was stolen from no better."""
    text = stat((88, 12), *[(0, 0)] * 7)
    found = conditions_of_a_second(bare, monkeypatch, 0.88, text, set(range(8)))
    assert found.stolen_share == pytest.approx(0.12)
    assert found.other_cores_busy == pytest.approx(0)


def test_load_is_told_of_all_cores_and_of_those_that_the_process_may_use(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = stat((100, 0), (90, 5), *[(50, 40)] * 6)
    found = conditions_of_a_second(bare, monkeypatch, 1.0, text, {0, 1})
    assert (found.cores, found.usable_cores) == (8, 2)
    assert found.other_cores_busy == pytest.approx(3.9)
    assert found.usable_cores_busy == pytest.approx(0.9)
    assert found.stolen_share == pytest.approx(0.05 / 1.95)


@pytest.mark.parametrize("others", [0.0, 0.5, 1.0])
def test_turns_that_are_shorter_than_a_tick_show_what_others_use_on_average(
    bare: Path, monkeypatch: pytest.MonkeyPatch, others: float
) -> None:
    """A thread of this process in turns of 5 ms; ticks of 10 ms, in which /proc/stat has all that ran until then."""
    source, clocks = np.random.default_rng(1), {"perf_counter": 5.0, "process_time": 1.0}
    for name in clocks:
        monkeypatch.setattr(f"time.{name}", lambda name=name: clocks[name])
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(machine, "usable_core_numbers", lambda: {0, 1})
    busy = 0.0

    def go_by(seconds: float, own: float = 0.0, sibling: float = 0.0) -> None:
        nonlocal busy
        clocks["perf_counter"] += seconds
        clocks["process_time"] += own * seconds
        busy += (own + sibling + others) * seconds
        ticks = int(busy * 100 + 1e-9)
        write(bare / "_PROC/stat", stat((ticks - ticks // 2, 0), (ticks // 2, 0)))

    blocks = []
    for _ in range(60):
        meter = machine.ConditionsMeter()
        for _ in range(10):
            go_by(float(source.uniform(0.005, 0.03)), sibling=0.9)  # the turn of another candidate
            meter.go_on()
            go_by(0.005, own=1.0)
            conditions = meter.finish()
        blocks.append(Block(0, 0.0, array("q", [1]), conditions))
    assert cores_of_others(blocks) == pytest.approx(others, abs=0.1)
    assert usable_cores_of_others(blocks) == pytest.approx(others, abs=0.1)


def test_without_a_line_for_each_core_all_count(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = stat((100, 0), *[(50, 0)] * 7).split("\n", 1)[0]
    found = conditions_of_a_second(bare, monkeypatch, 1.0, text, {0, 1})
    assert found.other_cores_busy == pytest.approx(3.5)


def test_a_counter_that_wrapped_around_tells_nothing(bare: Path) -> None:
    write(bare / "_POWERCAP/intel-rapl:0/energy_uj", "9000000\n")
    meter = machine.ConditionsMeter()
    write(bare / "_POWERCAP/intel-rapl:0/energy_uj", "1\n")
    assert meter.finish().joules is None


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"])
def test_counters_that_cannot_be_read_tell_nothing(bare: Path, text: str) -> None:
    write(bare / "_PROC/stat", text)
    assert machine.ConditionsMeter().finish().other_cores_busy is None


def test_a_system_without_resource_usage_or_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    true_import = builtins.__import__

    def refuse_resource(name: str, *rest: Any, **more: Any) -> Any:
        if name == "resource":
            raise ImportError(name)
        return true_import(name, *rest, **more)

    def refuse_setting(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(builtins, "__import__", refuse_resource)
    monkeypatch.setattr(os, "sysconf", refuse_setting)
    assert machine.ConditionsMeter().finish().involuntary_switches is None
    assert machine.describe_machine().memory_mb == 0


def test_memory_that_the_system_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_STATUS", tmp_path / "none")
    meter = machine.MemoryMeter()
    meter.start()
    assert meter.peak_mb() is None


def test_memory_counts_from_its_start() -> None:
    # In a process of its own, as runners are: the one of the tests may give back what others took just then.
    code = (
        "from hasten.runner.machine import MemoryMeter; meter = MemoryMeter(); meter.start();"
        "block = bytearray(b'x' * (64 << 20)); print(meter.peak_mb())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert 60 < float(done.stdout) < 160


def _tree(folder: Path, values: list[str], name: str) -> Path:
    for core, value in zip(range(8), values, strict=False):
        path = folder / f"cpu{core}" / name
        path.parent.mkdir(parents=True)
        path.write_text(value + "\n")
    return folder


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.runner.machine.usable_core_numbers", lambda: set(range(8)))


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cpu_capacity", ["462"] * 4 + ["871"] * 3 + ["1024"]),
        ("cpufreq/cpuinfo_max_freq", ["1800000"] * 4 + ["2500000"] * 3 + ["3000000"]),
    ],
)
def test_big_and_little_cores_are_told_apart(tmp_path: Path, name: str, values: list[str]) -> None:
    clusters = describe_clusters(_tree(tmp_path, values, name))
    assert [cluster.cores for cluster in clusters] == [(7,), (4, 5, 6), (0, 1, 2, 3)]
    assert clusters[0].strength == 1.0
    assert clusters[2].strength < clusters[1].strength < 1.0


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    "values", [["1024"] * 8, ["5000", "5100"] * 4, ["1024"] * 4, ["nonsense"] * 8], ids=["equal", "near", "half", "odd"]
)
def test_like_cores_are_one_kind_and_so_are_those_nobody_tells_of(tmp_path: Path, values: list[str]) -> None:
    clusters = describe_clusters(_tree(tmp_path, values, "cpu_capacity"))
    assert [cluster.cores for cluster in clusters] == [tuple(range(8))]


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("siblings", "cores"),
    [
        (["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"], (0, 2, 4, 6, 1, 3, 5, 7)),
        (["0,4", "1,5", "2,6", "3,7"] * 2, (0, 1, 2, 3, 4, 5, 6, 7)),
        (["0-3"] * 4 + ["4-7"] * 4, (0, 4, 1, 5, 2, 6, 3, 7)),
        ([str(core) for core in range(8)], (0, 1, 2, 3, 4, 5, 6, 7)),
        (["", "garbage"], (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_cores_that_share_a_physical_one_are_no_neighbors(
    tmp_path: Path, siblings: list[str], cores: tuple[int, ...]
) -> None:
    (cluster,) = describe_clusters(_tree(tmp_path, siblings, "topology/thread_siblings_list"))
    assert cluster.cores == cores


def test_a_core_that_does_not_exist_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="cannot use core 8000"):
        keep_to_cores((8000,))
    keep_to_cores(())


def test_a_coarse_clock_is_read_until_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = itertools.count()
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(readings) // 5000 * 10_000_000)
    assert machine._timer_step_ns() == 10_000_000


@pytest.mark.parametrize("wall_seconds", [-1.0, 0.0, 1e-6])
def test_a_clock_that_jumped_tells_nothing_of_the_surroundings(
    monkeypatch: pytest.MonkeyPatch, wall_seconds: float
) -> None:
    counters = {"wall": 5.0, "cpu": 1.0, "busy": 10.0, "usable": 2, "usable_busy": 10.0, "stolen": 0.0}
    counters |= {"switches": 0.0, "joules": 0.0}
    monkeypatch.setattr(machine, "_counters", lambda: dict(counters))
    meter = machine.ConditionsMeter()
    counters |= {"wall": 5.0 + wall_seconds, "cpu": 1.05, "busy": 10.2}
    found = meter.finish()
    assert (found.wall_seconds, found.cpu_seconds, found.other_cores_busy, found.stolen_share) == (0.0, 0.0, None, None)
