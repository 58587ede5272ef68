"""Checks of a machine and the available devices, as blocks and as the documents that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.units import several
from hasten.practices.help.facts import CleanedDevice, CleanFound, Device, DevicesFound, DoctorFound, Status
from hasten.practices.help.rules import FAST_INT8, NAME, finding_of
from hasten.practices.help.words import BOOK
from hasten.show.blocks import Facts, Headline, sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.show.blocks import Block

IN_USE: Final = "in use"


def view(found: DoctorFound | DevicesFound | CleanFound) -> list[Block]:
    """Whether the machine is fit, and each check; or a line for each device."""
    if isinstance(found, DevicesFound):
        rows = tuple((device.name, _status(device), _summary(device)) for device in found.devices)
        return [Facts(rows), *_advice(found.devices)]
    if isinstance(found, CleanFound):
        return [Facts(tuple((device.name, _freed(device)) for device in found.devices)), *_advice(found.devices)]
    rows = tuple((check.status.value, check.name, BOOK.text(check.finding)) for check in found.checks)
    hints = [(check.name, BOOK.hint(check.finding)) for check in found.checks]
    advice = sentences(f"{name[:1].upper()}{name[1:]}: {hint}" for name, hint in hints if hint)
    return [Headline(_headline(found)), Facts(rows), *advice]


def document(found: DoctorFound | DevicesFound | CleanFound) -> dict[str, Any]:
    """The document of `hasten doctor --json` or `hasten devices --json`."""
    if isinstance(found, DevicesFound):
        return {"devices": [_device_data(device) for device in found.devices]}
    if isinstance(found, CleanFound):
        return to_data(found, BOOK)
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


def _advice(devices: Sequence[Device | CleanedDevice]) -> list[Block]:
    hints = [(device.name, BOOK.hint(device.why)) for device in devices]
    return sentences(f"{name}: {hint}" for name, hint in hints if hint)


def _status(device: Device) -> str:
    if device.in_use:
        return IN_USE
    return str((Status.OK if device.machine else Status.MISSING).value)


def _summary(device: Device) -> str:
    machine = device.machine
    if machine is None:
        return BOOK.text(device.why)
    int8 = ", fast int8" if set(machine.instructions) & set(FAST_INT8) else ""
    board = f"{machine.device}, " if machine.device and machine.device != machine.cpu else ""
    stored = f"; hasten stores {device.stored_mb:.0f} MB there" if device.stored_mb else ""
    return (
        f"{board}{machine.cpu}, {several(machine.cores, 'core')}, {machine.memory_mb / 1024:.0f} GB,"
        f" {machine.system} {machine.architecture}{int8}, LiteRT {machine.engine}{stored}"
    )


def _freed(device: CleanedDevice) -> str:
    return BOOK.text(device.why) if device.why.facts else f"{device.freed_mb:.1f} MB freed"


def _device_data(device: Device) -> dict[str, Any]:
    machine = device.machine
    return {
        **to_data(device, BOOK),
        "usable": machine is not None,
        "summary": _summary(device),
        "status": _status(device),
        "engine": machine.engine if machine else None,
        "what_to_do": BOOK.hint(device.why),
    }
