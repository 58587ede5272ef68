"""Every reason to doubt a number of a session, each once, with all the numbers that it touches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.doubts import DOUBTS
from hasten.core.remark import Remark
from hasten.report.summary.reading import at, number, records, text
from hasten.report.summary.records import DoubtRow
from hasten.report.summary.trials import KINDS, doubt_rows
from hasten.report.summary.views import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.core.session import Line
    from hasten.report.summary.records import TrialRow
    from hasten.report.timing import ComparedPair

BUSY: Final = "Other processes kept the machine busy. Measure again on an idle machine."
# Log ratios further apart than this tell that something else ran beside one of the two.
_RATIOS_APART: Final = 0.2


def all_doubts(
    lines: Iterable[Line], tried: Iterable[TrialRow], compared: Iterable[ComparedPair]
) -> tuple[DoubtRow, ...]:
    """Each doubt once, with every number that it touches."""
    found = [doubt for row in tried for doubt in row.doubts] + [
        doubt for view in compared for doubt in contradiction(view)
    ]
    for line in lines:
        if line.kind not in KINDS:
            found += doubt_rows(at(line.data, "doubts"), f"{line.kind} {short(line.label)}".strip())
            for entry in records(line.data, "rows"):
                found += doubt_rows(at(entry, "doubts"), f"{line.kind} {_row_name(entry)}".strip())
    together: dict[tuple[str, str], DoubtRow] = {}
    for doubt in found:
        known = together.get((doubt.reason, doubt.evidence))
        where = tuple(dict.fromkeys((*(known.where if known else ()), *doubt.where)))
        together[doubt.reason, doubt.evidence] = replace(doubt, where=where, hint=doubt.hint or _hint(doubt))
    return tuple(sorted(together.values(), key=lambda doubt: doubt.reason))


def contradiction(pair: ComparedPair) -> list[DoubtRow]:
    """Pairs of neighboring blocks give one ratio, the medians of undisturbed runs another."""
    first, second = (side.samples.median_ms if side else 0.0 for side in (pair.first, pair.second))
    ratio = pair.comparison.ratio
    if not (first and second and ratio) or abs(math.log(second / first / ratio)) <= _RATIOS_APART:
        return []
    seen = f"The ratio of neighboring blocks is {ratio:.2f}, but that of the median latencies is {second / first:.2f}."
    return [DoubtRow("noisy", seen, BUSY, (f"comparison {pair.label}",))]


def _row_name(entry: dict[str, Any]) -> str:
    threads = number(entry, "threads")
    return text(entry, "name") or ("" if threads is None else f"{threads:.0f} {text(entry, 'load')}")


def _hint(doubt: DoubtRow) -> str:
    return DOUBTS.hint(Remark(doubt.reason))
