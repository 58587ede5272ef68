"""Checks of a machine and the available devices, as blocks and as the documents that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.codec import to_data
from hasten.core.units import several
from hasten.practices.help.facts import Device, DevicesFound, DoctorFound, Status
from hasten.practices.help.rules import NAME, finding_of
from hasten.practices.help.words import BOOK
from hasten.show.blocks import Facts, Headline, sentences

if TYPE_CHECKING:
    from hasten.show.blocks import Block


def view(found: DoctorFound | DevicesFound) -> list[Block]:
    """Whether the machine is fit, and each check; or a line for each device."""
    if isinstance(found, DevicesFound):
        return [Facts(tuple((device.name, _summary(device)) for device in found.devices))]
    rows = tuple((check.status.value, check.name, BOOK.text(check.finding)) for check in found.checks)
    hints = [(check.name, BOOK.hint(check.finding)) for check in found.checks]
    advice = sentences(f"{name[:1].upper()}{name[1:]}: {hint}" for name, hint in hints if hint)
    return [Headline(_headline(found)), Facts(rows), *advice]


def document(found: DoctorFound | DevicesFound) -> dict[str, Any]:
    """The document of `hasten doctor --json` or `hasten devices --json`."""
    if isinstance(found, DevicesFound):
        return {"devices": [_device_data(device) for device in found.devices]}
    checks = [
        {**to_data(check, BOOK), "facts": dict(check.finding.facts), **dict.fromkeys(("fix", "what_to_do"), hint)}
        for check in found.checks
        for hint in [BOOK.hint(check.finding)]
    ]
    return {"checks": checks, "finding": BOOK.finding_data(finding_of(found))}


def session_lines(found: DoctorFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of the checks."""
    return [("finding", NAME, to_data(finding_of(found)))]


def _headline(found: DoctorFound) -> str:
    warnings = sum(check.status is Status.WARNING for check in found.checks)
    if not found.has_engine:
        return "This machine cannot run models."
    if not warnings:
        return "This machine is ready to measure."
    return f"This machine can measure, with {several(warnings, 'warning')}."


def _summary(device: Device) -> str:
    machine = device.machine
    if machine is None:
        return f"Not usable: {BOOK.text(device.why)}"
    return (
        f"{machine.cpu}, {several(machine.cores, 'core')}, {machine.memory_mb / 1024:.0f} GB,"
        f" {machine.system} {machine.architecture}, LiteRT {machine.engine}"
    )


def _device_data(device: Device) -> dict[str, Any]:
    machine = device.machine
    return {
        **to_data(device, BOOK),
        "usable": machine is not None,
        "summary": _summary(device),
        "status": (Status.OK if machine else Status.MISSING).value,
        "engine": machine.engine if machine else None,
    }
