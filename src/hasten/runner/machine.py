"""The machine as the runner sees it: what it is, what happens on it while a block runs, the memory that a model takes,
and the cores that a process is kept to. What a system does not report is None, or empty."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import platform
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from hasten.core.block import Conditions
from hasten.core.cores import cores_text
from hasten.core.errors import UsageError
from hasten.core.machine import Cluster, Machine, held_back_names
from hasten.engine import library
from hasten.engine.accelerators import installed_vendors, stand_ins
from hasten.runner.memory import container_memory, memory_bytes

_CPU: Final = Path("/sys/devices/system/cpu")
_POWERCAP: Final = Path("/sys/class/powercap")
_THERMAL: Final = Path("/sys/class/thermal")
_FIRMWARE: Final = Path("/sys/devices/platform")
_HWMON: Final = Path("/sys/class/hwmon")
_PROC: Final = Path("/proc")
_STATUS: Final = Path("/proc/self/status")
# Kernel files that rank a core, the better one first: its capacity (Arm, and x86 from Linux 6.12), its top clock.
_STRENGTH_FILES: Final = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
# Cores of one kind can differ by a few percent: chips favor their best cores, and capacities are measured.
_ALIKE: Final = 0.10
_TINY: Final = 1e-9
# Of a clock, in about 0.1 s.
_MOST_READINGS: Final = 1_000_000
# What decides which kernels the engine picks; listed so that a report can say what a CPU has and lacks.
_TELLING_FLAGS: Final = (
    "sse4_1",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_int8",
    "amx_tile",
    "asimd",
    "asimddp",
    "asimdhp",
    "i8mm",
    "bf16",
    "sve",
    "sme",
)


# CPU part → name, of Arm's own cores (implementer 0x41), as in the kernel's arch/arm64/include/asm/cputype.h.
_ARM: Final = "0x41"
_ARM_CORES: Final = {
    "0xd03": "Cortex-A53",
    "0xd04": "Cortex-A35",
    "0xd05": "Cortex-A55",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0a": "Cortex-A75",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse N1",
    "0xd0d": "Cortex-A77",
    "0xd40": "Neoverse V1",
    "0xd41": "Cortex-A78",
    "0xd42": "Cortex-A78AE",
    "0xd44": "Cortex-X1",
    "0xd46": "Cortex-A510",
    "0xd47": "Cortex-A710",
    "0xd48": "Cortex-X2",
    "0xd49": "Neoverse N2",
    "0xd4b": "Cortex-A78C",
    "0xd4d": "Cortex-A715",
    "0xd4e": "Cortex-X3",
    "0xd4f": "Neoverse V2",
    "0xd80": "Cortex-A520",
    "0xd81": "Cortex-A720",
    "0xd82": "Cortex-X4",
}


def describe_machine() -> Machine:
    """What stays the same from run to run. TargetError where LiteRT is missing or of an unknown release."""
    cpu_info = _text(_PROC / "cpuinfo")
    return Machine(
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        cpu=_cpu_name(cpu_info),
        cores=len(usable_core_numbers()),
        memory_mb=memory_bytes() // 2**20,
        engine=library.release(),
        platform=platform.platform(),
        clusters=describe_clusters(),
        instructions=tuple(flag for flag in _TELLING_FLAGS if flag in _cpu_flags(cpu_info)),
        governor=_text(_CPU / "cpu0/cpufreq/scaling_governor").strip() or None,
        turbo=_turbo(),
        hypervisor="hypervisor" in _cpu_flags(cpu_info),
        energy_counter=_energy_joules() is not None,
        timer_ns=_timer_step_ns(),
        load_average=_load_average(),
        free_memory_mb=_free_memory_mb(),
        stand_ins=stand_ins(),
        vendors=installed_vendors(),
        device=_device_name(cpu_info),
        temperature_c=_temperature_c(),
        held_back=None if (bits := _held_back()) is None else held_back_names(bits),
    )


def describe_clusters(root: Path = _CPU) -> tuple[Cluster, ...]:
    """Groups of like cores among those that this process may use, the strongest first; one group if all are alike."""
    usable = sorted(usable_core_numbers())
    strengths = _strengths(root, usable)
    clusters: list[tuple[float, list[int]]] = []
    for core in sorted(usable, key=lambda core: (-strengths[core], core)):
        if clusters and strengths[core] >= clusters[-1][0] * (1 - _ALIKE):
            clusters[-1][1].append(core)
        else:
            clusters.append((strengths[core], [core]))
    strongest = clusters[0][0]
    return tuple(Cluster(_siblings_last(root, cores), round(strength / strongest, 3)) for strength, cores in clusters)


def _siblings_last(root: Path, cores: list[int]) -> tuple[int, ...]:
    """One logical core of each physical one, then the second of each: neighbors in this order share nothing."""
    seen: Counter[str] = Counter()
    turns: dict[int, int] = {}
    for core in sorted(cores):
        physical = _text(root / f"cpu{core}" / "topology/thread_siblings_list").strip() or f"core {core}"
        turns[core] = seen[physical]
        seen[physical] += 1
    return tuple(sorted(cores, key=lambda core: (turns[core], core)))


def usable_core_numbers() -> set[int]:
    """The cores that this process may use, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def keep_to_cores(cores: tuple[int, ...]) -> None:
    """Let this process, and the threads that it starts from now on, use these cores only."""
    if not cores:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("This system cannot restrict a process to some cores.", "Leave out cores=….")
    if missing := set(cores) - usable_core_numbers():
        raise UsageError(
            f"A runner cannot use core {cores_text(missing)} on this machine.",
            f"Choose among the usable cores: {cores_text(usable_core_numbers())}.",
        )
    os.sched_setaffinity(0, cores)


