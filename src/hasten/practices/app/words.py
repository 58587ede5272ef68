"""The phrases of this practice."""

from __future__ import annotations

from typing import Final

from hasten.core.phrases import Phrase

PHRASES: Final[dict[str, Phrase]] = {
    "app.not-examined": Phrase(
        "The application around the model was not examined.", "Run it: hasten app -- python app.py."
    )
}
