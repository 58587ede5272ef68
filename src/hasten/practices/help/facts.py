"""What was found about machines: the checks of one, and the available devices."""

from __future__ import annotations

import enum

from hasten.core.codec import record, sentence
from hasten.core.machine import Machine
from hasten.core.remark import Remark
from hasten.targets.base import LOCAL, Capabilities


class Status(enum.Enum):
    """What came of a check; the value is its name in JSON."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@record
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    finding: Remark = sentence()


@record
class DoctorFound:
    """All checks of one machine."""

    checks: tuple[Check, ...]

    @property
    def has_engine(self) -> bool:
        """Whether anything can be measured there."""
        return any(check.name == ENGINE and check.status is Status.OK for check in self.checks)


@record
class Device:
    """A place where models can be run, or why none can be there."""

    name: str
    capabilities: Capabilities
    machine: Machine | None = None
    why: Remark = sentence(default=Remark(""))
    """Why it cannot be used, or not now."""
    kind: str = LOCAL
    """How it is reached."""
    in_use: bool = False
    """Whether another session has it at the moment."""
    stored_mb: float | None = None
    """What hasten has stored there."""


@record
class DevicesFound:
    """The targets within reach."""

    devices: tuple[Device, ...]


@record
class CleanedDevice:
    """What was removed from a device, or why nothing was."""

    name: str
    freed_mb: float = 0.0
    why: Remark = sentence(default=Remark(""))


@record
class CleanFound:
    """The devices that were cleaned."""

    devices: tuple[CleanedDevice, ...]


ENGINE, PROCESSOR, MEMORY, OTHER_LOAD, CLOCK = "engine", "processor", "memory", "other load", "clock"
POWER = "power"
TIMER, ENERGY, CACHE, NOISE = "timer", "energy", "cache", "noise"
RUNS_ON = {"cpu": "runs on the CPU", "gpu": "runs on a GPU", "npu": "runs on an NPU"}
