"""Checks of a machine or a model and the available devices, as blocks and as the documents that `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.units import several
from hasten.practices.help import model_view
from hasten.practices.help.facts import (
    CleanedDevice,
    CleanFound,
    Device,
    DevicesFound,
    DoctorFound,
    IssueBundle,
    ModelFound,
    Status,
)
from hasten.practices.help.model_rules import model_finding
from hasten.practices.help.rules import FAST_INT8, NAME, finding_of
from hasten.practices.help.words import BOOK
from hasten.show.blocks import Facts, Headline, sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.show.blocks import Block

IN_USE: Final = "in use"


def view(found: DoctorFound | ModelFound | DevicesFound | CleanFound | IssueBundle) -> list[Block]:
    """Whether the machine is fit or the model sound, and each check; or a line for each device or file."""
    if isinstance(found, IssueBundle):
        return model_view.bundle_blocks(found)
    if isinstance(found, ModelFound):
        return model_view.view(found)
    if isinstance(found, DevicesFound):
        rows = tuple((device.name, _status(device), _summary(device)) for device in found.devices)
        return [Facts(rows), *_advice(found.devices)]
    if isinstance(found, CleanFound):
        return [Facts(tuple((device.name, _freed(device)) for device in found.devices)), *_advice(found.devices)]
    rows = tuple((check.status.value, check.name, BOOK.text(check.finding)) for check in found.checks)
    hints = [(check.name, BOOK.hint(check.finding)) for check in found.checks]
    advice = sentences(f"{name[:1].upper()}{name[1:]}: {hint}" for name, hint in hints if hint)
    return [Headline(_headline(found)), Facts(rows), *advice]


def document(found: DoctorFound | ModelFound | DevicesFound | CleanFound) -> dict[str, Any]:
    """The document of `hasten doctor --json` or `hasten devices --json`."""
    if isinstance(found, ModelFound):
        return model_view.document(found)
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


def session_lines(found: DoctorFound | ModelFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of the checks."""
    finding = model_finding(found) if isinstance(found, ModelFound) else finding_of(found)
    return [("finding", NAME, to_data(finding))]


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
