"""The guide's "Need more help": is this machine fit to measure on, and what is missing?"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.measure.rounds import Candidate, Rounds
from hasten.model.example_models import mobilenet_like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.core.machine import Machine
    from hasten.targets.base import Target

OK, WARNING, MISSING = "ok", "warning", "missing"
OTHER_LOAD: Final = "other load"
_BUSY_LOAD: Final = 0.5
_COARSE_TIMER_NS: Final = 1000
_NOISY: Final = 0.10
_LITTLE_MEMORY_MB: Final = 1024
_FAST_INT8: Final = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: str
    finding: str
    fix: str = ""


def check_machine(target: Target, report: Callable[[Check], None] = lambda check: None) -> list[Check]:
    """All checks of a target's machine, each reported as soon as it is known."""
    checks = []
    for check in _checks(target):
        report(check)
        checks.append(check)
    return checks


def _checks(target: Target) -> Iterator[Check]:
    try:
        machine = target.machine()
    except RunnerFailed as failed:
        yield Check("engine", MISSING, failed.failure.message, failed.failure.hint)
        return
    yield Check("engine", OK, f"LiteRT {machine.engine}, Python {machine.python}")
    yield _processor(machine)
    yield _memory(machine)
    yield _load(machine)
    yield _clock(machine)
    yield _timer(machine)
    yield _energy(machine)
    yield _cache()
    yield from _runs(target)


def _processor(machine: Machine) -> Check:
    fast = [name for name in _FAST_INT8 if name in machine.instructions]
    int8 = f"fast int8 ({', '.join(fast)})" if fast else "no fast int8 instructions: quantising may not speed things up"
    return Check("processor", OK, f"{machine.cpu}, {machine.cores} cores, {machine.architecture}; {int8}")


def _memory(machine: Machine) -> Check:
    finding = f"{machine.memory_mb / 1024:.1f} GB"
    if machine.memory_mb < _LITTLE_MEMORY_MB:
        return Check("memory", WARNING, finding, "Compare few models at a time.")
    return Check("memory", OK, finding)


def _load(machine: Machine) -> Check:
    load = machine.load_average
    if load > _BUSY_LOAD * machine.cores:
        return Check(OTHER_LOAD, WARNING, f"load average {load:.1f}", "Close what else runs before you measure.")
    return Check(OTHER_LOAD, OK, f"load average {load:.1f}")


def _clock(machine: Machine) -> Check:
    if machine.governor is None:
        where = "a virtual machine: the host decides" if machine.hypervisor else "the system does not tell"
        return Check("clock", OK, f"not under our control ({where})")
    if machine.governor != "performance":
        fix = "sudo cpupower frequency-set -g performance"
        return Check("clock", WARNING, f"governor '{machine.governor}' changes it while measuring", fix)
    return Check("clock", OK, f"governor 'performance', turbo {'on' if machine.turbo else 'off or unknown'}")


def _timer(machine: Machine) -> Check:
    finding = f"steps of {machine.timer_ns} ns"
    if machine.timer_ns > _COARSE_TIMER_NS:
        return Check("timer", WARNING, finding, "Latencies of a few microseconds cannot be told apart here.")
    return Check("timer", OK, finding)


def _energy(machine: Machine) -> Check:
    if machine.energy_counter:
        return Check("energy", OK, "Linux powercap")
    if machine.hypervisor:
        return Check("energy", MISSING, "no counter: this is a virtual machine")
    return Check("energy", MISSING, "no counter that this user may read", "On Intel and AMD under Linux: run as root.")


def _cache() -> Check:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    writable = os.access(folder if folder.exists() else folder.parent, os.W_OK)
    if writable:
        return Check("cache", OK, "the machine's peaks are kept from run to run")
    return Check("cache", WARNING, f"{folder} cannot be written", "Set XDG_CACHE_HOME to a folder of yours.")


def _runs(target: Target) -> Iterator[Check]:
    """A small network, on everything that this release can place it on."""
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        path = Path(folder) / "small.tflite"
        path.write_bytes(mobilenet_like())
        for accelerator, title in (("cpu", "runs on the CPU"), ("gpu", "runs on a GPU"), ("npu", "runs on an NPU")):
            result = _time(target, path, Plan(accelerator=accelerator))
            if isinstance(result, Failure):
                yield Check(title, MISSING, result.message, result.hint)
            elif accelerator == "cpu":
                yield from _cpu_checks(title, result)
            else:
                yield Check(title, OK, f"a small network takes {result.samples.median_ms:.3g} ms")


def _cpu_checks(title: str, result: Measurement) -> Iterator[Check]:
    yield Check(title, OK, f"a small network takes {result.samples.median_ms:.3g} ms")
    spread = result.samples.p95_ms / result.samples.median_ms - 1 if result.samples.median_ms else 0.0
    if spread > _NOISY:
        yield Check(
            "noise", WARNING, f"p95 is {spread:.0%} above the median", "Expect wide intervals, or quieten the machine."
        )
    else:
        yield Check("noise", OK, f"p95 is {spread:.0%} above the median")


def _time(target: Target, path: Path, plan: Plan) -> Measurement | Failure:
    rounds = Rounds(target, [Candidate("check", path, Model(path.name, 0, ""), plan)])
    rounds.run_one(0.3)
    return rounds.tracks[0].result()
