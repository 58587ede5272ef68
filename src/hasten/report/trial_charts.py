"""Accuracy, size and the goal of every trial, and the trials over time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hasten.core.accuracy import is_share
from hasten.core.goal import Goal
from hasten.core.units import size as size_text
from hasten.report.commands import ORIGINAL
from hasten.report.figures import (
    accuracy_name,
    accuracy_range,
    accuracy_text,
    amount_range,
    amount_text,
    change_range,
    change_text,
    may_be_share,
)
from hasten.show.charts import drawn_ends, log_scale, status_color, status_of, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.figures import BestRow, TrialRow

_LOG_FROM: Final = 5.0
_MOST_POINTS: Final = 2000
_ENOUGH: Final = 2
# An axis of accuracies shows at least so much: a tenth of a percent must not look like a cliff.
_LEAST_SPAN: Final = 0.02


def front_spec(
    rows: Sequence[TrialRow], allowed: float | None = None, goal: Goal = Goal.LATENCY
) -> dict[str, Any] | None:
    """Accuracy against the goal, a bubble's area for the file's size; without accuracies, size against the goal.
    Changes of accuracy stand beside the floor, the largest drop that is allowed."""
    rows = charted(rows, goal)
    accuracies = comparable(rows)
    with_accuracy, metric = accuracies.are_shown, accuracies.title
    shown = accuracies.rows if with_accuracy else rows
    rising = not with_accuracy or shown[0].higher_is_better
    if goal is Goal.SIZE and not with_accuracy:
        goal = Goal.LATENCY  # the size is on the other axis
    points = [_point(row, goal, with_accuracy=with_accuracy, changes=accuracies.changes) for row in shown]
    values = _with_envelope(points, upward=with_accuracy and rising, rightward=goal.more_is_better)
    if len(values) < 2:
        return None
    first = next((value for value in values if value["variant"] == ORIGINAL), None)
    if first is not None:
        first["label"] = first["label"] or ORIGINAL
    y = {
        "field": "y",
        "type": "quantitative",
        "title": metric if with_accuracy else "size, MB",
        "scale": {"zero": False, "nice": True, "padding": 12, "reverse": not rising},
        "axis": {"tickCount": 6, "format": "~g"},
    }
    floor = None if allowed is None or not accuracies.changes else allowed if not rising else 0.0 - allowed
    if with_accuracy:
        _show_shares(y, values, shown[0].metric, changes=accuracies.changes)
    x = {**_goal_axis([value["x"] for value in values], goal), "field": "x"}
    lines = [_front_line(x, y, goal), *([] if floor is None else [_floor_line(floor, y)])]
    bubbles = _bubbles(x, y, [value["status"] for value in values], _told(goal, metric))
    return vega_lite(380, values, layer=[*lines, *_whiskers(x, y), bubbles, _labels(x, y)])


def _front_line(x: dict[str, Any], y: dict[str, Any], goal: Goal) -> dict[str, Any]:
    line = {
        "type": "line",
        "color": "@muted",
        "strokeDash": [4, 4],
        "strokeWidth": 1.5,
        "interpolate": "step-before" if goal.more_is_better else "step-after",
    }
    encoding = {"x": x, "y": y, "order": {"field": "x"}}
    return {"transform": [{"filter": "datum.front"}], "mark": line, "encoding": encoding}


def _whiskers(x: dict[str, Any], y: dict[str, Any]) -> list[dict[str, Any]]:
    """The intervals of both axes."""
    mark = {"type": "rule", "opacity": 0.45, "strokeWidth": 1.2, "color": "@muted"}
    return [
        {"mark": mark, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}},
        {"mark": mark, "encoding": {"x": x, "y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}}},
    ]


def _bubbles(x: dict[str, Any], y: dict[str, Any], statuses: list[str], told: list[dict[str, Any]]) -> dict[str, Any]:
    """The trials; a click on the legend picks those of one status."""
    return {
        "params": [{"name": "picked", "select": {"type": "point", "fields": ["status"]}, "bind": "legend"}],
        "mark": {"type": "point", "filled": True, "stroke": "@paper", "strokeWidth": 0.8},
        "encoding": {
            "x": x,
            "y": y,
            "size": {
                "field": "size",
                "type": "quantitative",
                "legend": None,
                "scale": {"range": [70, 700], "zero": True},
            },
            **status_color(statuses),
            "tooltip": told,
            "opacity": {"condition": {"param": "picked", "value": 0.85}, "value": 0.08},
        },
    }


def _told(goal: Goal, metric: str) -> list[dict[str, Any]]:
    told = tooltip(
        name="trial",
        status="status",
        told_x=goal.heading,
        interval="95 %_interval",
        told_y=metric,
        told_range="its_95 %_interval",
    )
    return [*told, {"field": "told_size", "title": "size", "type": "nominal"}]


def _labels(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "transform": [{"filter": "datum.label"}],
        "mark": {"type": "text", "dy": -17, "fontWeight": 600, "limit": 150},
        "encoding": {"x": x, "y": y, "text": {"field": "label"}},
    }


def _floor_line(floor: float, y: dict[str, Any]) -> dict[str, Any]:
    """Where accuracy is no longer enough."""
    line = {"type": "rule", "color": "@broken", "strokeDash": [2, 3], "strokeWidth": 1.5}
    return {"data": {"values": [{"floor": floor}]}, "mark": line, "encoding": {"y": {**y, "field": "floor"}}}


def _show_shares(y: dict[str, Any], values: Sequence[dict[str, Any]], metric: str, *, changes: bool) -> None:
    """Write an axis of shares in percent, and let it show no less than the least span."""
    low, high = min(value["y_low"] for value in values), max(value["y_high"] for value in values)
    known = is_share(metric) if changes else may_be_share(metric, low, high)
    sign = "+" if changes else ""
    y["axis"]["format"] = f"{sign}.1%" if known else f"{sign}~g"
    if known and high - low < _LEAST_SPAN:
        top = min(1.0, (low + high + _LEAST_SPAN) / 2)
        y["scale"]["domain"] = [top - _LEAST_SPAN if changes else max(0.0, top - _LEAST_SPAN), top]


class Accuracies(NamedTuple):
    """Rows with accuracies that may stand in one chart, what these are called, and whether they are changes."""

    rows: Sequence[TrialRow]
    title: str = ""
    changes: bool = False

    @property
    def are_shown(self) -> bool:
        """Whether they make an axis of a chart; else it is the size."""
        return len(self.rows) >= _ENOUGH


def charted(rows: Sequence[TrialRow], goal: Goal) -> list[TrialRow]:
    """The rows that have a place in the chart of trials."""
    return [row for row in rows if row.latency is not None and row.figure_of(goal) is not None][:_MOST_POINTS]


def comparable(rows: Sequence[TrialRow]) -> Accuracies:
    """What each lost or won against the original, on the samples that it was judged by; in sessions from before there
    were intervals of that, values where all are of the same samples."""
    valued = [row for row in rows if row.accuracy is not None]
    if not valued:
        return Accuracies([])
    name, on = accuracy_name(valued[0].metric, valued[0].accuracy_kind), valued[0].accuracy_on
    alike = len({(row.accuracy_on, row.accuracy_samples) for row in valued}) == 1
    if alike and not any(row.floor for row in valued):
        return Accuracies(valued, f"{name}, on the {on} part of the data" if on else name)
    paired = [replace(row, accuracy=row.change) for row in valued if row.change is not None]
    return Accuracies(paired, f"change of {name} against the original", changes=True)


def _with_envelope(values: list[dict[str, Any]], *, upward: bool, rightward: bool = False) -> list[dict[str, Any]]:
    """The points with those of the front marked that none of it with a better x is better than in what the chart's
    other axis shows: a line through all of a front in three respects would go up and down."""
    best = None
    signs = -1 if rightward else 1, -1 if upward else 1
    for value in sorted(values, key=lambda value: (signs[0] * value["x"], signs[1] * value["y"])):
        better = best is None or (value["y"] > best if upward else value["y"] < best)
        value["front"] = value["front"] and better
        best = value["y"] if value["front"] else best
    return values


def timeline_spec(
    rows: Sequence[TrialRow], best: Sequence[BestRow] = (), until_s: float = 0.0, goal: Goal = Goal.LATENCY
) -> dict[str, Any] | None:
    """Each trial when it was first timed, and the best so far: as it was known then, where the session tells."""
    timed = [row for row in rows if row.figure_of(goal) is not None and row.elapsed_s is not None][:_MOST_POINTS]
    if len(timed) < 2:
        return None
    timed = sorted(timed, key=lambda row: row.elapsed_s or 0.0)
    values = [{**_point(row, goal, with_accuracy=False), "seconds": row.elapsed_s} for row in timed]
    curve = _curve(best, until_s, goal) or _lowest_so_far(timed, goal)
    x = {"field": "seconds", "type": "quantitative", "title": "seconds since the start"}
    y = _goal_axis([*(value["x"] for value in values), *(point["best"] for point in curve)], goal)
    told = tooltip(name="trial", status="status", told_x=goal.heading)
    return vega_lite(
        260,
        values,
        layer=[
            {
                "data": {"values": curve},
                "mark": {"type": "line", "interpolate": "step-after", "color": "@muted", "strokeWidth": 2},
                "encoding": {"x": x, "y": {**y, "field": "best"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.85},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "x"},
                    **status_color([value["status"] for value in values]),
                    "tooltip": told,
                },
            },
        ],
    )


def _curve(best: Sequence[BestRow], until_s: float, goal: Goal) -> list[dict[str, Any]]:
    """The best so far at each time it changed, and at the end."""
    points = [{"seconds": row.seconds, "best": row.amount.value * _scale(goal)} for row in best[:_MOST_POINTS]]
    return [*points, {**points[-1], "seconds": max(until_s, points[-1]["seconds"])}] if points else []


def _lowest_so_far(timed: Sequence[TrialRow], goal: Goal) -> list[dict[str, Any]]:
    """The same for a session of an earlier release, which does not tell what was known when: by what came out."""
    points: list[dict[str, Any]] = []
    for row in timed:
        found = row.figure_of(goal)
        if found is None or row.refused or row.status in ("broken", "failed"):
            continue
        value = found.value * _scale(goal)
        before = points[-1]["best"] if points else value
        best = max(before, value) if goal.more_is_better else min(before, value)
        points.append({"seconds": row.elapsed_s, "best": best})
    return points


def _scale(goal: Goal) -> float:
    """From the goal's unit to that of an axis."""
    return 1e-6 if goal is Goal.SIZE else 1.0


