"""The phrases about accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping


def _rows(facts: Mapping[str, Any]) -> str:
    return " ".join(f"{row['name'].upper()}: {_row(row)}" for row in facts["rows"])


def _row(row: Mapping[str, Any]) -> str:
    if row["median_ms"] is None:
        return f"{row['why'].rstrip('.') or 'it did not run'}."
    ratio = row["ratio"]
    than = "" if ratio is None else f" ({percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'})"
    return f"{milliseconds(row['median_ms'])}{than}."


PHRASES: Final[dict[str, Phrase]] = {
    "accelerators.not-examined": Phrase("No accelerator was tried.", "Run hasten accelerators."),
    "accelerators.none-runs": Phrase(lambda facts: f"No accelerator runs the model on this machine. {_rows(facts)}"),
    "accelerators.no-data": Phrase(
        lambda facts: f"{_rows(facts)} Without data, nothing shows that its answers are right.",
        "Give labeled data with --data.",
    ),
    "accelerators.none-faster": Phrase(lambda facts: f"No accelerator beats the chosen plan. {_rows(facts)}"),
}
