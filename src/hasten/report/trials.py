"""Trials: a row for each thing that was tried, and the sections that show them: front, timeline, all trials."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.goal import MEASURED, Goal
from hasten.core.measurement import measurement_from_data
from hasten.core.pareto import pareto_front
from hasten.core.session import UNREADABLE
from hasten.core.trial import trial_from_data
from hasten.core.units import memory, milliseconds, several, size, times
from hasten.practices.registry import phrasebook
from hasten.report.commands import ORIGINAL, command_of
from hasten.report.doubts import doubts_of
from hasten.report.figures import (
    Figure,
    TrialRow,
    accuracy_text,
    amount_range,
    amount_text,
    at,
    change_range,
    change_text,
    interval_text,
    latency_text,
    number,
    records,
    text,
    timed_of,
    whole,
)
from hasten.report.trial_charts import charted, comparable, front_spec, timeline_spec
from hasten.show.blocks import Cell, Chart, Prose, Section, Table, cell, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.session import Line
    from hasten.core.trial import Trial
    from hasten.report.figures import BestRow, Event
    from hasten.show.blocks import Block

KINDS: Final = ("trial", "measurement", "variant", "comparison", "failure")
# More rows than this make a page slow to open, and nobody reads them there.
MOST_ROWS: Final = 2000
_FILTER_FROM: Final = 12


def trial_rows(trials: Iterable[Line], paths: Mapping[str, str]) -> tuple[list[TrialRow], list[str]]:
    """A row for each thing that was tried, later lines in place of earlier ones of the same trial; and which lines
    could not be read. Measurements that were saved round by round are to be merged before."""
    rows: dict[tuple[str, ...], TrialRow] = {}
    unreadable = []
    for position, line in enumerate(trials):
        if line.kind not in KINDS:
            continue
        try:
            for key, row in _rows_of(line, position):
                told = replace(row, at=line.at, command=command_of(line, paths))
                rows[key] = _with_history(told, rows.get(key))
        except UNREADABLE as error:
            unreadable.append(f"{line.kind} {line.label}: {type(error).__name__}: {error}")
    tried = {row.name for row in rows.values() if row.kind == "trial"}
    # A trial's rounds are its raw samples, and the trial says all of them.
    return [row for row in rows.values() if row.kind != "measurement" or row.name not in tried], unreadable


def _with_history(row: TrialRow, before: TrialRow | None) -> TrialRow:
    """What an earlier line of the same trial said and this one no longer does."""
    if before is None:
        return row
    return replace(row, elapsed_s=before.elapsed_s if before.latency is not None else row.elapsed_s)


def _rows_of(line: Line, position: int) -> list[tuple[tuple[str, ...], TrialRow]]:
    if line.kind in ("trial", "variant"):
        row = _searched(line)
        return [((line.kind, row.name), row)]
    if line.kind == "failure":
        said = text(line.data, "message")
        return [(("failure", str(position)), TrialRow(line.label, "failure", status="failed", why=said))]
    if line.kind == "measurement":
        return [(("measurement", line.label, str(position)), measured_row(line.label, line.data))]
    sides = [(side, at(line.data, side)) for side in ("first", "second")]
    return [
        (
            ("comparison", line.label, str(position), side),
            replace(measured_row("", data), kind="comparison", status="compared"),
        )
        for side, data in sides
        if isinstance(data, dict)
    ]


def measured_row(label: str, data: dict[str, Any]) -> TrialRow:
    """A measurement with its raw samples, as a row without them."""
    found = measurement_from_data(data)
    latency, plan = found.samples.latency, found.plan.describe()
    model = found.model.path.rsplit("/", 1)[-1]
    name = label if label and label != found.model.path else f"{model}, {plan}"
    return TrialRow(
        name=name,
        kind="measurement",
        variant=model,
        plan=plan,
        status="interrupted" if data.get("interrupted") else "timed",
        latency=_figure(latency.estimate, latency.low, latency.high),
        size=found.model.size_bytes,
        memory_mb=found.peak_memory_mb,
        init_ms=found.init_ms,
        doubts=doubts_of(found.doubts, name),
    )


def _figure(estimate: float, low: float, high: float) -> Figure:
    """A figure whose open ends are not known; a TypeError where a damaged line has something else than numbers."""
    return Figure(estimate + 0.0, *(bound if math.isfinite(bound) else None for bound in (low, high)))


def _searched(line: Line) -> TrialRow:
    """A trial of a search: a variant with a plan, as tune tries them, or a variant alone, as quantize does."""
    trial, of_tune, book = trial_from_data(line.data), line.kind == "trial", phrasebook()
    name = trial.id if of_tune else str(trial.variant)
    latency, against = trial.latency, trial.against
    return TrialRow(
        name=name,
        kind=line.kind,
        variant=str(trial.variant),
        plan=trial.plan.describe() if of_tune else "",
        status=trial.status.value if of_tune else trial.floor.value or "made",
        stage=trial.stage.value if of_tune else "",
        latency=None if latency is None else _figure(latency.estimate, latency.low, latency.high),
        ratio=None if against is None else _figure(against.ratio, *against.ci95),
        verdict="" if against is None else against.verdict.value,
        **_judged(trial),
        size=whole(line.data, "size"),
        zipped_size=whole(line.data, "zipped_size"),
        memory_mb=number(line.data, "peak_memory_mb"),
        init_ms=number(line.data, "init_ms"),
        why=" ".join(filter(None, book.sentences((trial.why, *trial.notes)))),
        doubts=doubts_of(trial.doubts, name),
        elapsed_s=number(line.data, "elapsed_s") if of_tune else None,
        amounts={goal: _figure(amount.value, *amount.ci95) for goal, amount in trial.amounts.items()},
    )


def _judged(trial: Trial) -> dict[str, Any]:
    """What a row says of its accuracy."""
    known = trial.accuracy
    if known is None:
        return {}
    return {
        "accuracy": _figure(known.value, known.low, known.high),
        "metric": str(known.metric),
        "accuracy_kind": known.kind.value,
        "accuracy_on": trial.accuracy_on,
        "accuracy_samples": whole({"samples": known.samples}, "samples"),
        "higher_is_better": known.higher_is_better,
        "change": _change(trial, known),
        "floor": trial.floor.value if trial.floor_verdict is not None else "",
        "refused": trial.is_refused,
    }


def _change(trial: Trial, known: Accuracy) -> Figure | None:
    """What the trial won or lost against the original, on the samples of its accuracy."""
    if trial.change is not None:
        return _figure(trial.change.difference, trial.change.low, trial.change.high)
    if trial.judged is not None and trial.reporting is None:
        low, high = trial.judged.ci95
        drop, low, high = (trial.judged.drop, high, low) if known.higher_is_better else (trial.judged.drop, low, high)
        return _figure(*(0.0 - value if known.higher_is_better else value for value in (drop, low, high)))
    if trial.drop is None and trial.variant != ORIGINAL:
        return None
    lost = trial.drop or 0.0
    return Figure(0.0 - lost if known.higher_is_better else lost)


def with_chosen(rows: Sequence[TrialRow], lines: Iterable[Line]) -> list[TrialRow]:
    """The rows with the variant that a search chose marked so."""
    chosen = {line.label for line in lines if line.kind == "chosen"}
    last = next((line.label for line in reversed(list(lines)) if line.kind == "chosen"), "") if chosen else ""
    return [replace(row, status="chosen") if row.kind == "variant" and row.variant == last else row for row in rows]


def with_front(rows: Sequence[TrialRow], named: Sequence[str]) -> list[TrialRow]:
    """The rows with those on the front marked: the named ones, or else those that no other is better than."""
    front = set(named) or _undominated(rows)
    return [replace(row, on_front=row.name in front) for row in rows]


def _undominated(rows: Sequence[TrialRow]) -> set[str]:
    """Those that nothing beats in latency, accuracy and size at once."""
    runs = [row for row in rows if row.kind in ("trial", "variant") and row.status != "failed"]
    runs = [row for row in runs if not row.refused and row.status != "broken"]
    by_loss = all(row.change is not None for row in runs if row.accuracy is not None)
    timed = [row for row in runs if row.latency]
    return {row.name for row in pareto_front(timed, lambda row: _goals(row, by_loss))}


def _goals(row: TrialRow, by_loss: bool) -> tuple[float, float, float]:
    latency = row.latency.value if row.latency else 0.0
    return latency, _badness(row, by_loss), float(row.size or 0)


def _badness(row: TrialRow, by_loss: bool) -> float:
    """How wrong a row is, less is better: by what it lost against the original, where that is known of all."""
    shown = row.change if by_loss else row.accuracy
    if row.accuracy is None or shown is None:
        return 0.0
    return -shown.value if row.higher_is_better else shown.value


def front_names(result: dict[str, Any] | None) -> list[str]:
    """The trials that a result names as its front."""
    return [name for entry in records(result, "front") if (name := text(entry, "id"))]


def front_section(trials: Sequence[TrialRow], allowed: float | None = None, goal: Goal = Goal.LATENCY) -> list[Section]:
    """The goal, accuracy and size of every trial; with the drop that the floor allows, where it is known."""
    rows = [row for row in trials if row.kind == "trial"] or [row for row in trials if row.kind == "variant"]
    allowed = allowed if any(row.floor for row in rows if row.latency is not None) else None
    spec = front_spec(rows, allowed, goal)
    if spec is None:
        return []
    front = sorted((row for row in rows if row.on_front and row.latency), key=lambda row: _rank(row, goal))
    timed = several(len(timed_of(rows)), "candidate")
    told = f"{timed}. On the Pareto front, where no other is better in every respect: {len(front)}."
    chosen = next((row for row in rows if row.status == "chosen"), None)
    if chosen is not None:
        told += f" Chosen: {chosen.name}, {_in_words(chosen)}."
    first = _DIRECTIONS[goal][1]
    sheet = _sheet("front-table", f"The trials on the Pareto front, the {first} first", front)
    accuracies = comparable(charted(rows, goal))
    lead = _lead(accuracies.are_shown, goal)
    if accuracies.changes:
        lead += " Each trial is compared with the original on the samples that it was judged by."
    if allowed is not None:
        lead += " The line is the accuracy floor: a whisker that crosses it leaves the verdict undecided."
    shown = "latency and size" if goal in (Goal.LATENCY, Goal.SIZE) else f"{goal.heading} and size"
    title = f"accuracy, {shown}" if accuracies.are_shown else shown
    title = title[0].upper() + title[1:]
    chart = Chart("front", f"{title} of the trials", told, spec, sheet)
    return [Section("front", title, (Prose(lead), chart))]


def _lead(with_accuracy: bool, goal: Goal) -> str:
    """How to read the chart: the size is an axis of its own where no accuracy is known."""
    if with_accuracy:
        directions = f"{_DIRECTIONS[goal][0]}, up is more accurate. Larger marks are larger files."
    else:
        beside = Goal.LATENCY if goal is Goal.SIZE else goal
        directions = f"{_DIRECTIONS[beside][0]}, down is smaller."
    return f"{directions} Whiskers are 95 % confidence intervals."


# Where better trials are in the chart, and what the best of them is called.
_DIRECTIONS: Final = {
    Goal.LATENCY: ("Left is faster", "fastest"),
    Goal.SIZE: ("Left is smaller", "smallest"),
    Goal.ENERGY: ("Left uses less energy", "most energy-efficient"),
    Goal.THROUGHPUT: ("Right has more throughput", "one with most throughput"),
    Goal.START: ("Left starts faster", "fastest to start"),
}


def _latency_of(row: TrialRow) -> float:
    return row.latency.value if row.latency else 0.0


def _rank(row: TrialRow, goal: Goal) -> float:
    """Sorts the best first; what is not known comes last."""
    found = row.figure_of(goal)
    if found is None:
        return math.inf
    return -found.value if goal.more_is_better else found.value


def _in_words(row: TrialRow) -> str:
    accuracy = accuracy_text(row.accuracy, row.metric)
    if accuracy and row.accuracy_on:
        accuracy += f" on the {row.accuracy_on} part of the data"
    parts = [latency_text(row.latency), accuracy, size(row.size) if row.size else ""]
    return ", ".join(part for part in parts if part)


_COLUMNS = columns(
    "trial",
    "status",
    "#latency",
    "#95 % CI",
    "#speedup",
    "#accuracy",
    "part of the data",
    "change (95 % CI)",
    "floor",
    "#size",
    "#init",
    "#memory",
    "why",
    "command",
)


def _sheet(name: str, caption: str, rows: Sequence[TrialRow], **options: Any) -> Table:
    """The rows as a table, with a column for each goal that was measured besides latency."""
    known = [goal for goal in MEASURED if any(goal.value in row.amounts for row in rows)]
    more = columns(*(f"#{goal.heading}" for goal in known))
    cells = tuple(
        (*cells, *(_amount_cell(row, goal) for goal in known)) for row, cells in zip(rows, _cells(rows), strict=True)
    )
    return Table(name, caption, (*_COLUMNS, *more), cells, **options)


def _amount_cell(row: TrialRow, goal: Goal) -> Cell:
    found = row.figure_of(goal)
    return Cell(amount_text(goal, found), found.value if found else None)


def _cells(rows: Sequence[TrialRow]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (
            Cell(row.name),
            Cell(row.status),
            Cell(latency_text(row.latency), row.latency.value if row.latency else None),
            Cell(interval_text(row.latency), row.latency.low if row.latency else None),
            _faster(row.ratio),
            Cell(accuracy_text(row.accuracy, row.metric), row.accuracy.value if row.accuracy else None),
            Cell(row.accuracy_on),
            Cell(_change_words(row), row.change.value if row.change else None),
            Cell(row.floor),
            Cell(size(row.size) if row.size else "", row.size),
            Cell("" if row.init_ms is None else milliseconds(row.init_ms), row.init_ms),
            Cell("" if row.memory_mb is None else memory(row.memory_mb), row.memory_mb),
            Cell(_why(row)),
            Cell(row.command, code=True),
        )
        for row in rows
    )


def _change_words(row: TrialRow) -> str:
    if row.change is None or not row.floor:
        return ""
    return f"{change_text(row.change.value, row.metric)} ({change_range(row.change, row.metric)})"


def _faster(ratio: Figure | None) -> Cell:
    if ratio is None or not ratio.value:
        return Cell("")
    speed = ratio.inverse.value
    return Cell(times(speed), speed)


def _why(row: TrialRow) -> str:
    return " ".join(filter(None, (row.why, *(doubt.evidence for doubt in row.doubts))))


def trials_section(trials: Sequence[TrialRow]) -> list[Section]:
    """Every trial, to sort and to filter."""
    if not trials:
        return []
    shown = _most_telling(trials)
    sheet = _sheet(
        "trials-table",
        "Every trial of the session",
        shown,
        filterable=len(shown) > _FILTER_FROM,
        marks=tuple(row.status for row in shown),
    )
    blocks: list[Block] = [sheet]
    if len(shown) < len(trials):
        left = len(trials) - len(shown)
        blocks.insert(0, Prose(f"{left} slower trials are left out here. --format json has them all."))
    return [Section("trials", f"All trials ({len(trials):,})", tuple(blocks))]


def _most_telling(rows: Sequence[TrialRow]) -> Sequence[TrialRow]:
    if len(rows) <= MOST_ROWS:
        return rows
    return sorted(rows, key=lambda row: (row.latency is None, _latency_of(row)))[:MOST_ROWS]


def timeline_section(
    events: Sequence[Event], trials: Sequence[TrialRow], best: Sequence[BestRow] = (), goal: Goal = Goal.LATENCY
) -> list[Section]:
    """When each line of the session was written, and what the best was at that time."""
    if len(events) < 2:
        return []
    rows = tuple(
        (cell(f"{event.seconds:.0f} s", event.seconds), Cell(event.kind), Cell(event.label), Cell(event.what))
        for event in events[:MOST_ROWS]
    )
    caption = f"The {len(rows)} lines of the session, in order"
    sheet = Table("timeline-table", caption, columns("#after", "kind", "of", "result"), rows)
    tried = [row for row in trials if row.kind == "trial"]
    last = max(event.seconds for event in events)
    spec = timeline_spec(tried, best, last, goal)
    curve = [_best_sheet(best, goal)] if best else []
    if spec is None:
        return [Section("timeline", "Timeline", (*curve, sheet))]
    timed = several(len(timed_of(tried)), "candidate")
    line = "The line is the best result so far, as it was known at the time."
    if not best:
        line = "The line is the lowest latency so far that keeps the accuracy."
    title = f"{goal.heading[:1].upper()}{goal.heading[1:]} of each trial over time"
    chart = Chart("timeline", title, f"{timed} in {last:.0f} s. {line}", spec, sheet)
    return [Section("timeline", "Timeline", (chart, *curve))]


def _best_sheet(best: Sequence[BestRow], goal: Goal) -> Table:
    rows = tuple(
        (
            cell(f"{row.seconds:.0f} s", row.seconds),
            Cell(row.trial),
            Cell(amount_text(goal, row.amount), row.amount.value),
            Cell(amount_range(goal, row.amount)),
            Cell("confirmed" if row.confirmed else "so far"),
        )
        for row in best[:MOST_ROWS]
    )
    titles = columns("#after", "best", f"#{goal.heading}", "#95 % CI", "state")
    return Table("best-table", "The best result over time", titles, rows)


def untried_section(left: Sequence[tuple[str, str]]) -> list[Section]:
    """What a search has left untried and why, and how to go on."""
    rows = tuple((Cell(what), Cell(how)) for what, how in left)
    sheet = Table("untried-table", "What the search did not try", columns("what", "how to continue"), rows)
    return [Section("untried", "What was left untried", (sheet,))] if rows else []


def untried_in(result: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """What a result says was left untried, with what to do about it."""
    return tuple((what, text(entry, "hint")) for entry in records(result, "untried") if (what := text(entry, "text")))
