"""The way from the original to the result of a tuning, a step for each practice that brought something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import record
from hasten.core.comparison import Verdict, outcome_words
from hasten.core.goal import Goal
from hasten.core.remark import remark_from_data
from hasten.practices.registry import TITLES, phrasebook
from hasten.report.figures import Figure, at, figure, goal_of, number, records, text, verdict_of
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
    """Of the goal's cost: below 1 is better."""
    what: str = ""
    goal: Goal = Goal.LATENCY
    before: float = 0.0
    after: float = 0.0
    """The goal's figure before and after, in its unit."""
    verdict: Verdict | None = None
    """None in sessions of releases that saved none."""

    @property
    def change(self) -> str:
        """What it changed, in words."""
        if self.ratio is None:
            return ""
        ends = (self.ratio.low, self.ratio.high)
        if self.verdict is None:
            return self.goal.gain(self.ratio.value, ends)
        return outcome_words(self.verdict, self.ratio.value, ends, self.goal)

    @property
    def doubt(self) -> str:
        """What to say after a change that may be none."""
        return " (undecided)" if self.verdict is Verdict.UNDECIDED and self.goal is not Goal.SIZE else ""

    @property
    def is_gain(self) -> bool:
        """Whether the goal's figure became better."""
        return self.after >= self.before if self.goal.more_is_better else self.after <= self.before


def steps_of(lines: Iterable[Line], result: dict[str, Any] | None) -> tuple[StepRow, ...]:
    """The result's own steps; before there are any, those that were saved so far."""
    later = list(lines)
    if at(result, "steps") is not None:  # those before the result are its own, or an earlier result's
        later = later[max(place for place, line in enumerate(later) if line.kind == "result") :]
    so_far = {line.label: {"practice": line.label, **line.data} for line in later if line.kind == "step"}
    steps = []
    for data in records(result, "steps") or so_far.values():
        before, after = number(data, "from_ms"), number(data, "to_ms")
        if before is not None and after is not None:
            what = data.get("what")
            said = phrasebook().text(remark_from_data(what)) if isinstance(what, str | dict) else ""
            one, other = number(data, "amounts", 0), number(data, "amounts", 1)
            if one is None or other is None:
                one, other = before, after
            ratio, goal = figure(data, "ratio"), goal_of(data)
            verdict = verdict_of(data)
            steps.append(StepRow(text(data, "practice"), before, after, ratio, said, goal, one, other, verdict))
    return tuple(steps)


def steps_section(steps: Sequence[StepRow], goal: Goal = Goal.LATENCY) -> list[Section]:
    """What each practice brought. The chart has the steps that changed the goal's figure: a number of threads leaves a
    file as large as it is."""
    if not steps:
        return []
    drawn = [step for step in steps if step.goal is goal]
    rows = tuple(
        (
            Cell(TITLES.get(step.practice, step.practice)),
            cell(step.goal.written(step.before), step.before),
            cell(step.goal.written(step.after), step.after),
            Cell(step.change),
            Cell(step.what),
        )
        for step in steps
    )
    sheet = Table(
        "steps-table", "From the original to the result", columns("practice", "#from", "#to", "change", "what"), rows
    )
    if not drawn:
        return [Section("steps", "What each practice gained", (sheet,))]
    first, last = goal.written(drawn[0].before), goal.written(drawn[-1].after)
    told = f"From {first} to {last}: {', '.join(map(_step_words, drawn))}."
    chart = Chart("steps", "From the original to the result", told, waterfall_spec(drawn), sheet)
    return [Section("steps", "What each practice gained", (chart,))]


def _step_words(step: StepRow) -> str:
    name, change = TITLES.get(step.practice, step.practice), step.goal.written(abs(step.after - step.before))
    if step.goal.more_is_better:
        return f"{name} {'adds' if step.is_gain else 'loses'} {change}{step.doubt}"
    return f"{name} {'saves' if step.is_gain else 'costs'} {change}{step.doubt}"


def waterfall_spec(steps: Sequence[StepRow]) -> dict[str, Any]:
    """From the original's figure to the result's, a bar for each practice."""
    goal, scale = steps[0].goal, 1e-6 if steps[0].goal is Goal.SIZE else 1.0
    first, last = steps[0].before, steps[-1].after
    values = [_bar("original", 0.0, first * scale, "total", goal.written(first))]
    for step in steps:
        kind = "gain" if step.is_gain else "loss"
        told = f"{'−' if step.after <= step.before else '+'}{goal.written(abs(step.after - step.before))}{step.doubt}"
        name = TITLES.get(step.practice, step.practice)
        values.append({**_bar(name, step.before * scale, step.after * scale, kind, told), "what": step.what})
    values.append(_bar("result", 0.0, last * scale, "total", goal.written(last)))
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False, "domain": False}}
    x = {
        "field": "low",
        "type": "quantitative",
        "title": f"{goal.heading}, {'MB' if goal is Goal.SIZE else goal.unit}",
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
