"""Accuracy, latency and size of every trial, and the trials over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import size as size_text
from hasten.report.charts.style import log_scale, status_colour, status_of, tooltip, vega_lite
from hasten.report.summary.commands import ORIGINAL
from hasten.report.summary.words import accuracy_range, accuracy_text, interval_text, latency_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.summary.records import TrialRow

_LOG_FROM: Final = 5.0
_MOST_POINTS: Final = 2000
_ENOUGH: Final = 2
# An axis of accuracies shows at least so much: a tenth of a percent must not look like a cliff.
_LEAST_SPAN: Final = 0.02


def front_spec(rows: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Accuracy against latency, a bubble's area for the file's size; without accuracies, size against latency."""
    shown, half = comparable([row for row in rows if row.latency is not None][:_MOST_POINTS])
    with_accuracy = sum(row.accuracy is not None for row in shown) >= _ENOUGH
    if with_accuracy:
        shown = [row for row in shown if row.accuracy is not None]
    values = _with_envelope([_point(row, with_accuracy=with_accuracy) for row in shown], upward=with_accuracy)
    if len(values) < 2:
        return None
    first = next((value for value in values if value["variant"] == ORIGINAL and not value["label"]), None)
    if first is not None:
        first["label"] = ORIGINAL
    metric = next((row.metric for row in shown if row.metric), "accuracy") + half
    share = with_accuracy and all(0 <= value["y"] <= 1 for value in values)
    x = {**_latency_axis([value["x"] for value in values]), "field": "x"}
    y = {
        "field": "y", "type": "quantitative", "title": metric if with_accuracy else "size, MB",
        "scale": {"zero": False, "nice": True, "padding": 12, **(_least_span(values) if share else {})},
        "axis": {"tickCount": 6, "format": ".1%" if share else "~g"},
    }  # fmt: skip
    marks = status_colour([value["status"] for value in values])
    area = {"field": "size", "type": "quantitative", "legend": None, "scale": {"range": [70, 700], "zero": True}}
    told = tooltip(
        name="trial",
        status="status",
        latency="latency",
        interval="95 %_interval",
        told_y=metric,
        told_range="its_95 %_interval",
    )
    return vega_lite(
        380, values,
        layer=[
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {
                    "type": "line", "color": "@muted", "strokeDash": [4, 4], "strokeWidth": 1.5,
                    "interpolate": "step-after",
                },
                "encoding": {"x": x, "y": y, "order": {"field": "x"}},
            },
            {
                "mark": {"type": "rule", "opacity": 0.45, "strokeWidth": 1.2, "color": "@muted"},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
            },
            {
                "params": [{"name": "picked", "select": {"type": "point", "fields": ["status"]}, "bind": "legend"}],
                "mark": {"type": "point", "filled": True, "stroke": "@paper", "strokeWidth": 0.8},
                "encoding": {
                    "x": x, "y": y, "size": area, **marks,
                    "tooltip": [*told, {"field": "told_size", "title": "size", "type": "nominal"}],
                    "opacity": {"condition": {"param": "picked", "value": 0.85}, "value": 0.08},
                },
            },
            {
                "transform": [{"filter": "datum.label"}],
                "mark": {"type": "text", "dy": -17, "fontWeight": 600, "limit": 150},
                "encoding": {"x": x, "y": y, "text": {"field": "label"}},
            },
        ],
    )  # fmt: skip


def _least_span(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The limits of the axis, where the accuracies themselves lie closer together."""
    low, high = (pick(value["y"] for value in values) for pick in (min, max))
    if high - low >= _LEAST_SPAN:
        return {}
    top = min(1.0, (low + high + _LEAST_SPAN) / 2)
    return {"domain": [max(0.0, top - _LEAST_SPAN), top]}


def comparable(rows: list[TrialRow]) -> tuple[list[TrialRow], str]:
    """The rows with accuracies that may stand in one chart: all on the half of the data that decides, where there are
    such; and what to say of them."""
    if sum(row.choosing is not None for row in rows) < _ENOUGH:
        return rows, ""
    return [replace(row, accuracy=row.choosing) for row in rows], ", on the half of the data that decides"


def _with_envelope(values: list[dict[str, Any]], *, upward: bool) -> list[dict[str, Any]]:
    """The points with those marked that no quicker one is better than in what the chart's other axis shows."""
    best = None
    for value in sorted(values, key=lambda value: (value["x"], -value["y"] if upward else value["y"])):
        better = best is None or (value["y"] > best if upward else value["y"] < best)
        value["front"] = better and value["status"] not in ("broken", "failed")
        best = value["y"] if value["front"] else best
    return values


def timeline_spec(rows: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Each trial when it was tried, and the best so far."""
    timed = [row for row in rows if row.latency is not None and row.elapsed_s is not None][:_MOST_POINTS]
    if len(timed) < 2:
        return None
    values, best = [], float("inf")
    for row in sorted(timed, key=lambda row: row.elapsed_s or 0.0):
        latency = row.latency.value if row.latency else 0.0
        if row.status not in ("broken", "failed"):
            best = min(best, latency)
        point = _point(row, with_accuracy=False)
        values.append({**point, "seconds": row.elapsed_s, "best": None if best == float("inf") else best})
    x = {"field": "seconds", "type": "quantitative", "title": "seconds since the start"}
    y = _latency_axis([value["x"] for value in values])
    told = tooltip(name="trial", status="status", latency="latency")
    return vega_lite(
        260, values,
        layer=[
            {
                "mark": {"type": "line", "interpolate": "step-after", "color": "@muted", "strokeWidth": 2},
                "encoding": {"x": x, "y": {**y, "field": "best"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.85},
                "encoding": {
                    "x": x, "y": {**y, "field": "x"}, **status_colour([value["status"] for value in values]),
                    "tooltip": told,
                },
            },
        ],
    )  # fmt: skip


def _point(row: TrialRow, *, with_accuracy: bool) -> dict[str, Any]:
    latency = row.latency
    assert latency is not None
    size_mb = (row.size or 0) / 1e6
    accuracy = row.accuracy.value if row.accuracy else None
    return {
        "name": row.name, "status": status_of(row.status), "x": latency.value,
        "y": accuracy if with_accuracy else size_mb,
        "low": latency.value if latency.low is None else latency.low,
        "high": latency.value if latency.high is None else latency.high,
        "size": size_mb, "latency": latency_text(latency), "interval": interval_text(latency),
        "told_range": accuracy_range(row.accuracy, row.metric), "told_y": accuracy_text(row.accuracy, row.metric),
        "told_size": size_text(row.size) if row.size else "",
        "variant": row.variant, "label": "chosen" if row.status == "chosen" else "",
    }  # fmt: skip


def _latency_axis(values: list[float]) -> dict[str, Any]:
    log = min(values) > 0 and max(values) / min(values) > _LOG_FROM
    scale = log_scale(values) if log else {"zero": False, "nice": True, "padding": 12}
    return {
        "type": "quantitative", "scale": scale, "title": "latency, ms" + (" (logarithmic)" if log else ""),
        "axis": {"format": "~g", "tickCount": 6},
    }  # fmt: skip
