"""The phrases about machines and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.doubts import held_back_hint, held_back_text
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import remark_from_data
from hasten.core.units import several
from hasten.practices.help.issue import words as issue
from hasten.practices.help.minimize import words as minimize
from hasten.practices.help.model_checks import words as model
from hasten.practices.help.releases import words as releases
from hasten.targets.base import holder_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOAD: Final = "The load average is {load:.1f}."
_CLOSE: Final = "Close other programs before you measure."
_NOISE: Final = "p95 is {spread:percent} above the median."


def _little_memory(facts: Mapping[str, Any]) -> str:
    free = facts.get("free_mb", facts["memory_mb"])
    if free < facts["memory_mb"]:
        return f"Only {free / 1024:.1f} GB of {facts['memory_mb'] / 1024:.1f} GB are free."
    return f"Only {facts['memory_mb'] / 1024:.1f} GB."


def _locked(facts: Mapping[str, Any]) -> str:
    why = f": {facts['why']}" if facts.get("why") else ""
    return f"{facts['folder']} cannot be written{why}."


def _processor(facts: Mapping[str, Any]) -> str:
    int8 = f"fast int8 ({', '.join(facts['int8'])})" if facts["int8"] else "no fast int8 instructions"
    slow = "" if facts["int8"] else " Quantization may not speed models up."
    return f"{facts['cpu']}, {several(facts['cores'], 'core')}, {facts['architecture']}, {int8}.{slow}"


def _clock(facts: Mapping[str, Any]) -> str:
    cause = "the host of this virtual machine controls it" if facts["virtual"] else "the system does not report it"
    return f"The CPU clock is unknown: {cause}."


def _trouble(facts: Mapping[str, Any]) -> str:
    return " ".join(BOOK.text(remark_from_data(check)) for check in facts["checks"])


def _remedy(facts: Mapping[str, Any]) -> str:
    hints = (BOOK.hint(remark_from_data(check)) for check in facts["checks"])
    return next(filter(None, hints), "Run hasten doctor.")


def _fine(facts: Mapping[str, Any]) -> str:
    missing = f" Missing: {', '.join(facts['missing'])}." if facts["missing"] else ""
    return f"This machine passes {several(facts['count'], 'check')}.{missing}"


PHRASES: Final[dict[str, Phrase]] = {
    **model.PHRASES,
    **minimize.PHRASES,
    **releases.PHRASES,
    **issue.PHRASES,
    "help.model-good": Phrase("The model passes all {count:count check}."),
    "help.model-better": Phrase("{count:count check} could be better: {names:list}."),
    "help.model-broken": Phrase("{count:count check} failed: {names:list}."),
    "help.not-examined": Phrase("This machine was not checked.", "Run hasten doctor."),
    "help.trouble": Phrase(_trouble, _remedy),
    "help.fine": Phrase(_fine),
    "help.engine": Phrase("LiteRT {engine}, Python {python}."),
    "help.processor": Phrase(_processor),
    "help.memory": Phrase(lambda facts: f"{facts['memory_mb'] / 1024:.1f} GB."),
    "help.memory-bad": Phrase(_little_memory, "Close other programs. Compare only a few models at a time."),
    "help.load": Phrase(_LOAD),
    "help.load-bad": Phrase(_LOAD, _CLOSE),
    "help.busy-bad": Phrase("Other processes keep {cores:.1f} cores busy.", _CLOSE),
    "help.clock-unknown": Phrase(_clock),
    "help.clock-moves": Phrase(
        "The governor '{governor}' changes the CPU clock during a measurement.",
        "Run sudo cpupower frequency-set -g performance.",
    ),
    "help.clock-fixed": Phrase(
        lambda facts: f"The governor is 'performance', turbo is {'on' if facts['turbo'] else 'off or unknown'}."
    ),
    "help.power": Phrase("The board's power supply and temperature are fine since boot."),
    "help.power-bad": Phrase(
        lambda facts: held_back_text(facts["held_back"]), lambda facts: held_back_hint(facts["held_back"])
    ),
    "help.in-use": Phrase(lambda facts: f"Another session uses it{holder_words(facts['holder'])}."),
    "help.timer": Phrase("The timer ticks every {timer_ns} ns."),
    "help.timer-bad": Phrase(
        "The timer only ticks every {timer_ns} ns.", "Compare latencies of a few microseconds on another machine."
    ),
    "help.energy": Phrase("Linux powercap counts energy."),
    "help.energy-virtual": Phrase("This virtual machine has no energy counter."),
    "help.energy-unreadable": Phrase(
        "This user cannot read an energy counter.", "On Intel and AMD under Linux, run as root."
    ),
    "help.cache": Phrase("The cache folder can be written."),
    "help.cache-locked": Phrase(_locked, "Set XDG_CACHE_HOME to a folder of yours."),
    "help.runs": Phrase("A small network takes {median_ms:ms}."),
    "help.noise": Phrase(_NOISE),
    "help.noise-bad": Phrase(_NOISE, "Expect wide intervals, or close other programs."),
}
BOOK: Final = Phrasebook(PHRASES)
