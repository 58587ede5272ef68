"""Figures and rows from the lines of a session, and how figures are written. What is absent or odd is None or empty.

A report must open whatever a session holds: older files, cut-off work, kinds that came later.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hasten.core.accuracy import is_share
from hasten.core.codec import from_data, record
from hasten.core.comparison import Verdict
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.session import UNREADABLE
from hasten.core.units import interval_ms, milliseconds, percentage_points

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.core.session import Line


def at(data: object, *path: str | int) -> Any:
    """What stands there, or None."""
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list | tuple) and isinstance(step, int) and -len(data) <= step < len(data):
            data = data[step]
        else:
            return None
    return data


def number(data: object, *path: str | int) -> float | None:
    """A finite number, or None."""
    found = at(data, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def whole(data: object, *path: str | int) -> int | None:
    """A whole number, or None."""
    found = number(data, *path)
    return None if found is None else round(found)


def text(data: object, *path: str | int) -> str:
    """A text, or an empty one."""
    found = at(data, *path)
    return found if isinstance(found, str) else ""


def items(data: object, *path: str | int) -> list[Any]:
    """A list, or an empty one."""
    found = at(data, *path)
    return list(found) if isinstance(found, list | tuple) else []


def records(data: object, *path: str | int) -> list[dict[str, Any]]:
    """The mappings of a list."""
    return [entry for entry in items(data, *path) if isinstance(entry, dict)]


def short(path: str) -> str:
    """A path's last part; other words as they are."""
    return PurePath(path).name or path


@record
class Figure:
    """A number with its 95 % interval, as far as there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def inverse(self) -> Figure:
        """A ratio of times as one of speeds."""
        low, high = (None if not bound else 1 / bound for bound in (self.high, self.low))
        return Figure(1 / self.value if self.value else 0.0, low, high)


@record
class DoubtRow:
    """A reason to doubt a number, and the numbers that it touches."""

    reason: str
    evidence: str
    hint: str
    where: tuple[str, ...] = ()


@record
class TrialRow:
    """One thing that was tried. None and empty: not known, or not applicable."""

    name: str
    kind: str
    variant: str = ""
    plan: str = ""
    status: str = ""
    stage: str = ""
    latency: Figure | None = None
    """Milliseconds."""
    ratio: Figure | None = None
    """Its time against the original's: below 1 is faster."""
    verdict: str = ""
    accuracy: Figure | None = None
    metric: str = ""
    accuracy_kind: str = ""
    """`agreement` where it was compared with the original's answers, for want of labels."""
    accuracy_on: str = ""
    accuracy_samples: int | None = None
    higher_is_better: bool = True
    change: Figure | None = None
    """Of the metric against the original, on the samples of `accuracy`. Accuracies themselves are of as many samples as
    were needed, and only like may be compared with like."""
    floor: str = ""
    """The verdict against the floor, on the same samples; empty in sessions from before it had an interval."""
    refused: bool = False
    """Whether its accuracy forbids to choose it."""
    size: int | None = None
    zipped_size: int | None = None
    memory_mb: float | None = None
    init_ms: float | None = None
    why: str = ""
    doubts: tuple[DoubtRow, ...] = ()
    elapsed_s: float | None = None
    """When it was first timed, since the start."""
    at: str = ""
    command: str = ""
    on_front: bool = False
    amounts: dict[str, Figure] = field(default_factory=dict)
    """What was measured besides latency, by the name of the goal, in its unit."""

    def figure_of(self, goal: Goal) -> Figure | None:
        """The goal's figure, where it is known."""
        if goal is Goal.LATENCY:
            return self.latency
        if goal is Goal.SIZE:
            return Figure(float(self.size)) if self.size else None
        return self.amounts.get(goal.value)


@record
class BestRow:
    """What the best was at a time of a search."""

    trial: str
    seconds: float
    amount: Figure
    confirmed: bool = False


