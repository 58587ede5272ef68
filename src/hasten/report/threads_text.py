"""A study of threads as text for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.cores import cores_text
from hasten.core.finding import Standing
from hasten.core.thread_rows import SITUATIONS
from hasten.core.units import milliseconds, percent, size
from hasten.report.text import WIDTH, doubts_text

if TYPE_CHECKING:
    from hasten.core.thread_rows import Row
    from hasten.core.thread_study import ThreadStudy
    from hasten.core.threads import Choice


def threads_text(found: ThreadStudy) -> str:
    """The recommendation in a sentence, then the rows, then what else was seen."""
    lines = [
        *_wrapped(
            f"{Path(found.model.path).name} ({size(found.model.size_bytes)}), {found.cores} cores;"
            f" now on {found.plan.describe()}"
        ),
        "",
        *_recommendation(found),
        *_table(found),
        "",
        *_notes(found),
        *(line for trouble in found.troubles for line in _wrapped(f"! {trouble.where}: {trouble.message}")),
        *doubts_text(found.doubts),
    ]
    return "\n".join(lines)


def _recommendation(found: ThreadStudy) -> list[str]:
    choice, where = found.choice, SITUATIONS[found.situation]
    if choice is None:
        return _wrapped(f"No recommendation: {found.finding.evidence}.")
    now = (
        ", as now" if found.finding.standing is Standing.GOOD else f"  (hasten bench MODEL@{choice.option.plan_text()})"
    )
    return [
        *_wrapped(f"Recommended {where}: {choice.option.describe()}{now}"),
        *_wrapped(f"  {found.finding.evidence[:1].upper()}{found.finding.evidence[1:]}"),
    ]


def _table(found: ThreadStudy) -> list[str]:
    """Rows by condition. The sign marks the choice for the situation that the row belongs to."""
    pinned = any(row.option.cores for row in found.rows)
    head = f"  {'threads':>7}{'  cores   ' if pinned else ''}    median       p95  spread  CPU a run  cores busy"
    lines: list[str] = []
    for condition in found.conditions:
        rows = [row for row in found.rows if row.condition == condition]
        lines += ["", condition.describe(), *([head] if not lines else [])]
        choice = found.choice_for(condition.situation)
        lines += [_line(row, pinned=pinned, chosen=choice is not None and row.option == choice.option) for row in rows]
    return lines


def _line(row: Row, *, pinned: bool, chosen: bool) -> str:
    cores = f"  {cores_text(row.option.cores) or 'all':<8}" if pinned else ""
    figures = f"{milliseconds(row.latency.estimate):>10}{milliseconds(row.p95_ms):>10}{percent(row.spread):>8}"
    cpu = f"{milliseconds(row.cpu_seconds * 1e3):>11}{row.cores_used:>12.1f}"
    return f"  {row.option.threads:>7}{cores}{figures}{cpu}{'  <' if chosen else ''}"


def _notes(found: ThreadStudy) -> list[str]:
    others = [choice for choice in found.choices if choice.situation != found.situation]
    sentences = [*(_other_sentence(choice) for choice in others), found.effect_sentence(), found.energy_sentence()]
    lines = ["< is the choice for that situation; p95 counts beside other work."] if found.choices else []
    return lines + [line for sentence in sentences if sentence for line in _wrapped(sentence)]


def _other_sentence(choice: Choice) -> str:
    where = SITUATIONS[choice.situation]
    return f"{where[:1].upper()}{where[1:]}, {choice.option.describe()}: {choice.why.replace(f' {where}', '', 1)}"


def _wrapped(text: str) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text.strip(), WIDTH, initial_indent=indent, subsequent_indent="  ", break_on_hyphens=False)
