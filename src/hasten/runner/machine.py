"""The machine as the runner sees it: what it is, and what happens on it while a block runs. What a system does not
tell is None, or empty."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import time
from pathlib import Path
from typing import Any, Final

from hasten.core.block import Conditions
from hasten.engine.accelerators import stand_ins
from hasten.runner.cores import describe_clusters, usable_core_numbers

_CPU: Final = Path("/sys/devices/system/cpu")
_POWERCAP: Final = Path("/sys/class/powercap")
_THERMAL: Final = Path("/sys/class/thermal")
_PROC: Final = Path("/proc")
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


def describe_machine() -> dict[str, Any]:
    """What stays the same from run to run, and so belongs beside every result."""
    cpu_info = _text(_PROC / "cpuinfo")
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "cpu": _cpu_name(cpu_info),
        "cores": usable_cores(),
        "clusters": describe_clusters(),
        "memory_mb": _memory_mb(),
        "instructions": [flag for flag in _TELLING_FLAGS if flag in _cpu_flags(cpu_info)],
        "governor": _text(_CPU / "cpu0/cpufreq/scaling_governor").strip() or None,
        "turbo": _turbo(),
        "hypervisor": "hypervisor" in _cpu_flags(cpu_info),
        "energy_counter": _energy_joules() is not None,
        "timer_ns": _timer_step_ns(),
        "load_average": _load_average(),
        "stand_ins": stand_ins(),
    }


def usable_cores() -> int:
    """The cores that this process may use, which in a container can be fewer than the machine has."""
    return len(usable_core_numbers())


class ConditionsMeter:
    """Reads the counters before and after a block; the difference is what went on meanwhile."""

    def __init__(self) -> None:
        self._begin = _counters()

    def finish(self) -> Conditions:
        """The conditions since this meter was made."""
        begin, end = self._begin, _counters()
        wall = max(end["wall"] - begin["wall"], 1e-9)
        cpu = end["cpu"] - begin["cpu"]
        busy, stolen = _difference(begin, end, "busy"), _difference(begin, end, "stolen")
        switches = _difference(begin, end, "switches")
        return Conditions(
            wall_seconds=wall,
            cpu_seconds=cpu,
            other_cores_busy=None if busy is None else max(0.0, (busy - cpu) / wall),
            stolen_share=None if stolen is None else stolen / (wall * (os.cpu_count() or 1)),
            involuntary_switches=None if switches is None else int(switches),
            frequency_mhz=_frequency_mhz(),
            temperature_c=_temperature_c(),
            joules=_difference(begin, end, "joules"),
        )


def _counters() -> dict[str, Any]:
    busy, stolen = _proc_stat()
    return {
        "wall": time.perf_counter(),
        "cpu": time.process_time(),
        "switches": _involuntary_switches(),
        "busy": busy,
        "stolen": stolen,
        "joules": _energy_joules(),
    }


def _difference(begin: dict[str, Any], end: dict[str, Any], name: str) -> float | None:
    if begin[name] is None or end[name] is None or end[name] < begin[name]:
        return None  # a counter that is missing, or that wrapped around in between
    return float(end[name] - begin[name])


def _proc_stat() -> tuple[float | None, float | None]:
    """Seconds that all cores together were busy, and were stolen by the hypervisor, since boot."""
    fields = _text(_PROC / "stat").split("\n", 1)[0].split()[1:]
    ticks = _system_value("SC_CLK_TCK")
    if len(fields) < 8 or not ticks or not all(value.isdigit() for value in fields[:8]):
        return None, None
    user, nice, system, _idle, _iowait, irq, soft_irq, steal = (int(value) / ticks for value in fields[:8])
    return user + nice + system + irq + soft_irq, steal


def _cpu_flags(cpu_info: str) -> set[str]:
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _cpu_name(cpu_info: str) -> str:
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return platform.processor() or platform.machine()


def _memory_mb() -> int:
    return _system_value("SC_PAGE_SIZE") * _system_value("SC_PHYS_PAGES") // 2**20


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


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


def _energy_joules() -> float | None:
    """The energy counters of the packages (Linux powercap), added up; often readable by root only."""
    totals = [_text(path / "energy_uj").strip() for path in _POWERCAP.glob("*-rapl:*") if path.name.count(":") == 1]
    numbers = [int(value) / 1e6 for value in totals if value.isdigit()]
    return sum(numbers) if numbers else None


def _timer_step_ns() -> int:
    """The smallest step between two readings of the clock that timings are taken with."""
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [b - a for a, b in itertools.pairwise(readings) if b > a]
    return min(steps, default=0)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
