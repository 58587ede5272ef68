"""The phrases of this practice."""

from __future__ import annotations

from typing import Final

from hasten.core.phrases import Phrase

PHRASES: Final[dict[str, Phrase]] = {
    "choose.not-examined": Phrase(
        "Other models were not examined.", "Tune each model that does the task, and compare the results."
    )
}