_ADDED_UP: Final = ("wall", "cpu", "switches", "busy", "usable_busy", "stolen", "joules")


class ConditionsMeter:
    """Reads the counters before and after the runs of a block; the difference is what went on meanwhile.

    Where other processes have their turns within a block, the differences of its parts are added up before anything is
    worked out of them: counters of whole ticks say little about a few milliseconds.
    """

    def __init__(self) -> None:
        self._spent: dict[str, float | None] = dict.fromkeys(_ADDED_UP, 0.0)
        self._begin = _counters()

    def go_on(self) -> None:
        """Begin another part of the block."""
        self._begin = _counters()

    def finish(self) -> Conditions:
        """End this part: the conditions of all parts so far."""
        end = _counters()
        for name, before in self._spent.items():
            more = _difference(self._begin, end, name)
            self._spent[name] = None if before is None or more is None else before + more
        return self._conditions(end["usable"])

    def _conditions(self, usable: int) -> Conditions:
        spent = self._spent
        wall, cpu = spent["wall"] or 0.0, spent["cpu"] or 0.0
        if wall <= 0 or cpu > 2 * (os.cpu_count() or 1) * wall:  # the clock jumped: nothing can be told from it
            return Conditions(cores=os.cpu_count(), frequency_mhz=_frequency_mhz(), temperature_c=_temperature_c())
        busy, usable_busy, stolen, switches = (spent[name] for name in ("busy", "usable_busy", "stolen", "switches"))
        return Conditions(
            wall_seconds=wall,
            cpu_seconds=cpu,
            cores=os.cpu_count(),
            # Counters of whole ticks show less than none in one short block and too much in the next: what is cut off
            # here would make the mean over blocks too large.
            other_cores_busy=None if busy is None else (busy - cpu) / wall,
            usable_cores=usable,
            usable_cores_busy=None if usable_busy is None else (usable_busy - cpu) / wall,
            # Nothing is stolen from a core that has no work.
            stolen_share=None if stolen is None else stolen / max(stolen + max(usable_busy or 0.0, cpu), _TINY),
            involuntary_switches=None if switches is None else int(switches),
            frequency_mhz=_frequency_mhz(),
            temperature_c=_temperature_c(),
            joules=spent["joules"],
            held_back=_held_back(),
        )