def _point(row: TrialRow, goal: Goal, *, with_accuracy: bool, changes: bool = False) -> dict[str, Any]:
    found = row.figure_of(goal)
    assert found is not None
    ends = (math.nan if end is None else end * _scale(goal) for end in (found.low, found.high))
    size_mb = (row.size or 0) / 1e6
    accuracy = row.accuracy if with_accuracy else None
    y = accuracy.value if accuracy else size_mb
    return {
        "name": row.name,
        "status": status_of(row.status),
        "x": found.value * _scale(goal),
        "y": y,
        "y_low": y if accuracy is None or accuracy.low is None else accuracy.low,
        "y_high": y if accuracy is None or accuracy.high is None else accuracy.high,
        **drawn_ends(found.value * _scale(goal), *ends),
        "size": size_mb,
        "told_x": amount_text(goal, found),
        "interval": amount_range(goal, found),
        "told_range": change_range(accuracy, row.metric) if changes else accuracy_range(row.accuracy, row.metric),
        "told_y": change_text(y, row.metric) if accuracy and changes else accuracy_text(row.accuracy, row.metric),
        "told_size": size_text(row.size) if row.size else "",
        "variant": row.variant,
        "front": row.on_front,
        "label": "chosen" if row.status == "chosen" else "",
    }


def _goal_axis(values: list[float], goal: Goal) -> dict[str, Any]:
    log = min(values) > 0 and max(values) / min(values) > _LOG_FROM
    scale = log_scale(values) if log else {"zero": False, "nice": True, "padding": 12}
    return {
        "type": "quantitative",
        "scale": scale,
        "title": f"{goal.heading}, {'MB' if goal is Goal.SIZE else goal.unit}" + (" (logarithmic)" if log else ""),
        "axis": {"format": "~g", "tickCount": 6},
    }
