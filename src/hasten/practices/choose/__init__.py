"""The guide's "Choose the best model for the task"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.phrases import Phrase
from hasten.practices.practice import no_sections as sections
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from hasten.core.finding import Finding
    from hasten.practices.practice import Evidence

__all__ = ["PHRASES", "sections", "verdict"]

PHRASES: Final[dict[str, Phrase]] = {
    "choose.not-examined": Phrase(
        "Other models were not examined.", "Tune each model that does the task, and compare the results."
    )
}


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning alone says nothing about it."""
    return not_examined("choose")