class MemoryMeter:
    """Peak resident memory from `start` on."""

    def __init__(self) -> None:
        self._before_kb: int | None = None

    def start(self) -> None:
        """Take what is held now as the base, and let the kernel forget the peak so far."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._before_kb = _status_kb("VmRSS")

    def peak_mb(self) -> float | None:
        """The peak since then above the base, or None where the system does not report it."""
        peak = _status_kb("VmHWM")
        if peak is None or self._before_kb is None:
            return None
        return max(0, peak - self._before_kb) / 1024


def _counters() -> dict[str, Any]:
    return {
        "wall": time.perf_counter(),
        "cpu": time.process_time(),
        "switches": _involuntary_switches(),
        **_core_counters(usable_core_numbers()),
        "joules": _energy_joules(),
    }


def _difference(begin: dict[str, Any], end: dict[str, Any], name: str) -> float | None:
    if begin[name] is None or end[name] is None or end[name] < begin[name]:
        return None  # a counter that is missing, or that wrapped around in between
    return float(end[name] - begin[name])


def _core_counters(usable: set[int]) -> dict[str, Any]:
    """Seconds since boot that all cores together were busy, that the usable ones were, and that were stolen from these.

    Where the kernel does not list each core, all count as usable.
    """
    lines = [line for line in _text(_PROC / "stat").splitlines() if line.startswith("cpu")]
    times = {line.split(" ", 1)[0]: _core_times(line) for line in lines}
    own = [times.get(f"cpu{core}") for core in usable]
    whole = times.get("cpu")
    told = [time for time in own if time is not None]
    if whole is None or len(told) < len(own):
        told, usable = [] if whole is None else [whole], set(range(os.cpu_count() or 1))
    return {
        "busy": None if whole is None else whole[0],
        "usable": len(usable),
        "usable_busy": sum(busy for busy, _ in told) if told else None,
        "stolen": sum(stolen for _, stolen in told) if told else None,
    }


def _core_times(line: str) -> tuple[float, float] | None:
    """Seconds that a core was busy, and was given to others by the hypervisor, by a line of /proc/stat."""
    fields, ticks = line.split()[1:9], _system_value("SC_CLK_TCK")
    if len(fields) < 8 or not ticks or not all(value.isdigit() for value in fields):
        return None
    user, nice, system, _idle, _iowait, irq, soft_irq, steal = (int(value) / ticks for value in fields)
    return user + nice + system + irq + soft_irq, steal


def _cpu_flags(cpu_info: str) -> set[str]:
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _cpu_name(cpu_info: str) -> str:
    """x86 has "model name" for each core, Arm a number. Old boards have only Hardware, their chip, or Model."""
    found = _cpu_entries(cpu_info)
    parts = [_ARM_CORES.get(part) for part in found.get("CPU part", ()) if found.get("CPU implementer") == [_ARM]]
    if found.get("model name"):
        return found["model name"][0]
    if parts and None not in parts:
        return " + ".join(filter(None, parts))
    for name in ("Model", "Hardware"):
        if found.get(name):
            return found[name][0]
    return platform.processor() or platform.machine()


def _device_name(cpu_info: str) -> str:
    """The board's name, from the device tree that Arm boards have, or from the list of cores (a Raspberry Pi's)."""
    tree = _text(_PROC / "device-tree/model").rstrip("\0").strip()
    return tree or next(iter(_cpu_entries(cpu_info).get("Model", ())), "")


def _cpu_entries(cpu_info: str) -> dict[str, list[str]]:
    """Each name in the list of cores, with its different values in their order."""
    entries: dict[str, list[str]] = {}
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        values = entries.setdefault(name.strip(), [])
        if value.strip() and value.strip() not in values:
            values.append(value.strip())
    return entries


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def _free_memory_mb() -> int | None:
    """What the system says could still be had, and what a container's limit leaves of it."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(_PROC / "meminfo"), re.MULTILINE)
    if found is None:
        return None
    return min(int(found[1]) * 1024, container_memory().free_bytes) // 2**20


