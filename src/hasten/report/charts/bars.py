"""Bars and lines: what each practice brought, threads, accelerators, copies, latency over minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import milliseconds
from hasten.report.summary.words import PRACTICES
from hasten.show.charts import BAR_PIXELS, from_zero, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.summary.records import StepRow


_FEW_TICKS: Final = {"tickCount": 5, "format": "~f"}
# What stands after a bar needs this much more than the bar itself.
_LABEL_ROOM = 1.25


def waterfall_spec(steps: Sequence[StepRow]) -> dict[str, Any]:
    """From the original's latency to the result's, a bar for each practice."""
    first, last = steps[0].from_ms, steps[-1].to_ms
    values = [_bar("original", 0.0, first, "total", milliseconds(first))]
    for step in steps:
        kind = "gain" if step.to_ms <= step.from_ms else "loss"
        change = step.to_ms - step.from_ms
        told = f"{'−' if change <= 0 else '+'}{milliseconds(abs(change))}"
        values.append(
            {
                **_bar(PRACTICES.get(step.practice, step.practice), step.from_ms, step.to_ms, kind, told),
                "what": step.what,
            }
        )
    values.append(_bar("result", 0.0, last, "total", milliseconds(last)))
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False, "domain": False}}
    x = {
        "field": "low",
        "type": "quantitative",
        "title": "latency of a run, ms",
        "scale": from_zero([value["high"] for value in values], _LABEL_ROOM),
        "axis": _FEW_TICKS,
    }
    colour = {
        "field": "kind",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": ["total", "gain", "loss"], "range": ["@accent", "@gain", "@loss"]},
    }
    return vega_lite(
        BAR_PIXELS * len(values),
        values,
        layer=[
            {
                "mark": {"type": "bar", "height": {"band": 0.62}, "cornerRadius": 2},
                "encoding": {
                    "y": y,
                    "x": x,
                    "x2": {"field": "high"},
                    "color": colour,
                    "tooltip": tooltip(name="practice", told="change", what="what"),
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6},
                "encoding": {"y": y, "x": {**x, "field": "high"}, "text": {"field": "told"}},
            },
        ],
    )


def _bar(name: str, start: float, end: float, kind: str, told: str) -> dict[str, Any]:
    return {"name": name, "low": min(start, end), "high": max(start, end), "kind": kind, "told": told}
