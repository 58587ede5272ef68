"""A gate as text for a terminal of 80 columns: the verdict in a sentence, then a line for each limit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import interval_ms, milliseconds, size
from hasten.gate.rules import CheckResult, GateVerdict, Row
from hasten.report.text import doubts_text, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKS: Final = {GateVerdict.PASSED: "+", GateVerdict.FAILED: "x", GateVerdict.UNDECIDED: "?"}
_FORMATS: Final[dict[str, Callable[[float], str]]] = {
    "ms": milliseconds,
    "MB": lambda value: f"{value:.1f} MB",
    "bytes": lambda value: size(round(value)),
    "share": lambda value: f"{value:.2%}",
    "ratio": lambda value: f"{value:.3f} times",
    "value": lambda value: f"{value:.4g}",
}


def check_text(found: CheckResult) -> str:
    """The verdict, the limits, the doubts."""
    lines = [
        *wrapped(f"{verdict_sentence(found)} {Path(found.model.path).name} on {found.plan.describe()}."),
        "",
        *(line for row in found.rows for line in _row_lines(row)),
        *wrapped(intervals_sentence(found), "  "),
        *doubts_text(found.doubts if any(row.unit in ("ms", "ratio") for row in found.rows) else ()),
    ]
    lines += [line for note in found.notes for line in ("", *wrapped(note, "! "))]
    return "\n".join(lines)


def verdict_sentence(found: CheckResult) -> str:
    """What the gate came to, in a sentence."""
    total, failed, undecided = len(found.rows), found.count(GateVerdict.FAILED), found.count(GateVerdict.UNDECIDED)
    if found.interrupted:
        return "Interrupted: this is how it stood."
    if failed:
        return f"Failed: {failed} of {_limits(total)} {'is' if failed == 1 else 'are'} broken."
    if undecided and found.strict:
        return f"Failed: {undecided} of {_limits(total)} undecided, which --strict does not let pass."
    if undecided:
        return f"Passed, but {undecided} of {_limits(total)} {'is' if undecided == 1 else 'are'} undecided."
    return f"Passed: {_limits(total)} kept."


def intervals_sentence(found: CheckResult) -> str:
    """How sure the intervals are; empty where there are none."""
    kinds = {"ms": "times", "ratio": "ratios", "share": "accuracies", "value": "accuracies"}
    sure = {kinds[row.unit]: row.confidence for row in found.rows if row.confidence is not None}
    words = [f"{confidence:.0%} for {kind}" for kind, confidence in sure.items()]
    words += ["the range of all processes for memory"] if any(row.unit == "MB" for row in found.rows) else []
    return f"Intervals: {', '.join(words)}." if words else ""


def figures(row: Row) -> tuple[str, str, str]:
    """What was measured, its interval and the limit, as people read them."""
    as_text = _FORMATS[row.unit]
    measured = "unknown" if row.measured is None else as_text(row.measured)
    limit = f"at {'least' if row.at_least else 'most'} {as_text(row.limit)}"
    if row.interval is None or not all(math.isfinite(end) for end in row.interval):
        return measured, "", limit
    low, high = row.interval
    if row.unit == "ms":
        return measured, interval_ms(low, high), limit
    if row.unit == "ratio":
        return measured, f"{low:.3f} - {high:.3f}", limit
    return measured, f"{as_text(low)} - {as_text(high)}", limit


def row_sentence(row: Row) -> str:
    """One limit in a line, for a log: what it is, what was measured, what is allowed, and how that stands."""
    measured, interval, limit = figures(row)
    return printable(f"{row.what} {measured}{f' ({interval})' if interval else ''}, {limit}: {row.verdict.value}")


def _row_lines(row: Row) -> list[str]:
    measured, interval, limit = figures(row)
    name, others = printable(row.what), []
    if len(name) > 10:  # an accuracy or latency against a file whose name may be long
        others, name = wrapped(name, f"  {_MARKS[row.verdict]} ", "    "), ""
    mark = " " if others else _MARKS[row.verdict]
    line = f"  {mark} {name:<10} {measured:>12}  {interval:<20} {limit:<18} {row.verdict.value}"
    # That a whole interval lies below its limit is what everyone expects of one that is kept.
    plain = row.verdict is GateVerdict.PASSED and row.unit in ("ms", "MB", "bytes")
    why = [] if plain else wrapped(row.why, "    ", "    ")
    return [*others, line.rstrip(), *why]


def _limits(count: int) -> str:
    return f"{count} limit" if count == 1 else f"{count} limits"
