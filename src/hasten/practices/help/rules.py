"""Whether a machine is fit to measure on: a check for each fact that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.block import cores_of_others
from hasten.core.doubts import DISTURBED, OUTLIERS
from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.core.samples import BUSY_CORES
from hasten.practices.help import facts
from hasten.practices.help.facts import Check, Status
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.machine import Machine
    from hasten.core.samples import Samples
    from hasten.practices.help.facts import DoctorFound
    from hasten.practices.practice import Evidence

NAME: Final = "help"
_BUSY_LOAD: Final = 0.5
_COARSE_TIMER_NS: Final = 1000
_NOISE: Final = {DISTURBED, OUTLIERS}
_LITTLE_MEMORY_MB: Final = 1024
FAST_INT8: Final = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")


def machine_checks(machine: Machine) -> list[Check]:
    """What the description of a machine tells."""
    free_mb = machine.memory_mb if machine.free_memory_mb is None else machine.free_memory_mb
    little_memory = min(machine.memory_mb, free_mb) < _LITTLE_MEMORY_MB
    busy = machine.load_average > _BUSY_LOAD * machine.cores
    coarse = machine.timer_ns > _COARSE_TIMER_NS
    return [
        Check(facts.ENGINE, Status.OK, remark("help.engine", engine=machine.engine, python=machine.python)),
        _processor(machine),
        _warning(facts.MEMORY, little_memory, "help.memory", memory_mb=machine.memory_mb, free_mb=free_mb),
        _warning(facts.OTHER_LOAD, busy, "help.load", load=machine.load_average),
        _clock(machine),
        *_power(machine),
        _warning(facts.TIMER, coarse, "help.timer", timer_ns=machine.timer_ns),
        _energy(machine),
    ]


def _warning(name: str, is_bad: bool, code: str, **numbers: float) -> Check:
    """A number that is fine, or a warning with what to do about it."""
    return Check(name, Status.WARNING if is_bad else Status.OK, remark(f"{code}-bad" if is_bad else code, **numbers))


def _processor(machine: Machine) -> Check:
    fast = [name for name in FAST_INT8 if name in machine.instructions]
    told = {"cpu": machine.cpu, "cores": machine.cores, "architecture": machine.architecture, "int8": fast}
    return Check(facts.PROCESSOR, Status.OK, remark("help.processor", **told))


def _clock(machine: Machine) -> Check:
    if machine.governor is None:
        return Check(facts.CLOCK, Status.OK, remark("help.clock-unknown", virtual=machine.hypervisor))
    if machine.governor != "performance":
        return Check(facts.CLOCK, Status.WARNING, remark("help.clock-moves", governor=machine.governor))
    return Check(facts.CLOCK, Status.OK, remark("help.clock-fixed", turbo=machine.turbo))


def _power(machine: Machine) -> list[Check]:
    """Whether the device's firmware holds its clock back, or has done so since boot; only some boards tell."""
    if machine.held_back is None:
        return []
    if not machine.held_back:
        return [Check(facts.POWER, Status.OK, remark("help.power"))]
    return [Check(facts.POWER, Status.WARNING, remark("help.power-bad", held_back=list(machine.held_back)))]


def _energy(machine: Machine) -> Check:
    if machine.energy_counter:
        return Check(facts.ENERGY, Status.OK, remark("help.energy"))
    code = "help.energy-virtual" if machine.hypervisor else "help.energy-unreadable"
    return Check(facts.ENERGY, Status.MISSING, remark(code))


def cache_check(folder: str, trouble: str = "") -> Check:
    """Whether what was measured of a machine can be kept."""
    if not trouble:
        return Check(facts.CACHE, Status.OK, remark("help.cache"))
    return Check(facts.CACHE, Status.WARNING, remark("help.cache-locked", folder=folder, why=trouble))


def run_checks(accelerator: str, samples: Samples) -> list[Check]:
    """A small network ran; on the CPU also how steadily."""
    found = [Check(facts.RUNS_ON[accelerator], Status.OK, remark("help.runs", median_ms=samples.median_ms))]
    if accelerator == "cpu":
        spread = samples.p95_ms / samples.median_ms - 1 if samples.median_ms else 0.0
        noisy = any(doubt.code in _NOISE for doubt in samples.doubts())
        found.append(_warning(facts.NOISE, noisy, "help.noise", spread=spread))
        busy = cores_of_others(samples.blocks)
        if busy > BUSY_CORES:
            found.append(Check(facts.OTHER_LOAD, Status.WARNING, remark("help.busy-bad", cores=busy)))
    return found


def with_measured_load(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks with what other programs were seen to use, if it was much, in place of the load average.

    The average is that of a minute: it knows nothing of a program that has just begun.
    """
    measured = next((check for check in checks if check.finding.code == "help.busy-bad"), None)
    kept = [check for check in checks if check is not measured]
    return tuple(measured if measured and check.name == facts.OTHER_LOAD else check for check in kept)


def finding_of(found: DoctorFound) -> Finding:
    """What the checks come to."""
    bad = [check for check in found.checks if check.status is Status.WARNING]
    if not found.has_engine or bad:
        told = bad or [check for check in found.checks if check.status is Status.MISSING]
        rows = [{"name": it.name, "code": it.finding.code, "facts": dict(it.finding.facts)} for it in told]
        return Finding(NAME, Standing.TO_DO, remark("help.trouble", checks=rows))
    absent = [check.name for check in found.checks if check.status is Status.MISSING]
    return Finding(NAME, Standing.GOOD, remark("help.fine", count=len(found.checks) - len(absent), missing=absent))


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning alone says nothing about it."""
    return not_examined(NAME)
