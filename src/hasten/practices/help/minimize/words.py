"""The phrases about the smallest part of a model that shows a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import decibels, times

if TYPE_CHECKING:
    from collections.abc import Mapping


def _error(facts: Mapping[str, Any]) -> str:
    values = "recorded inner values" if facts["inputs"] == "recorded" else "seeded noise"
    if facts["equal"]:
        return f"The outputs are equal on {values}."
    if facts["snr_db"] is None:
        return f"Outputs that should be numbers are NaN or infinity on {values}."
    return f"The signal-to-noise ratio of the outputs is {decibels(facts['snr_db'], 0)} on {values}."


PHRASES: Final[dict[str, Phrase]] = {
    "minimize.no-crash": Phrase("It loads and runs."),
    "minimize.crash": Phrase("{message}"),
    "minimize.error": Phrase(_error),
    "minimize.whole-run": Phrase("The whole run counts as slow."),
    "minimize.slower": Phrase(lambda facts: f"It takes {times(facts['ratio'])} the time of the other plan."),
    "minimize.share": Phrase("It takes {share:percent} of the whole model's time."),
    "minimize.no-model": Phrase("These nodes make no model of their own."),
    "minimize.found": Phrase("Smallest part: {count} of {total} nodes still show the problem ({operators:list})."),
    "minimize.cut-short": Phrase(
        "Smallest part so far: {count} of {total} nodes still show the problem ({operators:list}).",
        "Run the same command again: it goes on from here.",
    ),
    "minimize.private-shows": Phrase("With random weights it still shows the problem."),
    "minimize.private-lost": Phrase(
        "With random weights it no longer shows the problem.", "Leave out --private if you may share these weights."
    ),
    "minimize.not-shown": Phrase(
        "The whole model does not show the problem {problem!r}.",
        "Give the plan that shows it, and with --against the one that does not.",
    ),
}
