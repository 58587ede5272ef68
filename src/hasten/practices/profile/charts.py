"""Profiles drawn: time by kind of operator, a treemap of operators, and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import milliseconds, percent
from hasten.show.charts import CONFIG, LINE_SHAPES, SERIES, log_scale, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.profile import OperatorTime, Peaks, Profile

_MOST_KINDS: Final = 5
_MOST_KINDS_AS_BARS: Final = 12
_MOST_TILES: Final = 400
# Kinds of operators that take less than this of a run are in the table only.
_LEAST_SHARE: Final = 0.005
# A label needs this much room to be read.
_TILE_WIDTH, _TILE_HEIGHT = 58, 20


def kinds_spec(profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """Time by kind of operator, the profiles side by side."""
    by_label = {label: profile.by_kind() for label, profile in profiles.items()}
    least = _LEAST_SHARE * max(profile.seen_ms for profile in profiles.values())
    order = sorted(((kind.ms, kind.op) for kinds in by_label.values() for kind in kinds), reverse=True)
    shown = list(dict.fromkeys(op for ms, op in order if ms >= least))[:_MOST_KINDS_AS_BARS]
    values = [
        {"kind": kind.op, "profile": label, "ms": kind.ms, "count": kind.count, "told": milliseconds(kind.ms)}
        for label, kinds in by_label.items()
        for kind in kinds
        if kind.op in shown
    ]
    labels = list(profiles)
    rows = max(1, len(shown)) * len(labels)
    return vega_lite(
        max(90, 20 * rows + 8 * len(shown)),
        values,
        mark={"type": "bar", "cornerRadius": 2},
        encoding={
            "y": {
                "field": "kind",
                "type": "nominal",
                "sort": shown,
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
            "tooltip": tooltip(kind="operator", profile="profile", count="count", told="time"),
        },
    )


def treemap_spec(profile: Profile) -> dict[str, Any]:
    """Each operator as a tile whose area is its time, colored by kind. (Vega: Vega-Lite has no treemap.)"""
    kinds = [kind.op for kind in profile.by_kind()]
    named = [*kinds[:_MOST_KINDS], *(["other"] if len(kinds) > _MOST_KINDS else [])]
    width = "isFinite(containerSize()[0]) && containerSize()[0] > 0 ? containerSize()[0] : 760"
    return {
        "height": 300,
        "padding": 0,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "signals": [{"name": "width", "init": width, "on": [{"events": "window:resize", "update": width}]}],
        "data": _tree(_tiles(profile, kinds[:_MOST_KINDS])),
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
        "marks": _tile_marks(),
    }


def _tiles(profile: Profile, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The root, and a tile below it for each operator; kinds without a color of their own are "other"."""
    operators = sorted(profile.operators, key=lambda operator: -operator.ms)[:_MOST_TILES]
    tiles = [
        {
            "id": number,
            "parent": 0,
            "ms": operator.ms,
            "op": operator.op,
            "kind": operator.op if operator.op in kinds else "other",
            "where": operator.location,
            "told": milliseconds(operator.ms),
            "share": percent(operator.share),
        }
        for number, operator in enumerate(operators, start=1)
    ]
    return [{"id": 0, "parent": None}, *tiles]


def _tree(tiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    treemap = {
        "type": "treemap",
        "field": "ms",
        "sort": {"field": "value", "order": "descending"},
        "round": True,
        "method": "squarify",
        "ratio": 1.6,
        "paddingInner": 1,
        "size": [{"signal": "width"}, {"signal": "height"}],
    }
    nested = {"type": "stratify", "key": "id", "parentKey": "parent"}
    return [
        {"name": "tree", "values": tiles, "transform": [nested, treemap]},
        {"name": "leaves", "source": "tree", "transform": [{"type": "filter", "expr": "datum.parent !== null"}]},
    ]


def _tile_marks() -> list[dict[str, Any]]:
    """Rectangles with tooltips, and labels where there is room."""
    told = "{operator: datum.op, where: datum.where, time: datum.told, share: datum.share}"
    has_room = f"(datum.x1 - datum.x0) > {_TILE_WIDTH} && (datum.y1 - datum.y0) > {_TILE_HEIGHT}"
    tile = {
        "x": {"field": "x0"},
        "x2": {"field": "x1"},
        "y": {"field": "y0"},
        "y2": {"field": "y1"},
        "fill": {"scale": "kind", "field": "kind"},
        "stroke": {"value": "@paper"},
        "tooltip": {"signal": told},
    }
    label = {
        "x": {"field": "x0", "offset": 6},
        "y": {"field": "y0", "offset": 14},
        "text": {"signal": f"{has_room} ? datum.op : ''"},
        "fill": {"value": "@inside"},
        "limit": {"signal": "max(0, datum.x1 - datum.x0 - 10)"},
        "fontSize": {"value": 11},
    }
    leaves = {"data": "leaves"}
    return [
        {"type": "rect", "from": leaves, "encode": {"update": tile}},
        {"type": "text", "from": leaves, "interactive": False, "encode": {"update": label}},
    ]


def roofline_spec(profiles: Mapping[str, Profile]) -> dict[str, Any] | None:
    """Each operator's speed against its work for each byte, under what the machine can do at most."""
    values = [
        point
        for label, profile in profiles.items()
        for operator in profile.operators
        if (point := _roof_point(label, operator))
    ]
    peaks = next((profile.peaks for profile in profiles.values() if profile.peaks), None)
    if not values or peaks is None:
        return None
    intensities = [value["intensity"] for value in values]
    roofs = _roofs(peaks, min(intensities) / 2, max(intensities) * 2)
    x = _log_axis("intensity", "operations per byte touched", [*values, *roofs])
    y = _log_axis("gflops", "10⁹ operations per second", [*values, *roofs])
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


def _log_axis(field: str, title: str, values: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "scale": log_scale([value[field] for value in values]),
        "title": f"{title} (logarithmic)",
        "axis": {"format": "~g", "tickCount": 6},
    }


def _roof_point(label: str, operator: OperatorTime) -> dict[str, Any] | None:
    if not (operator.flops and operator.bytes and operator.gflops and operator.ms):
        return None
    return {
        "profile": label,
        "op": operator.op,
        "where": operator.location,
        "ms": operator.ms,
        "intensity": operator.flops / operator.bytes,
        "gflops": operator.gflops,
        "bound": operator.bound or "",
        "told": milliseconds(operator.ms),
    }


def _roofs(peaks: Peaks, low: float, high: float) -> list[dict[str, Any]]:
    """For each kind of arithmetic a line: as fast as memory delivers, then as fast as the cores compute."""
    slope = max((gbs for _, gbs in peaks.bandwidth), default=0.0)
    roofs = []
    for name, peak in (("float", peaks.float_gflops), ("int8", peaks.int8_gops)):
        if not peak or not slope:
            continue
        ridge = peak / slope
        places = sorted({low, *([ridge] if low < ridge < high else []), high})
        roofs += [
            {"roof": f"{name} peak", "intensity": place, "gflops": min(peak, place * slope), "end": place == high}
            for place in places
        ]
    return roofs
