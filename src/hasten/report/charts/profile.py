"""Profiles drawn: time by kind of operator, a treemap of operators, and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import milliseconds
from hasten.report.summary.reading import items, number, text
from hasten.show.charts import CONFIG, LINE_SHAPES, SERIES, log_scale, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.summary.records import ProfileView

_MOST_KINDS: Final = 5
_MOST_TILES: Final = 400
# Kinds of operators that take less than this of a run are in the table only.
_LEAST_SHARE: Final = 0.005
# A label needs this much room to be read.
_TILE_WIDTH, _TILE_HEIGHT = 58, 20


def kinds_of(view: ProfileView) -> list[tuple[str, int, float]]:
    """(operator, how many, milliseconds), most time first."""
    groups: dict[str, list[float]] = {}
    for operator in view.operators:
        groups.setdefault(text(operator, "op"), []).append(number(operator, "ms") or 0.0)
    return sorted(((kind, len(times), sum(times)) for kind, times in groups.items()), key=lambda row: -row[2])


def kinds_spec(views: Sequence[ProfileView]) -> dict[str, Any]:
    """Time by kind of operator, the profiles side by side."""
    values, order = [], []
    for view in views:
        for kind, count, spent in kinds_of(view):
            order.append((spent, kind))
            values.append(
                {"kind": kind, "profile": view.label, "ms": spent, "count": count, "told": milliseconds(spent)}
            )
    least = _LEAST_SHARE * max((sum(row[2] for row in kinds_of(view)) for view in views), default=0.0)
    kinds = list(dict.fromkeys(kind for spent, kind in sorted(order, reverse=True) if spent >= least))[:12]
    values = [value for value in values if value["kind"] in kinds]
    labels = [view.label for view in views]
    rows = max(1, len(kinds)) * max(1, len(labels))
    return vega_lite(
        max(90, 20 * rows + 8 * len(kinds)),
        values,
        mark={"type": "bar", "cornerRadius": 2},
        encoding={
            "y": {
                "field": "kind",
                "type": "nominal",
                "sort": kinds,
                "title": None,
                "scale": {"paddingInner": 0.25},
                "axis": {"ticks": False, "domain": False, "labelLimit": 150},
            },
            "yOffset": {"field": "profile", "type": "nominal", "sort": labels},
            "x": {
                "field": "ms",
                "type": "quantitative",
                "title": "time in a run, ms",
                "axis": {"tickCount": 5, "format": "~f"},
            },
            "color": {
                "field": "profile",
                "type": "nominal",
                "legend": {"title": None} if len(labels) > 1 else None,
                "scale": {"domain": labels, "range": list(SERIES[: len(labels)])},
            },
            "tooltip": tooltip(kind="operator", profile="profile", count="how many", told="time"),
        },
    )


def treemap_spec(view: ProfileView) -> dict[str, Any]:
    """Each operator as a tile whose area is its time, coloured by kind. (Vega: Vega-Lite has no treemap.)"""
    kinds = [kind for kind, _, _ in kinds_of(view)]
    named = [*kinds[:_MOST_KINDS], *(["other"] if len(kinds) > _MOST_KINDS else [])]
    tiles: list[dict[str, Any]] = [{"id": 0, "parent": None}]
    operators = sorted(view.operators, key=lambda entry: -(number(entry, "ms") or 0.0))[:_MOST_TILES]
    for number_, operator in enumerate(operators, start=1):
        spent = number(operator, "ms") or 0.0
        kind = text(operator, "op")
        group = kind if kind in kinds[:_MOST_KINDS] else "other"
        tiles.append(
            {
                "id": number_,
                "parent": 0,
                "ms": spent,
                "op": kind,
                "kind": group,
                "where": text(operator, "location"),
                "told": milliseconds(spent),
                "share": f"{number(operator, 'share') or 0.0:.1%}",
            }
        )
    width = "isFinite(containerSize()[0]) && containerSize()[0] > 0 ? containerSize()[0] : 760"
    told = "{operator: datum.op, where: datum.where, time: datum.told, share: datum.share}"
    label = f"(datum.x1 - datum.x0) > {_TILE_WIDTH} && (datum.y1 - datum.y0) > {_TILE_HEIGHT}"
    return {
        "height": 300,
        "padding": 0,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "signals": [{"name": "width", "init": width, "on": [{"events": "window:resize", "update": width}]}],
        "data": [
            {
                "name": "tree",
                "values": tiles,
                "transform": [
                    {"type": "stratify", "key": "id", "parentKey": "parent"},
                    {
                        "type": "treemap",
                        "field": "ms",
                        "sort": {"field": "value", "order": "descending"},
                        "round": True,
                        "method": "squarify",
                        "ratio": 1.6,
                        "paddingInner": 1,
                        "size": [{"signal": "width"}, {"signal": "height"}],
                    },
                ],
            },
            {"name": "leaves", "source": "tree", "transform": [{"type": "filter", "expr": "datum.parent !== null"}]},
        ],
        "scales": [{"name": "kind", "type": "ordinal", "domain": named, "range": list(SERIES[: len(named)])}],
        "legends": [
            {
                "fill": "kind",
                "orient": "bottom",
                "direction": "horizontal",
                "symbolType": "square",
                "columns": {"signal": "width < 400 ? 2 : 3"},
            }
        ],
        "marks": [
            {
                "type": "rect",
                "from": {"data": "leaves"},
                "encode": {
                    "update": {
                        "x": {"field": "x0"},
                        "x2": {"field": "x1"},
                        "y": {"field": "y0"},
                        "y2": {"field": "y1"},
                        "fill": {"scale": "kind", "field": "kind"},
                        "stroke": {"value": "@paper"},
                        "tooltip": {"signal": told},
                    }
                },
            },
            {
                "type": "text",
                "from": {"data": "leaves"},
                "interactive": False,
                "encode": {
                    "update": {
                        "x": {"field": "x0", "offset": 6},
                        "y": {"field": "y0", "offset": 14},
                        "text": {"signal": f"{label} ? datum.op : ''"},
                        "fill": {"value": "@inside"},
                        "limit": {"signal": "max(0, datum.x1 - datum.x0 - 10)"},
                        "fontSize": {"value": 11},
                    }
                },
            },
        ],
    }


def roofline_spec(views: Sequence[ProfileView]) -> dict[str, Any] | None:
    """Each operator's speed against its work for each byte, under what the machine can do at most."""
    values = [point for view in views for operator in view.operators if (point := _roof_point(view.label, operator))]
    peaks = next((view.peaks for view in views if view.peaks), None)
    if not values or peaks is None:
        return None
    intensities = [value["intensity"] for value in values]
    roofs = _roofs(peaks, min(intensities) / 2, max(intensities) * 2)
    x = {
        "field": "intensity",
        "type": "quantitative",
        "scale": log_scale([value["intensity"] for value in [*values, *roofs]]),
        "title": "operations for each byte touched (logarithmic)",
        "axis": {"format": "~g", "tickCount": 6},
    }
    y = {
        "field": "gflops",
        "type": "quantitative",
        "scale": log_scale([value["gflops"] for value in [*values, *roofs]]),
        "title": "10⁹ operations a second (logarithmic)",
        "axis": {"format": "~g", "tickCount": 6},
    }
    labels = list(dict.fromkeys(value["profile"] for value in values))
    by_label = {"field": "profile", "type": "nominal", "legend": {"title": None} if len(labels) > 1 else None}
    return vega_lite(
        340,
        values,
        layer=[
            {
                "data": {"values": roofs},
                "mark": {"type": "line", "strokeWidth": 2, "color": "@roof"},
                "encoding": {"x": x, "y": y, "detail": {"field": "roof"}, "tooltip": tooltip(roof="roof")},
            },
            {
                "data": {"values": [point for point in roofs if point["end"]]},
                "mark": {"type": "text", "align": "right", "dy": -8, "color": "@muted"},
                "encoding": {"x": x, "y": y, "text": {"field": "roof"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.75},
                "encoding": {
                    "x": x,
                    "y": y,
                    "size": {"field": "ms", "type": "quantitative", "legend": None, "scale": {"range": [30, 600]}},
                    "color": {**by_label, "scale": {"domain": labels, "range": list(SERIES[: len(labels)])}},
                    "shape": {**by_label, "scale": {"domain": labels, "range": list(LINE_SHAPES)}},
                    "tooltip": tooltip(op="operator", where="where", profile="profile", told="time", bound="bound by"),
                },
            },
        ],
    )


def _roof_point(label: str, operator: dict[str, Any]) -> dict[str, Any] | None:
    flops, touched, speed = (number(operator, key) for key in ("flops", "bytes", "gflops"))
    spent = number(operator, "ms")
    if not flops or not touched or not speed or not spent:
        return None
    return {
        "profile": label,
        "op": text(operator, "op"),
        "where": text(operator, "location"),
        "ms": spent,
        "intensity": flops / touched,
        "gflops": speed,
        "bound": text(operator, "bound"),
        "told": milliseconds(spent),
    }


def _roofs(peaks: dict[str, Any], low: float, high: float) -> list[dict[str, Any]]:
    """For each kind of arithmetic a line: as fast as memory delivers, then as fast as the cores compute."""
    bandwidths = [gbs for entry in items(peaks, "bandwidth") if (gbs := number(entry, 1))]
    roofs = []
    for name, key in (("float", "float_gflops"), ("int8", "int8_gops")):
        peak = number(peaks, key)
        if not peak or not bandwidths:
            continue
        slope = max(bandwidths)
        ridge = peak / slope
        places = sorted({low, *([ridge] if low < ridge < high else []), high})
        roofs += [
            {"roof": f"{name} peak", "intensity": place, "gflops": min(peak, place * slope), "end": place == high}
            for place in places
        ]
    return roofs
