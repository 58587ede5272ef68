"""The phrases of profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping


def _kinds(facts: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{kind['op']} {percent(kind['share'])}" for kind in facts["kinds"])
    return f"A run takes {milliseconds(facts['latency_ms'])}: {kinds}.{_earlier(facts)}"


def _unseen(facts: Mapping[str, Any]) -> str:
    return (
        f"A run takes {milliseconds(facts['latency_ms'])}, of which the profiler sees {milliseconds(facts['seen_ms'])}"
        f" in operators: too little to say where the time goes.{_earlier(facts)}"
    )


def _earlier(facts: Mapping[str, Any]) -> str:
    return f" The original takes {milliseconds(facts['earlier_ms'])}." if facts["earlier_ms"] is not None else ""


PHRASES: Final[dict[str, Phrase]] = {
    "profile.not-examined": Phrase("The time did not suffice for a profile.", "Run hasten profile."),
    "profile.kinds": Phrase(_kinds),
    "profile.unseen": Phrase(_unseen),
}
