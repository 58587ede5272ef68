"""The guide's two graphs for this device: accuracy against latency, and accuracy against size.

A shape tells where an accuracy comes from, a color the precision: neither is told by color alone. What has no accuracy
stands at the foot of the graph of latencies, as a line across.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import is_share, value_text
from hasten.core.units import interval_ms, milliseconds, size, tells
from hasten.practices.choose.facts import Source
from hasten.show.charts import SERIES, log_scale, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.practices.choose.facts import ModelRow

_HEIGHT: Final = 380
_LOG_FROM: Final = 5.0
_SHAPES: Final = {Source.MEASURED: "circle", Source.PUBLISHED: "diamond", Source.UNKNOWN: "stroke"}
# An axis of accuracies shows at least so much: a tenth of a percent must not look like a cliff.
_LEAST_SPAN: Final = 0.02
_FOOT: Final = 0.09
# Left of this share of the axis a name that ends at its point would run over the axis.
_ROOM: Final = 0.3


def points(rows: Sequence[ModelRow], x: str) -> list[dict[str, Any]]:
    """The points of a graph as plain data: `x` is latency or size."""
    return [_point(row, x) for row in (sized(rows) if x == "size" else rows) if x == "size" or row.latency is not None]


def sized(rows: Sequence[ModelRow]) -> list[ModelRow]:
    """The files with an accuracy, each once: on an accelerator a file is as large as elsewhere."""
    files: dict[tuple[str, str], ModelRow] = {}
    for row in rows:
        if row.accuracy is not None:
            files.setdefault((row.model, row.precision), row)
    return list(files.values())


def _point(row: ModelRow, x: str) -> dict[str, Any]:
    accuracy, latency = row.accuracy, row.latency
    at = float(row.size_bytes) / 1e6 if x == "size" else row.median_ms
    ends = {"low": at, "high": at}
    # What tells nothing may begin at 0, which a logarithmic axis does not have.
    if x == "latency" and latency is not None and tells(latency.low, latency.high):
        ends = {"low": latency.low, "high": latency.high}
    y = None if accuracy is None else accuracy.value
    bounds = [y, y] if accuracy is None else [_bound(accuracy.low, y), _bound(accuracy.high, y)]
    return {
        "name": row.name,
        "precision": row.precision,
        "source": row.accuracy_source.value,
        "x": at,
        **ends,
        "y": y,
        "y_low": bounds[0],
        "y_high": bounds[1],
        "on_front": row.on_front,
        "told_latency": milliseconds(row.median_ms) if latency is not None else "",
        "told_interval": interval_ms(latency.low, latency.high) if latency is not None else "",
        "told_accuracy": "unknown" if accuracy is None else value_text(accuracy.metric, accuracy.value),
        "told_size": size(row.size_bytes),
        "weights": row.weights,
        "label": "",
        "first_label": "",
        "line": False,
    }


def _bound(end: float, otherwise: float | None) -> float | None:
    return end if math.isfinite(end) else otherwise


def accuracy_spec(rows: Sequence[ModelRow], x: str, chosen: str) -> dict[str, Any] | None:
    """Accuracy against latency or size; None where fewer than two models have both."""
    accuracies = {row.name: row.accuracy for row in rows if row.accuracy is not None}
    if not accuracies:
        return None
    accuracy = accuracies.get(chosen) or next(iter(accuracies.values()))
    rising, metric = accuracy.higher_is_better, accuracy.metric
    # An axis has one metric.
    values = points([row for row in rows if row.accuracy is None or row.accuracy.metric == metric], x)
    known = [value for value in values if value["y"] is not None]
    if len(known) < 2:
        return None
    crowded = [value for value in known if _place(value["x"], values) < _ROOM]
    _mark(known, chosen, crowded, rising=rising)
    foot, axis = _accuracy_axis(known, metric, rising=rising)
    for value in values:
        if value["y"] is None:
            value["y"] = value["y_low"] = value["y_high"] = foot
    return vega_lite(_HEIGHT, values, layer=_layers(values, _x_axis(values, x), axis))


def _mark(values: list[dict[str, Any]], chosen: str, crowded: Sequence[dict[str, Any]], *, rising: bool) -> None:
    """Join what no smaller x is better than, of one source; name the ends and the choice. Those that are crowded
    stand near the axis."""
    source = next((value["source"] for value in values if value["name"] == chosen), None)
    source = source or values[0]["source"]
    best: float | None = None
    line: list[dict[str, Any]] = []
    for value in sorted(values, key=lambda value: (value["x"], -value["y"] if rising else value["y"])):
        better = best is None or (value["y"] > best if rising else value["y"] < best)
        if better and value["source"] == source:
            best, value["line"] = value["y"], True
            line.append(value)
    # Left of the others is room above the line; near the axis there is none, and room for one name below.
    named = [*line[-1:], *(value for value in values if value["name"] == chosen)]
    for value in named:
        value["label"] = "" if value in crowded else value["name"]
    for value in [*(value for value in reversed(named) if value in crowded), *line[:1]][:1]:
        value["first_label"] = value["name"]


def front_names(spec: Mapping[str, Any]) -> list[str]:
    """The models that the line of a graph joins, from the left."""
    joined = [value for value in spec["data"]["values"] if value["line"]]
    return [value["name"] for value in sorted(joined, key=lambda value: value["x"])]


def _place(at: float, values: Sequence[dict[str, Any]]) -> float:
    """Where a value stands on the axis, from 0 to 1."""
    places = [value[end] for value in values for end in ("low", "high")]
    low, high = min(places), max(places)
    if low >= high:
        return 1.0
    return math.log(at / low) / math.log(high / low) if _is_log(places) else (at - low) / (high - low)


def _is_log(places: Sequence[float]) -> bool:
    return min(places) > 0 and max(places) / min(places) > _LOG_FROM


def _x_axis(values: Sequence[dict[str, Any]], x: str) -> dict[str, Any]:
    places = [value[end] for value in values for end in ("low", "high")]
    log = _is_log(places)
    scale = log_scale(places) if log else {"zero": False, "nice": True, "padding": 12}
    title = "file size, MB" if x == "size" else "latency, ms"
    return {
        "field": "x",
        "type": "quantitative",
        "scale": scale,
        "title": title + (" (logarithmic)" if log else ""),
        "axis": {"format": "~g", "tickCount": 6},
    }


def _accuracy_axis(values: Sequence[dict[str, Any]], metric: str, *, rising: bool) -> tuple[float, dict[str, Any]]:
    """The axis, and the place at its foot for what has no accuracy."""
    low, high = min(value["y_low"] for value in values), max(value["y_high"] for value in values)
    span = max(high - low, _LEAST_SPAN if is_share(metric) else 0.0) or 1.0
    foot, top = (low - _FOOT * span, high + _FOOT * span) if rising else (high + _FOOT * span, low - _FOOT * span)
    domain = sorted((foot, top))
    axis = {
        "field": "y",
        "type": "quantitative",
        "title": metric,
        "scale": {"zero": False, "nice": False, "domain": domain, "reverse": not rising},
        "axis": {"tickCount": 6, "format": ".1%" if is_share(metric) else "~g"},
    }
    return foot, axis


def _layers(values: Sequence[dict[str, Any]], x: dict[str, Any], y: dict[str, Any]) -> list[dict[str, Any]]:
    precisions = sorted({value["precision"] for value in values})
    sources = [source for source in Source if any(value["source"] == source.value for value in values)]
    color = {
        "field": "precision",
        "type": "nominal",
        "title": "precision",
        "scale": {"domain": precisions, "range": [SERIES[place % len(SERIES)] for place in range(len(precisions))]},
    }
    shape = {
        "field": "source",
        "type": "nominal",
        "title": "accuracy",
        "scale": {"domain": [source.value for source in sources], "range": [_SHAPES[source] for source in sources]},
        # Black otherwise, and a line without a color is not seen at all.
        "legend": {"symbolFillColor": "@muted", "symbolStrokeColor": "@muted"},
    }
    told = tooltip(
        name="model",
        told_accuracy="accuracy",
        told_latency="latency",
        told_interval="95 %_interval",
        told_size="size",
        weights="weights",
    )
    whisker = {"type": "rule", "opacity": 0.45, "strokeWidth": 1.2, "color": "@muted"}
    return [
        {
            "transform": [{"filter": "datum.line"}],
            "mark": {
                "type": "line",
                "color": "@muted",
                "strokeDash": [4, 4],
                "strokeWidth": 1.5,
                "interpolate": "step-after",
            },
            "encoding": {"x": x, "y": y, "order": {"field": "x"}},
        },
        {"mark": whisker, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}},
        {"mark": whisker, "encoding": {"x": x, "y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 95, "opacity": 0.85, "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y, "color": color, "stroke": color, "shape": shape, "tooltip": told},
        },
        _labels("label", x, y, align="right", dx=-8, dy=-10),
        _labels("first_label", x, y, align="left", dx=-4, dy=16),
    ]


def _labels(field: str, x: dict[str, Any], y: dict[str, Any], **mark: Any) -> dict[str, Any]:
    return {
        "transform": [{"filter": f"datum.{field}"}],
        "mark": {"type": "text", "fontWeight": 600, "limit": 220, **mark},
        "encoding": {"x": x, "y": y, "text": {"field": field}},
    }
