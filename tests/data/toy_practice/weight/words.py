"""The phrases of a weighing."""

from __future__ import annotations

from hasten.core.phrases import Phrase, Phrasebook

PHRASES = {
    "weight.heavy": Phrase("The model weighs {bytes:size}, more than {limit:size}.", "Quantize it."),
    "weight.light": Phrase("The model weighs {bytes:size}, which is light."),
    "weight.known": Phrase("The result weighs {bytes:size}."),
}
BOOK = Phrasebook(PHRASES)
