"""The phrases of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import first_few, percent, several, speedup
from hasten.evaluate import trial_words
from hasten.evaluate import words as evaluation
from hasten.practices.quantize.words import PHRASES as VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.fleet.facts import FleetFound, SingleChoice


def _close(facts: Mapping[str, Any]) -> str:
    rivals = facts["rivals"]
    others = rivals[0] if len(rivals) == 1 else f"{rivals[0]} and {several(len(rivals) - 1, 'other')}"
    return f"{facts['choice']} is not proven better over all devices than {others}: their intervals overlap."


def _excluded(facts: Mapping[str, Any]) -> str:
    names = facts["devices"]
    has, them = ("has", "it") if len(names) == 1 else ("have", "them")
    return f"{first_few(names, 3)} {has} no result. The choice for all devices leaves {them} out."


PHRASES: Final[dict[str, Phrase]] = {
    "fleet.failed": Phrase("{message}", "{hint}"),
    "fleet.excluded": Phrase(_excluded, "Continue with --resume to try again."),
    "fleet.close": Phrase(_close, "Raise --budget to tell them apart."),
    "fleet.same-machine": Phrase(
        "{devices:list} are one machine and may have disturbed each other.",
        "Start one worker for each machine whose own cores are measured.",
    ),
    "fleet.not-made": Phrase("The workers could not make {recipe} for all devices, so each made its own: {message}"),
    "fleet.not-raced": Phrase(
        "The choices of other devices could not be timed on {device}: {message}", "Continue with --resume to try again."
    ),
    "fleet.other-release": Phrase(
        "The worker of {device} runs hasten {theirs}, and this is hasten {ours}.",
        "Install the same release on both sides.",
    ),
    "fleet.stopped": Phrase("The run was stopped before {device} had a result.", "Continue with --resume."),
}
BOOK: Final = Phrasebook(PHRASES, VARIANTS, trial_words.PHRASES, evaluation.PHRASES, doubts.phrases_with("--budget"))


def verdict_words(found: FleetFound) -> str:
    """`Use static_int8@cpu, 2 threads on all 3 devices: 1.8× faster than the original (95 % CI …), …`"""
    usable = len(found.usable)
    if not usable:
        return f"None of {several(len(found.devices), 'device')} has a result."
    if found.weighted is None:
        return f"No choice serves {_all(usable)}: none runs everywhere at the required accuracy."
    told = f"{_use(found, found.weighted)} {_against_best(found.weighted, usable)}"
    if found.worst_case is None or found.worst_case.choice == found.weighted.choice:
        return told
    return f"{told} By the worst case, {found.worst_case.choice} is better: {_worst(found.worst_case)}."


def _use(found: FleetFound, single: SingleChoice) -> str:
    base = found.choices[0].id
    usable = len(found.usable)
    if single.choice == base:
        return f"Keep the original on {_all(usable)}: no other choice is proven faster on average."
    average = " on average" if usable > 1 else ""
    return f"Use {single.choice} on {_all(usable)}: {speedup(single.ratio, single.ci95)}{average}."


def _against_best(single: SingleChoice, devices: int) -> str:
    if devices < 2:
        return "It is the device's own best."
    if single.worst_ratio <= 1:
        return "No device has a better choice of its own."
    return f"A choice for each device would gain most on {single.worst_device}: {percent(1 - 1 / single.worst_ratio)}."


def _worst(single: SingleChoice) -> str:
    if single.worst_ratio <= 1:
        return "no device has a better choice of its own"
    return f"no device is more than {percent(single.worst_ratio - 1)} slower than with its own best"


def _all(count: int) -> str:
    return "this device" if count == 1 else "both devices" if count == 2 else f"all {count} devices"
