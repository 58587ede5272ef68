"""The phrases of this practice."""

from __future__ import annotations

from typing import Final

from hasten.core.phrases import Phrase

PHRASES: Final[dict[str, Phrase]] = {"help.not-examined": Phrase("This machine was not checked.", "Run hasten doctor.")}
