"""What all charts share: color-blind safe colors for light and dark, shapes and sizes.

A specification names its colors as `@name`; the renderer inserts those of a palette. It names no version of its
language: that is the one of the library that draws it. One with `marks` of its own is Vega, all others are Vega-Lite.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# An interval that reaches beyond this multiple of its value is not drawn.
_MOST_TIMES: Final = 10.0
WIDTH: Final = 760
"""Of a picture, in pixels; on a page a chart is as wide as its place."""

_LIGHT: Final = {
    "ink": "#1c2430",
    "muted": "#5b6675",
    "grid": "#e3e8ee",
    "paper": "#ffffff",
    "accent": "#0b5cad",
    "chosen": "#0b5cad",
    "kept": "#00785c",
    "undecided": "#8a3ffc",
    "timed": "#667080",
    "dropped": "#8a929c",
    "broken": "#b45309",
    "failed": "#a8326f",
    "gain": "#00785c",
    "loss": "#b45309",
    "roof": "#5b6675",
    "inside": "#ffffff",
    "1": "#0b5cad",
    "2": "#b45309",
    "3": "#00785c",
    "4": "#8a3ffc",
    "5": "#a8326f",
    "6": "#667080",
}
_DARK: Final = {
    "ink": "#e7ecf2",
    "muted": "#a3aebb",
    "grid": "#2d3540",
    "paper": "#161b22",
    "accent": "#63b3f2",
    "chosen": "#63b3f2",
    "kept": "#35c79b",
    "undecided": "#be95ff",
    "timed": "#a3aebb",
    "dropped": "#7d8794",
    "broken": "#f0a24a",
    "failed": "#ee84b8",
    "gain": "#35c79b",
    "loss": "#f0a24a",
    "roof": "#a3aebb",
    "inside": "#10141a",
    "1": "#63b3f2",
    "2": "#f0a24a",
    "3": "#35c79b",
    "4": "#be95ff",
    "5": "#ee84b8",
    "6": "#a3aebb",
}
PALETTES: Final = {"light": _LIGHT, "dark": _DARK}
SERIES: Final = ("@1", "@2", "@3", "@4", "@5", "@6")
LINE_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

STATUSES: Final = ("chosen", "kept", "undecided", "timed", "dropped", "broken", "failed")
SHAPES: Final = ("diamond", "circle", "triangle-right", "square", "triangle-down", "cross", "triangle-up")
# Words that other commands use for the same.
_STATUS_OF: Final = {"runs": "kept", "partial": "timed", "imprecise": "broken", "wrong": "broken", "missing": "dropped"}
BAR_PIXELS: Final = 38
# What stands after a bar with a status needs this much more than the bar itself.
_STATUS_ROOM: Final = 1.7
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"

CONFIG: Final[dict[str, Any]] = {
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "@muted",
        "titleColor": "@muted",
        "titleFontWeight": "normal",
        "gridColor": "@grid",
        "domainColor": "@grid",
        "tickColor": "@grid",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titlePadding": 8,
        "labelLimit": 170,
        "labelPadding": 6,
        "labelFont": _FONT,
        "titleFont": _FONT,
    },
    "legend": {
        "labelColor": "@ink",
        "titleColor": "@muted",
        "titleFontWeight": "normal",
        "orient": "bottom",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "symbolSize": 90,
        "labelLimit": 150,
        "columns": {"signal": "width < 400 ? 3 : 6"},
        "direction": "horizontal",
        "labelFont": _FONT,
        "titleFont": _FONT,
    },
    "text": {"color": "@ink", "fontSize": 12, "font": _FONT},
    "bar": {"color": "@accent"},
    "line": {"color": "@accent"},
    "rule": {"color": "@ink"},
}


def status_of(word: str) -> str:
    """The one of the few statuses that a word of any command stands for."""
    return word if word in STATUSES else _STATUS_OF.get(word, "timed")


def status_color(present: list[str]) -> dict[str, Any]:
    """Color and shape by status, never color alone; only those that occur."""
    shown = [status for status in STATUSES if status in present]
    shapes = [SHAPES[STATUSES.index(status)] for status in shown]
    legend = {"title": None} if len(shown) > 1 else None
    return {
        "color": {
            "field": "status",
            "type": "nominal",
            "legend": legend,
            "scale": {"domain": shown, "range": [f"@{status}" for status in shown]},
        },
        "shape": {"field": "status", "type": "nominal", "legend": legend, "scale": {"domain": shown, "range": shapes}},
    }


def vega_lite(height: int, values: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """A Vega-Lite chart as wide as its place."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "config": CONFIG,
        **parts,
    }


def log_scale(values: list[float]) -> dict[str, Any]:
    """A logarithmic scale with a little room at both ends."""
    return {"type": "log", "domain": [min(values) / 1.15, max(values) * 1.15], "nice": False}


def from_zero(values: list[float], room: float = 1.0) -> dict[str, Any]:
    """A scale from nothing up, with room for what stands after the longest bar."""
    return {"domain": [0, max(values) * room or 1], "nice": room == 1.0}


def colored(value: Any, palette: dict[str, str]) -> Any:
    """The specification with a palette's colors in place of their names."""
    if isinstance(value, str):
        return palette.get(value[1:], value) if value.startswith("@") else value
    if isinstance(value, dict):
        return {key: entry if key == "values" else colored(entry, palette) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [colored(entry, palette) for entry in value]
    return value


def tooltip(**titles: str) -> list[dict[str, str]]:
    """What is shown over a mark: field → its heading."""
    return [{"field": field, "title": title.replace("_", " "), "type": "nominal"} for field, title in titles.items()]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: a value with its interval, its status, and what stands after it."""

    name: str
    value: float
    low: float
    high: float
    told: str
    status: str = "kept"


def interval_bars(bars: Sequence[Bar], title: str) -> dict[str, Any]:
    """A bar for each value, with its interval where that is known."""
    values = [{**asdict(bar), **drawn_ends(bar.value, bar.low, bar.high)} for bar in bars]
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"ticks": False, "domain": False, "labelLimit": 190},
    }
    x = {
        "field": "value",
        "type": "quantitative",
        "title": title,
        "scale": from_zero([value["high"] for value in values], _STATUS_ROOM),
        "axis": {"tickCount": 5, "format": "~f"},
    }
    color = {**status_color([bar.status for bar in bars])["color"], "legend": None}
    return vega_lite(
        BAR_PIXELS * len(values),
        values,
        layer=[
            {
                "mark": {"type": "bar", "height": {"band": 0.55}, "cornerRadius": 2, "opacity": 0.85},
                "encoding": {"y": y, "x": x, "color": color, "tooltip": tooltip(name="name", told="value")},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8},
                "encoding": {"y": y, "x": {**x, "field": "high"}, "text": {"field": "told"}},
            },
        ],
    )


def drawn_ends(value: float, low: float, high: float) -> dict[str, float]:
    """The ends of an interval as a chart draws them: none where they tell nothing, which would squeeze all the rest."""
    known = math.isfinite(low) and math.isfinite(high) and high <= _MOST_TIMES * value
    return {"low": max(low, 0.0), "high": high} if known else {"low": value, "high": value}
