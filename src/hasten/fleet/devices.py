"""The devices of a cluster, as `hasten devices` shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.core.remark import said
from hasten.fleet.words import BOOK
from hasten.practices.help.facts import Device, DevicesFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.fleet.cluster import Cluster, FleetOffer


def devices_of(cluster: Cluster, names: Sequence[str] = ()) -> DevicesFound:
    """What the workers offer. A device that a job is running on is in use; none is disturbed."""
    busy = cluster.busy()
    return DevicesFound(tuple(_shown(offer, in_use=offer.name in busy) for offer in cluster.selected(names)))


def _shown(offer: FleetOffer, *, in_use: bool) -> Device:
    device, why = offer.device, offer.device.why
    if why.code:
        return replace(device, machine=None, why=said(BOOK.text(why), hint=BOOK.hint(why)))
    return replace(device, in_use=in_use)
