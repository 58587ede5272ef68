"""Sections about single practices: steps, profile, threads, accelerators, copies, application, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.units import milliseconds, percent
from hasten.report.charts.bars import waterfall_spec
from hasten.report.summary.reading import number, text
from hasten.report.summary.words import PRACTICES, speed_words
from hasten.show.blocks import Cell, Chart, Section, Table, cell, columns

if TYPE_CHECKING:
    from hasten.report.summary.records import StepRow, Summary
    from hasten.show.blocks import Block


def steps_section(summary: Summary) -> Section | None:
    """What each practice brought."""
    if not summary.steps:
        return None
    first, last = summary.steps[0].from_ms, summary.steps[-1].to_ms
    told = f"From {milliseconds(first)} to {milliseconds(last)}: " + "; ".join(map(_step_words, summary.steps)) + "."
    rows = tuple(
        (
            Cell(PRACTICES.get(step.practice, step.practice)),
            cell(milliseconds(step.from_ms), step.from_ms),
            cell(milliseconds(step.to_ms), step.to_ms),
            Cell(speed_words(step.ratio) if step.ratio else ""),
            Cell(step.what),
        )
        for step in summary.steps
    )
    sheet = Table(
        "steps-table", "From the original to the result", columns("practice", "#from", "#to", "change", "what"), rows
    )
    chart = Chart("steps", "From the original to the result", told, waterfall_spec(summary.steps), sheet)
    return Section("steps", "What each practice brought", (chart,))


def _step_words(step: StepRow) -> str:
    change = step.to_ms - step.from_ms
    sign = "saves" if change <= 0 else "costs"
    return f"{PRACTICES.get(step.practice, step.practice)} {sign} {milliseconds(abs(change))}"


def sensitivities_section(summary: Summary) -> Section | None:
    """What quantising single nodes does to the output."""
    blocks: list[Block] = []
    for place, view in enumerate(summary.sensitivities):
        rows = tuple(
            (
                Cell(text(row, "location"), code=True),
                Cell(text(row, "op")),
                Cell("" if (error := number(row, "error")) is None else percent(error), error),
                Cell("" if (share := number(row, "share")) is None else percent(share), share),
            )
            for row in view.rows
        )
        headings = columns("where", "operator", "#error at the output", "#share")
        blocks.append(Table(f"sensitivity-table-{place}", f"Quantised alone: {view.model}", headings, rows))
    return Section("sensitivities", "What quantising each part does", tuple(blocks)) if blocks else None
