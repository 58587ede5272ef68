"""What a fleet came to: each device with its best choice, every choice on every device, and one choice for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from hasten.core.codec import key, record, sentence
from hasten.core.comparison import Comparison
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.core.statistics import Interval
from hasten.core.trial import NOTHING, Trial
from hasten.practices.help.facts import Device

RUN, DEVICE, TRIAL, ROUND = "fleet-run", "fleet-device", "fleet-trial", "fleet-round"
KINDS: Final = ("fleet", RUN, DEVICE, TRIAL, ROUND)
"""The kinds of lines that only a fleet's session has."""
WORST_CASE: Final = "worst-case"
WEIGHTED: Final = "weighted"


@record
class FleetDevice:
    """A device, and what its own tuning found; or why it has found nothing."""

    device: Device
    worker: str = ""
    original: Trial | None = None
    best: Trial | None = None
    best_id: str = ""
    """The choice that is its best."""
    final: Comparison | None = None
    """Its best against the original there, in fresh processes; None where the original stays."""
    trials: int = 0
    seconds: float = 0.0
    folder: str = ""
    interrupted: bool = False
    why: Remark = sentence(default=NOTHING)
    """Why it has no result."""

    @property
    def name(self) -> str:
        """What the cluster calls the device."""
        return self.device.name

    @property
    def is_usable(self) -> bool:
        """Whether it has a result."""
        return self.best is not None

    @property
    def keeps_original(self) -> bool:
        """Whether its best is the original as it runs now."""
        return self.best is not None and self.original is not None and self.best.id == self.original.id


@record
class Choice:
    """A model and a plan that is the best of some device, or the original as it runs now."""

    id: str
    variant: str
    plan: Plan
    sha256: str
    size_bytes: int = 0
    devices: tuple[str, ...] = ()
    """Whose best it is."""


@record
class FleetTrial:
    """One choice on one device. Both comparisons are of rounds on that device."""

    choice: str
    device: str
    latency: Interval | None = None
    against: Comparison | None = None
    """Its time against the original's there."""
    than_best: Comparison | None = None
    """Its time against that of the device's own best."""
    floor: FloorState = FloorState.NOT_JUDGED
    refused: bool = False
    """Whether its accuracy on this device forbids to choose it."""
    why: Remark = sentence(default=NOTHING)
    """Why it failed or must not be chosen."""
    doubts: tuple[Remark, ...] = ()

    @property
    def may_be_chosen(self) -> bool:
        """Whether it runs there, and keeps the accuracy as far as the rule of `core.floor` asks."""
        judged = self.floor in (FloorState.KEPT, FloorState.UNDECIDED) and not self.refused
        return judged and self.against is not None


@record
class SingleChoice:
    """One choice for all devices, and what it costs against a choice for each."""

    rule: str
    choice: str
    ratio: float
    """Its time against the original's: the weighted geometric mean over the devices."""
    ci95: tuple[float, float]
    worst_ratio: float
    """Its time against the best choice of the device on which it is worst."""
    worst_ci95: tuple[float, float]
    worst_device: str
    score: float = key(null=math.inf, default=math.inf)
    """What the rule makes as small as possible."""


@record
class FleetFound:
    """What tuning a fleet came to."""

    model: str
    devices: tuple[FleetDevice, ...]
    choices: tuple[Choice, ...] = ()
    trials: tuple[FleetTrial, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    """The share of each device; together 1."""
    worst_case: SingleChoice | None = None
    weighted: SingleChoice | None = None
    notes: tuple[Remark, ...] = ()
    seconds: float = 0.0
    folder: str = ""
    single_folder: str = ""
    """The bundle of the single choice: the weighted one."""
    cluster: str = ""
    command: str = ""
    interrupted: bool = False

    @property
    def usable(self) -> tuple[FleetDevice, ...]:
        """The devices that have a result."""
        return tuple(device for device in self.devices if device.is_usable)

    def trial_of(self, choice: str, device: str) -> FleetTrial | None:
        """What is known of a choice on a device."""
        found = (trial for trial in self.trials if (trial.choice, trial.device) == (choice, device))
        return next(found, None)
