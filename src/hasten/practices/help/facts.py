"""What was found about machines and models: the checks of one, what they rest on, and the available devices."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hasten.core.codec import record, sentence
from hasten.core.failure import Failure
from hasten.core.machine import Machine
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.core.profile import Profile
from hasten.core.remark import Remark
from hasten.practices.help.minimize.facts import Minimized
from hasten.practices.help.model_checks.facts import DelegateFit
from hasten.practices.help.releases.facts import ReleasesFound
from hasten.targets.base import LOCAL, Capabilities


class Status(enum.Enum):
    """What came of a check; the value is its name in JSON."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    GOOD = "good"
    """Of a model: nothing to do."""
    BETTER = "could be better"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"
    """Of a model: it is not made for what was looked at, and that is no fault."""


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
class BundleEntry:
    """A file inside an issue bundle."""

    name: str
    size_bytes: int
    what: Remark
    """What it holds."""


@record
class IssueBundle:
    """An issue bundle, as it was or will be written."""

    path: str
    entries: tuple[BundleEntry, ...]
    private: bool = False


@record
class ModelFound:
    """All that the doctor found about one model on one plan."""

    model: Model
    plan: Plan
    checks: tuple[Check, ...]
    delegates: tuple[DelegateFit, ...]
    latency: Measurement | None = None
    failure: Failure | None = None
    """Why the model does not run on this plan."""
    profile: Profile | None = None
    machine: Machine | None = None
    minimized: Minimized | None = None
    releases: ReleasesFound | None = None
    bundle: IssueBundle | None = None
    interrupted: bool = False

    @property
    def is_broken(self) -> bool:
        """Whether something must be mended before the model is used."""
        return any(check.status is Status.BROKEN for check in self.checks)


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What to do beyond the checks of a model."""

    minimize: str = ""
    """The problem to look for: `slow`, `wrong` or `crash`; empty for none."""
    against: tuple[str, Plan] | None = None
    """A model and a plan that do it right; None for the same model by the reference kernels."""
    private: bool = False
    """Let the bundle hold random weights and plain names in place of the model's own."""
    versions: tuple[str, ...] = ()
    """Releases of LiteRT to repeat it with."""
    replace: bool = False
    """Let the bundle take the place of a file that has its name."""


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
