"""The devices that workers of a cluster offer, by name; and as `hasten devices` shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.remark import remark, said
from hasten.core.version import VERSION
from hasten.fleet.words import BOOK
from hasten.targets.base import LOCAL

if TYPE_CHECKING:
    from hasten.practices.help.facts import Device

DEVICE: Final = "device:"
"""What the name of a device's resource begins with."""
HOST: Final = "host"
"""The resource of a worker's own cores: timing the machine itself takes it, and so does making variants."""
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""The name of a device: it becomes the name of a folder, whoever has chosen it."""


@dataclass(frozen=True, slots=True)
class FleetOffer:
    """A device that a worker of the cluster offers."""

    device: Device
    worker: str
    """The worker's name."""
    address: str
    host: str = ""
    """The name of the worker's machine."""

    @property
    def name(self) -> str:
        """What the cluster calls the device."""
        return self.device.name

    @property
    def is_local(self) -> bool:
        """Whether it is the worker's own machine: nothing else may run there while it is measured."""
        return self.device.kind == LOCAL

    @property
    def resources(self) -> dict[str, float]:
        """What a job on it takes. A device that is the worker's own machine takes its cores as well."""
        return {f"{DEVICE}{self.name}": 1.0, **({HOST: 1.0} if self.is_local else {})}


def offer_from(device: Device, worker: str, address: str, description: dict[str, Any]) -> FleetOffer:
    """What a worker tells of a device; one of another release cannot be used."""
    theirs = description["hasten"]
    if theirs != VERSION:
        why = remark("fleet.other-release", device=device.name, theirs=theirs, ours=VERSION)
        device = replace(device, why=why)
    return FleetOffer(device, worker, address, description["host"])


def device_shown(offer: FleetOffer, *, in_use: bool) -> Device:
    """The device as others are shown; where it cannot be used, with the reason in words."""
    device, why = offer.device, offer.device.why
    if why.code:
        return replace(device, machine=None, why=said(BOOK.text(why), hint=BOOK.hint(why)))
    return replace(device, in_use=in_use)
