"""The phrases about single operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME: Final = 48


def _where(facts: Mapping[str, Any]) -> str:
    """Converters join the names of all that was fused into an operator; the first one is enough to find it."""
    first = facts["location"].partition(";")[0]
    short = first if len(first) <= _LONGEST_NAME else f"…{first[-_LONGEST_NAME:]}"
    return f"{facts['op']} at {short}" if short else str(facts["op"])


def _little(facts: Mapping[str, Any]) -> str:
    return (
        "No single operator could save 10 % of a run. The largest headroom is"
        f" {percent(facts['share'])}: {_where(facts)}."
    )


def _much(facts: Mapping[str, Any]) -> str:
    return (
        f"{_where(facts)} could save up to {milliseconds(facts['headroom_ms'])} of the {milliseconds(facts['run_ms'])}"
        " of a run, measured against this machine's peak."
    )


PHRASES: Final[dict[str, Phrase]] = {
    "operators.not-examined": Phrase("No profile was recorded, so no operator can be judged.", "Run hasten profile."),
    "operators.unseen": Phrase("The profiler sees too little of the run to judge single operators."),
    "operators.no-headroom": Phrase(
        "The engine does not report operator times for this plan, or the machine's peak is unknown.",
        "Run hasten profile to see what is known.",
    ),
    "operators.little": Phrase(_little),
    "operators.much": Phrase(_much, "Replace the operator, or write a custom kernel for it."),
}
