"""The way from the original to the result of a tuning, a step for each practice that brought something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import record
from hasten.core.remark import remark_from_data
from hasten.core.units import milliseconds, speedup
from hasten.practices.registry import TITLES, phrasebook
from hasten.report.figures import Figure, figure, number, records, text
from hasten.show.blocks import Cell, Chart, Section, Table, cell, columns
from hasten.show.charts import BAR_PIXELS, from_zero, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.session import Line

_FEW_TICKS: Final = {"tickCount": 5, "format": "~f"}
# What stands after a bar needs this much more than the bar itself.
_LABEL_ROOM = 1.25


@record
class StepRow:
    """What one practice brought, on the way from the original to the result."""

    practice: str
    from_ms: float
    to_ms: float
    ratio: Figure | None = None
    what: str = ""


def steps_of(lines: Iterable[Line], result: dict[str, Any] | None) -> tuple[StepRow, ...]:
    """The result's own steps; before there are any, those that were saved so far."""
    so_far = {line.label: {"practice": line.label, **line.data} for line in lines if line.kind == "step"}
    steps = []
    for data in records(result, "steps") or so_far.values():
        before, after = number(data, "from_ms"), number(data, "to_ms")
        if before is not None and after is not None:
            what = data.get("what")
            said = phrasebook().text(remark_from_data(what)) if isinstance(what, str | dict) else ""
            steps.append(StepRow(text(data, "practice"), before, after, figure(data, "ratio"), said))
    return tuple(steps)


def steps_section(steps: Sequence[StepRow]) -> list[Section]:
    """What each practice brought."""
    if not steps:
        return []
    first, last = steps[0].from_ms, steps[-1].to_ms
    told = f"From {milliseconds(first)} to {milliseconds(last)}: {', '.join(map(_step_words, steps))}."
    rows = tuple(
        (
            Cell(TITLES.get(step.practice, step.practice)),
            cell(milliseconds(step.from_ms), step.from_ms),
            cell(milliseconds(step.to_ms), step.to_ms),
            Cell(speedup(step.ratio.value, (step.ratio.low, step.ratio.high)) if step.ratio else ""),
            Cell(step.what),
        )
        for step in steps
    )
    sheet = Table(
        "steps-table", "From the original to the result", columns("practice", "#from", "#to", "change", "what"), rows
    )
    chart = Chart("steps", "From the original to the result", told, waterfall_spec(steps), sheet)
    return [Section("steps", "What each practice gained", (chart,))]


def _step_words(step: StepRow) -> str:
    change = step.to_ms - step.from_ms
    sign = "saves" if change <= 0 else "costs"
    return f"{TITLES.get(step.practice, step.practice)} {sign} {milliseconds(abs(change))}"


def waterfall_spec(steps: Sequence[StepRow]) -> dict[str, Any]:
    """From the original's latency to the result's, a bar for each practice."""
    first, last = steps[0].from_ms, steps[-1].to_ms
    values = [_bar("original", 0.0, first, "total", milliseconds(first))]
    for step in steps:
        kind = "gain" if step.to_ms <= step.from_ms else "loss"
        change = step.to_ms - step.from_ms
        told = f"{'−' if change <= 0 else '+'}{milliseconds(abs(change))}"
        values.append(
            {**_bar(TITLES.get(step.practice, step.practice), step.from_ms, step.to_ms, kind, told), "what": step.what}
        )
    values.append(_bar("result", 0.0, last, "total", milliseconds(last)))
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False, "domain": False}}
    x = {
        "field": "low",
        "type": "quantitative",
        "title": "latency, ms",
        "scale": from_zero([value["high"] for value in values], _LABEL_ROOM),
        "axis": _FEW_TICKS,
    }
    color = {
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
                    "color": color,
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
