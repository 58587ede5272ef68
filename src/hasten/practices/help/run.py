"""The guide's "Need more help": whether this machine is fit to measure on, what it lacks, and the available devices."""

from __future__ import annotations

import contextlib
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from hasten.core.cache_folder import cache_folder
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark, said
from hasten.measure.rounds import Candidate, Rounds, no_progress
from hasten.model.example_models import mobilenet_like
from hasten.practices.help.facts import (
    ENGINE,
    RUNS_ON,
    Check,
    CleanedDevice,
    CleanFound,
    Device,
    DevicesFound,
    DoctorFound,
    Status,
)
from hasten.practices.help.rules import cache_check, machine_checks, run_checks, with_measured_load
from hasten.targets.base import Limits
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import SshTarget
from hasten.targets.target_file import device_named, known_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Progress
    from hasten.targets.target_file import KnownDevice

T = TypeVar("T")
_RUN_SECONDS: Final = 0.3
_SECONDS_TO_LOOK: Final = 15.0
_CACHED_BYTES: Final = 4096


def run(effort: Effort) -> DoctorFound:
    """All checks of a target's machine."""
    try:
        machine = effort.target.machine()
    except RunnerFailed as failed:
        return DoctorFound((Check(ENGINE, Status.MISSING, _failed(failed.failure)),))
    return DoctorFound(with_measured_load((*machine_checks(machine), _cache(), *_runs(effort))))


def devices(names: Sequence[str] = (), progress: Progress = no_progress) -> DevicesFound:
    """Each device that is named, or all that are known, with its machine. All are asked at once."""
    return DevicesFound(tuple(_each(_look, _asked(names), progress)))


def clean(names: Sequence[str] = (), progress: Progress = no_progress) -> CleanFound:
    """Remove what hasten has stored on devices: those that are named, or all that are known."""
    away = [device for device in _asked(names) if device.ssh is not None]
    return CleanFound(tuple(_each(_clean, away, progress)))


def set_up(name: str, progress: Progress = no_progress) -> DevicesFound | Failure:
    """Install LiteRT on a device, into an environment of hasten's own there."""
    device = device_named(name)
    if device.ssh is None:
        hint = "Install it with pip: pip install ai-edge-litert"
        return Failure("start", "usage", "hasten installs nothing on this machine.", hint)
    with contextlib.closing(SshTarget(name, device.ssh)) as target:
        try:
            target.transport.install(lambda line: progress(0.0, line))
        except RunnerFailed as failed:
            return failed.failure
    return devices([name])


def _asked(names: Sequence[str]) -> Sequence[KnownDevice]:
    return [device_named(name) for name in dict.fromkeys(names)] if names else known_devices()


def _each(work: Callable[[KnownDevice], T], asked: Sequence[KnownDevice], progress: Progress) -> list[T]:
    """The same for all devices at once: one that is slow or away holds up no other."""
    with ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="device") as pool:
        found = {pool.submit(work, device): device for device in asked}
        for done, future in enumerate(as_completed(found), 1):
            progress(done / len(found), found[future].name)
        return [future.result() for future in found]


def _look(device: KnownDevice) -> Device:
    if device.ssh is None:
        return _local(device)
    told = Device(device.name, SshTarget.capabilities, kind=device.kind)
    limits = Limits(answer_seconds=_SECONDS_TO_LOOK)
    # Without the lock: a look must not keep a session from beginning.
    with contextlib.closing(SshTarget(device.name, device.ssh, limits, keeps_lock=False)) as target:
        if not target.transport.answers():
            return replace(told, why=_failed(target.transport.away()))
        try:
            facts = target.transport.facts()
            if facts.used_bytes is not None:
                told = replace(told, stored_mb=facts.used_bytes / 1e6)
            if facts.holder is not None:  # a runner next to theirs would disturb their measurement
                return replace(told, in_use=True, why=remark("help.in-use", holder=facts.holder))
            return replace(told, machine=target.machine())
        except RunnerFailed as failed:
            return replace(told, why=_failed(failed.failure))


def _local(device: KnownDevice) -> Device:
    target = LocalTarget()
    try:
        return Device(device.name, target.capabilities, target.machine(), kind=device.kind)
    except RunnerFailed as failed:
        return Device(device.name, target.capabilities, why=_failed(failed.failure), kind=device.kind)


def _clean(device: KnownDevice) -> CleanedDevice:
    assert device.ssh is not None
    with contextlib.closing(SshTarget(device.name, device.ssh)) as target:
        if not target.transport.answers():
            return CleanedDevice(device.name, why=_failed(target.transport.away()))
        try:
            return CleanedDevice(device.name, target.transport.clean() / 1e6)
        except RunnerFailed as failed:
            return CleanedDevice(device.name, why=_failed(failed.failure))
        except OSError as error:
            return CleanedDevice(device.name, why=said(f"{error}."))


def _failed(failure: Failure) -> Remark:
    return said(failure.message, hint=failure.hint)


def _cache() -> Check:
    folder = cache_folder().parent
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as stream:
            stream.write(bytes(_CACHED_BYTES))
            stream.flush()
    except OSError as error:
        return cache_check(str(folder), error.strerror or str(error))
    return cache_check(str(folder))


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
