"""A prediction as text for a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.report.text import printable, wrapped

if TYPE_CHECKING:
    from hasten.evaluate.prediction import Prediction


def prediction_text(found: Prediction) -> str:
    """The likeliest classes, or what each output holds."""
    lines = [*wrapped(f"{found.model} on {found.plan.describe()}"), ""]
    if found.top:
        width = max(len(str(entry.index)) for entry in found.top)
        lines += [
            f"  {entry.value:>10.4g}  {entry.index:>{width}}  {printable(entry.label)}"[:80].rstrip()
            for entry in found.top
        ]
    else:
        for entry in found.as_data()["outputs"]:
            shape = "x".join(map(str, entry["shape"])) or "scalar"
            lines += wrapped(f"{entry['name']}: {entry['type']} {shape}", "  ", "    ")
            if "min" in entry:
                figures = f"from {entry['min']:.4g} to {entry['max']:.4g}, mean {entry['mean']:.4g}"
                values = " ".join(f"{value:.4g}" for value in entry["values"])
                lines += wrapped(f"{figures}; first values {values}", "    ", "    ")
    for note in found.notes:
        lines += wrapped(note, "! ", "  ")
    return "\n".join(lines)
