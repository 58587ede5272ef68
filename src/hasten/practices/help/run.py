"""The guide's "Need more help": whether this machine is fit to measure on, what it lacks, and the available devices."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark, said
from hasten.measure.rounds import Candidate, Rounds
from hasten.model.example_models import mobilenet_like
from hasten.practices.help.facts import ENGINE, RUNS_ON, Check, Device, DevicesFound, DoctorFound, Status
from hasten.practices.help.rules import cache_check, machine_checks, run_checks
from hasten.targets.local import targets_within_reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.measure.effort import Effort
    from hasten.targets.base import Target

_RUN_SECONDS: Final = 0.3


def run(effort: Effort) -> DoctorFound:
    """All checks of a target's machine."""
    try:
        machine = effort.target.machine()
    except RunnerFailed as failed:
        return DoctorFound((Check(ENGINE, Status.MISSING, _failed(failed.failure)),))
    return DoctorFound((*machine_checks(machine), _cache(), *_runs(effort)))


def devices() -> DevicesFound:
    """Each target within reach, with its machine."""
    return DevicesFound(tuple(_device(target) for target in targets_within_reach()))


def _device(target: Target) -> Device:
    try:
        return Device(target.name, target.capabilities, target.machine())
    except RunnerFailed as failed:
        return Device(target.name, target.capabilities, why=_failed(failed.failure))


def _failed(failure: Failure) -> Remark:
    return said(failure.message, hint=failure.hint)


def _cache() -> Check:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache_check(str(folder), writable=os.access(folder if folder.exists() else folder.parent, os.W_OK))


def _runs(effort: Effort) -> Iterator[Check]:
    """A small network, on everything that this release can place it on."""
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        path = Path(folder) / "small.tflite"
        path.write_bytes(mobilenet_like())
        for place, (accelerator, title) in enumerate(RUNS_ON.items()):
            effort.progress(place / len(RUNS_ON), title)
            result = _time(effort, path, Plan(accelerator=accelerator))
            if isinstance(result, Failure):
                yield Check(title, Status.MISSING, _failed(result))
            else:
                yield from run_checks(accelerator, result.samples)


def _time(effort: Effort, path: Path, plan: Plan) -> Measurement | Failure:
    rounds = Rounds(effort.target, [Candidate("check", path, Model(path.name, 0, ""), plan)], effort.clock)
    rounds.run_one(_RUN_SECONDS)
    return rounds.tracks[0].result()
