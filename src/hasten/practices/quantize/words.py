"""The phrases about variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import percent

if TYPE_CHECKING:
    from collections.abc import Mapping


def _chosen(facts: Mapping[str, Any]) -> str:
    change = f"{percent(abs(facts['size']))} {'smaller' if facts['size'] <= 0 else 'larger'}"
    return f"{facts['variant']} keeps the accuracy floor and is {change} than the original."


def _breaks(facts: Mapping[str, Any]) -> str:
    why = f" {facts['why']}" if facts["why"] else ""
    return f"{facts['variant']} would be faster, but it breaks the accuracy floor.{why}"


PHRASES: Final[dict[str, Phrase]] = {
    "quantize.not-examined": Phrase("No variant was made.", "Raise --budget and continue with --resume."),
    "quantize.none-runs": Phrase("No variant runs: {why}"),
    "quantize.chosen": Phrase(_chosen),
    "quantize.no-data": Phrase(
        "{variant} would be {ratio:speedup}, but without data its accuracy is unknown.",
        "Give labeled data with --data.",
    ),
    "quantize.breaks-floor": Phrase(_breaks, "Use quantization-aware training, or raise --max-drop."),
    "quantize.none-faster": Phrase(
        "None of {count:count variant} is both faster on this device and above the accuracy floor."
    ),
}
