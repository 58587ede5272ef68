"""A study of copies as text for a terminal of 80 columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.finding import Standing
from hasten.core.units import interval_ms, milliseconds, percent, size
from hasten.practices.copies.facts import NAMES
from hasten.report.text import doubts_text, wrapped

if TYPE_CHECKING:
    from hasten.practices.copies.facts import CopyRow, CopyStudy

_MANY = 10.0
_HEAD = f"  {'way':<26}{'':<5}{'cost':>9}  {'95 % interval':<22}{'of inference':>14}"


def copies_text(found: CopyStudy, *, code: bool = True) -> str:
    """The recommendation in a sentence, then the costs, then what cannot be done, then the code."""
    measured = [row for row in found.rows if (row.us is not None and row.direction != "both") or _only_both(found, row)]
    refused = [row for row in found.rows if row.us is None]
    lines = [
        *wrapped(
            f"{Path(found.model.path).name} on {found.plan.describe()}: {size(found.input_bytes)} in,"
            f" {size(found.output_bytes)} out, inference {milliseconds(found.inference_us / 1e3)}"
            f" ({interval_ms(*(end / 1e3 for end in found.inference_ci95_us))})"
        ),
        "",
        *_recommendation(found),
        "",
        _HEAD,
        *(_line(row) for row in measured if not row.fault),
        *_faults([row for row in measured if row.fault]),
        *_refusals(refused),
        *doubts_text(found.doubts),
    ]
    if code and found.snippet:
        lines += ["", f"# {found.language}, the recommended way:", found.snippet.rstrip()]
    return "\n".join(lines)


def _only_both(found: CopyStudy, row: CopyRow) -> bool:
    """Whether a way has no rows for the single directions: one call does it all."""
    return row.us is not None and found.row(row.key, "in") is None


def _recommendation(found: CopyStudy) -> list[str]:
    finding = found.finding
    if finding.standing is Standing.NOT_EXAMINED:
        return wrapped(f"No recommendation: {finding.evidence}.")
    head = wrapped(f"Recommended: {NAMES.get(found.recommended, found.recommended)}")
    return [*head, *wrapped(f"{finding.evidence}. {finding.what_to_do}".strip(), "  ")]


def _faults(rows: list[CopyRow]) -> list[str]:
    if not rows:
        return []
    return ["", "  mistakes, each with its set_tensor:", *(_line(row) for row in rows)]


def _refusals(rows: list[CopyRow]) -> list[str]:
    """Each reason once, with the ways that it stands in."""
    lines = [""] if rows else []
    for reason in dict.fromkeys(row.reason for row in rows):
        names = ", ".join(row.way for row in rows if row.reason == reason)
        lines += wrapped(f"not here: {names}: {reason}", "  ", "    ")
    return lines


def _line(row: CopyRow) -> str:
    assert row.us is not None and row.ci95_us is not None  # noqa: PT018 - only such rows get here
    cost, low, high = row.us / 1e3, row.ci95_us[0] / 1e3, row.ci95_us[1] / 1e3
    share = "" if row.share is None else percent(row.share) if row.share < _MANY else f"{row.share:.0f} times"
    return f"  {row.way:<26}{row.direction:<5}{_time(cost):>9}  {_interval(low, high):<22}{share:>14}"


def _time(value_ms: float) -> str:
    return f"-{milliseconds(-value_ms)}" if value_ms < 0 else milliseconds(value_ms)


def _interval(low: float, high: float) -> str:
    if low >= 0 or not math.isfinite(low):
        return interval_ms(low, high)
    return f"{_time(low)} to {_time(high)}"
