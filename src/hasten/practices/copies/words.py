"""The phrases of this practice."""

from __future__ import annotations

from typing import Final

from hasten.core.phrases import Phrase

PHRASES: Final[dict[str, Phrase]] = {
    "copies.not-examined": Phrase("The cost of feeding the model was not measured.", "Run hasten copies.")
}
