"""The phrases of a study of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

WAY_NAMES: Final = {
    "copying": "set_tensor and get_tensor",
    "buffers": "TensorBuffer.write and read",
    "views": "tensor() views",
    "host": "hasten.Runner (host memory)",
    "locked": "hasten.Runner (locked device memory)",
}


def _usual(facts: Mapping[str, Any]) -> str:
    name = WAY_NAMES[facts["usual"]]
    verb = "costs" if facts["usual"] in ("host", "locked") else "cost"
    if facts["usual_us"] <= 0:
        return f"{name} {verb} nothing measurable."
    share = "" if facts["usual_share"] is None else f" ({percent(facts['usual_share'])})"
    return f"{name} {verb} {milliseconds(facts['usual_us'] / 1e3)} per inference{share}."


def _cheap(facts: Mapping[str, Any]) -> str:
    rest = f" No alternative saves more than {facts['matters']:.0%}." if "matters" in facts else ""
    return f"{_usual(facts)}{rest.replace('%', ' %')}"


def _saves(facts: Mapping[str, Any]) -> str:
    saved = f"{milliseconds(facts['saved_us'] / 1e3)} per inference ({percent(facts['saved_share'])})"
    return f"Use {WAY_NAMES[facts['best']]}: saves up to {saved}. {_usual(facts)}"


PHRASES: Final[dict[str, Phrase]] = {
    "copies.not-examined": Phrase("The cost of feeding the model was not measured.", "Run hasten copies."),
    "copies.none-in-place": Phrase("No way to feed and read this model in place could be timed."),
    "copies.cheap": Phrase(_cheap),
    "copies.saves": Phrase(
        _saves,
        "Let the application write its input into the model's own memory; hasten copies --language prints the code.",
    ),
    "copies.not-timed": Phrase("The measurement ended before it was timed."),
    "copies.unclear": Phrase("The noise is larger than its cost."),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)