def best_rows(lines: Iterable[Line]) -> tuple[BestRow, ...]:
    """What the best was over time, as it was known then; none in sessions of earlier releases."""
    found = []
    for line in lines:
        known = figure(at(line.data, "amount")) if line.kind == "best" else None
        seconds = number(line.data, "elapsed_s")
        if known is not None and seconds is not None:
            found.append(BestRow(line.label, seconds, known, line.data.get("confirmed") is True))
    return tuple(found)


def goal_of(*documents: object) -> Goal:
    """The goal that a result or the settings name; the latency in sessions from before there were others."""
    for document in documents:
        name = text(document, "goal", "name") or text(document, "goal")
        with contextlib.suppress(ValueError):
            return Goal(name)
    return Goal.LATENCY


def verdict_of(data: object) -> Verdict | None:
    """The verdict of a comparison; None where none was saved."""
    with contextlib.suppress(ValueError):
        return Verdict(text(data, "verdict"))
    return None


def plan_words(data: object) -> str:
    """A plan in words; empty where there is none that can be read."""
    with contextlib.suppress(*UNREADABLE):
        return from_data(Plan, data).describe() if isinstance(data, dict) else ""
    return ""


def amount_text(goal: Goal, found: Figure | None) -> str:
    """A goal's figure without its interval."""
    return "" if found is None else goal.written(found.value)


def amount_range(goal: Goal, found: Figure | None) -> str:
    """The interval of a goal's figure."""
    return (
        "" if found is None or found.low is None or found.high is None else goal.range_written((found.low, found.high))
    )


def timed_of(rows: Iterable[TrialRow]) -> list[TrialRow]:
    """The candidates that a search timed: what is counted wherever a page says how many there were."""
    return [row for row in rows if row.kind in ("trial", "variant") and row.latency is not None]


@record
class Event:
    """A line of the session, for the timeline."""

    seconds: float
    at: str
    kind: str
    label: str
    what: str = ""


def figure(data: object, value: str = "value", bounds: str = "ci95") -> Figure | None:
    """A number with the interval that stands beside it."""
    found = number(data, value)
    return None if found is None else Figure(found, number(data, bounds, 0), number(data, bounds, 1))


def latency_figure(data: object) -> Figure | None:
    """A latency in milliseconds."""
    return figure(data, "median_ms", "ci95_ms")


def accuracy_figure(data: object) -> Figure | None:
    """An accuracy, as a record or as a bare number."""
    bare = number({"it": data}, "it")
    return Figure(bare) if bare is not None else figure(data)


def latency_text(found: Figure | None) -> str:
    """A latency without its interval."""
    return "" if found is None else milliseconds(found.value)


def interval_text(found: Figure | None) -> str:
    """The interval of a latency."""
    return "" if found is None or found.low is None or found.high is None else interval_ms(found.low, found.high)


def accuracy_text(found: Figure | None, metric: str = "") -> str:
    """An accuracy: a share as a percentage, anything else as a number."""
    if found is None:
        return ""
    return f"{found.value * 100:.1f} %" if may_be_share(metric, found.value, found.value) else f"{found.value:.4g}"


def accuracy_range(found: Figure | None, metric: str) -> str:
    """The interval of an accuracy."""
    ends = () if found is None else (found.low, found.high)
    return " to ".join(accuracy_text(Figure(end), metric) for end in ends if end is not None)


def accuracy_name(metric: str, kind: str) -> str:
    """What a figure is called. Without labels it compares a variant with the original: agreement, or deviation."""
    if kind in ("", "accuracy"):
        return metric or "accuracy"
    likeness = "deviation" if metric == "mae" else "agreement"
    return f"{likeness} ({metric})" if metric else likeness


def change_text(change: float, metric: str) -> str:
    """A change of an accuracy, with its sign."""
    return percentage_points(change) if is_share(metric) else f"{change:+.3g}"


def change_range(found: Figure | None, metric: str) -> str:
    """The interval of a change of an accuracy."""
    ends = () if found is None else (found.low, found.high)
    return " to ".join(change_text(end, metric) for end in ends if end is not None)


def may_be_share(metric: str, low: float, high: float) -> bool:
    """Whether values from low to high can be shares, as those of a metric of the user's own may be."""
    return 0 <= low <= high <= 1 and metric not in ("mae", "cosine")