def _involuntary_switches() -> int | None:
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _system_value(name: str) -> int:
    """A setting of the system, 0 where it has none of that name."""
    with contextlib.suppress(OSError, ValueError):
        return os.sysconf(name)
    return 0


def _turbo() -> bool | None:
    text = _text(_CPU / "cpufreq/boost").strip()
    if text:
        return text == "1"
    text = _text(_CPU / "intel_pstate/no_turbo").strip()
    return text == "0" if text else None


def _frequency_mhz() -> float | None:
    values = [_text(path).strip() for path in _CPU.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")]
    numbers = [int(value) / 1e3 for value in values if value.isdigit()]
    return sum(numbers) / len(numbers) if numbers else None


def _temperature_c() -> float | None:
    values = [_text(path).strip() for path in _THERMAL.glob("thermal_zone*/temp")]
    numbers = [int(value) / 1e3 for value in values if value.lstrip("-").isdigit()]
    return max(numbers) if numbers else None


def _held_back() -> int | None:
    """Why the board's firmware holds the clock back, as bits of HELD_BACK; only Raspberry Pis report it."""
    path = _held_back_file(_FIRMWARE, _HWMON)
    if path is None:
        return None
    with contextlib.suppress(ValueError):
        return int(_text(path).strip(), 16)  # the file of a single alarm has 0 or 1, which is under-voltage
    return None


@functools.cache
def _held_back_file(firmware: Path, hwmon: Path) -> Path | None:
    """The Raspberry Pi kernel's file of all reasons; other kernels have the alarm for the voltage only."""
    for path in firmware.glob("*/*firmware/get_throttled"):
        return path
    for name in hwmon.glob("hwmon*/name"):
        if _text(name).strip() == "rpi_volt":
            return name.with_name("in0_lcrit_alarm")
    return None


def _energy_joules() -> float | None:
    """The energy counters of the packages (Linux powercap), added up; often readable by root only."""
    totals = [_text(zone / "energy_uj").strip() for zone in _energy_zones(_POWERCAP)]
    numbers = [int(value) / 1e6 for value in totals if value.isdigit()]
    return sum(numbers) if numbers else None


@functools.cache
def _energy_zones(powercap: Path) -> tuple[Path, ...]:
    """The zones of the packages. One for the whole platform ("psys") may stand next to them and counts them again."""
    zones = {zone: _text(zone / "name").strip() for zone in powercap.glob("*-rapl:*") if zone.name.count(":") == 1}
    packages = tuple(zone for zone, name in zones.items() if name.startswith("package"))
    return packages or tuple(zone for zone, name in zones.items() if name != "psys")


def _timer_step_ns() -> int:
    """The smallest step between two readings of the clock that timings are taken with.

    A coarse clock is read until it moves, if it moves at all.
    """
    for readings in (1000, _MOST_READINGS):
        steps = [b - a for a, b in itertools.pairwise(time.perf_counter_ns() for _ in range(readings)) if b > a]
        if steps:
            return min(steps)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _strengths(root: Path, cores: list[int]) -> dict[int, float]:
    """The strength of each core, comparable within the machine; all alike where the kernel does not report each one."""
    for name in _STRENGTH_FILES:
        strengths = {core: _number(root / f"cpu{core}" / name) for core in cores}
        if all(value > 0 for value in strengths.values()):
            return strengths
    return dict.fromkeys(cores, 1.0)


def _number(path: Path) -> float:
    try:
        return float(path.read_text().strip())
    except (OSError, ValueError):
        return 0.0


def _status_kb(name: str) -> int | None:
    for line in _text(_STATUS).splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return None
