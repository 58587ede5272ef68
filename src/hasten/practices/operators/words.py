"""The phrases about single operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase, filled

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME: Final = 48


def _where(facts: Mapping[str, Any]) -> str:
    """Converters join the names of all that was fused into an operator; the first one is enough to find it."""
    first = facts["location"].partition(";")[0]
    short = first if len(first) <= _LONGEST_NAME else f"…{first[-_LONGEST_NAME:]}"
    return f"{facts['op']} at {short}" if short else str(facts["op"])


def _phrase(text: str, hint: str = "") -> Phrase:
    return Phrase(lambda facts: filled(text, {**facts, "where": _where(facts)}), hint)


PHRASES: Final[dict[str, Phrase]] = {
    "operators.not-examined": Phrase("No profile was recorded, so no operator can be judged.", "Run hasten profile."),
    "operators.unseen": Phrase("The profiler sees too little of the run to judge single operators."),
    "operators.no-headroom": Phrase(
        "The engine does not report operator times for this plan, or the machine's peak is unknown.",
        "Run hasten profile to see what is known.",
    ),
    "operators.little": _phrase(
        "No single operator could save 10 % of a run. The largest headroom is {share:percent}: {where}."
    ),
    "operators.much": _phrase(
        "{where} could save up to {headroom_ms:ms} of the {run_ms:ms} of a run, measured against this machine's peak.",
        "Replace the operator, or write a custom kernel for it.",
    ),
}
