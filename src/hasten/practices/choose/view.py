"""A choice of models as blocks and as the document that `--json` prints."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import value_text
from hasten.core.codec import to_data
from hasten.core.floor import FloorState
from hasten.core.units import count, interval_ms, memory, milliseconds, several, size
from hasten.practices.choose.charts import accuracy_spec, front_names, points, sized
from hasten.practices.choose.facts import PRECISIONS, CatalogueFound, ChooseFound, Place, Source
from hasten.practices.choose.rules import (
    NAME,
    accuracy_state,
    asked_limits,
    choice_of,
    count_kept,
    finding_of,
    keeps_limits,
    notes_of,
)
from hasten.practices.choose.words import BOOK
from hasten.show.blocks import (
    Cell,
    Chart,
    Facts,
    Table,
    answer,
    columns,
    doubt_notes,
    known,
    notes,
    sentences,
    studies_section,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.session import Line
    from hasten.practices.choose.facts import CatalogueRow, ModelRow, PlanRow
    from hasten.show.blocks import Block, Section

# As a terminal shows them without --verbose.
_MOST_ROWS: Final = 14
_PLACES: Final = {Place.ON: "front", Place.POSSIBLE: "front?", Place.OFF: "", Place.UNKNOWN: ""}
_FILTER_FROM: Final = 12
_SHAPES: Final = "Circles are measured accuracies, diamonds published ones; a line at the foot has none."
_GRAPHS: Final = {"latency": "Accuracy against latency", "size": "Accuracy against file size"}


def view(found: ChooseFound | CatalogueFound, name: str = NAME) -> list[Block]:
    """The model to take, all of them, the two graphs, and what to know about the answer; or the catalogue."""
    if isinstance(found, CatalogueFound):
        return _catalogue(found)
    measured = [row for row in found.models if row.accuracy is not None and row.accuracy_source is Source.MEASURED]
    return [
        answer(finding_of(found).remark, BOOK),
        Facts(_facts(found)),
        *_graph(found, "latency", name, _table(found, f"{name}-table"), on_terminal=True),
        *_graph(found, "size", name, _sizes(found, f"{name}-size-table"), on_terminal=False),
        *sentences(f"{trouble.where} was left out: {trouble.message}" for trouble in found.troubles),
        *notes(notes_of(found), BOOK),
        *doubt_notes({row.name: row.accuracy.notes for row in measured if row.accuracy is not None}, BOOK),
        *doubt_notes({row.name: row.doubts for row in found.models if row.latency is not None}, BOOK),
    ]


def document(found: ChooseFound | CatalogueFound) -> dict[str, Any]:
    """The document of `hasten choose --json`, or of `hasten choose --list --json`."""
    if isinstance(found, CatalogueFound):
        return to_data(found)
    choice, finding = choice_of(found), finding_of(found)
    costs = {limit: row.name for limit, row in choice.costs}
    return {
        **to_data(found, BOOK),
        "models": [_row_data(row, found) for row in found.models],
        "chosen": None if choice.row is None else choice.row.name,
        "nearest": None if choice.nearest is None else choice.nearest.name,
        "keeps_limits": keeps_limits(found),
        "kept": count_kept(found),
        "goal": choice.goal.value,
        "without_limit": costs,
        "why": BOOK.text(finding.remark),
        "finding": BOOK.finding_data(finding),
        "basis": found.basis.value,
        "remarks": [BOOK.remark_data(note) for note in notes_of(found)],
        "graphs": [
            {
                "name": x,
                "title": title,
                "x": x,
                "y": "accuracy",
                "points": [_plain(one) for one in points(found.models, x)],
            }
            for x, title in _GRAPHS.items()
        ],
    }


def _row_data(row: ModelRow, found: ChooseFound) -> dict[str, Any]:
    state = accuracy_state(row, asked_limits(found.limits))
    return {**to_data(row, BOOK), "on_front": row.on_front, "accuracy_verdict": state.value or None}


def session_lines(found: ChooseFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a choice. The choice comes last, as the last line tells whether it was cut short."""
    return [("finding", NAME, to_data(finding_of(found))), (NAME, found.task or NAME, to_data(found))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    return studies_section(ChooseFound, NAME, lines, view)


def _plain(point: dict[str, Any]) -> dict[str, Any]:
    """A point for programs: what is drawn and how is left out."""
    drawn = ("name", "precision", "source", "x", "low", "high", "y", "y_low", "y_high", "on_front")
    return {key: point[key] for key in drawn}


def _catalogue(found: CatalogueFound) -> list[Block]:
    """A table for each task, as accuracies of two tasks have nothing in common."""
    tasks = dict.fromkeys(row.task for row in found.models)
    return [_task_table(task, [row for row in found.models if row.task == task]) for task in tasks]


def _task_table(task: str, models: Sequence[CatalogueRow]) -> Table:
    """The models, with the figures that can be compared: those of the metric and data that most of them have."""
    figures = Counter((one.metric, one.data) for row in models for one in row.accuracies.values())
    metric, data = figures.most_common(1)[0][0] if figures else ("", "")
    told = " on ".join(filter(None, (metric, data)))
    headings = columns(
        *(f"{task} ({told})" if told else task, "#?input", "#params", "#MACs"),
        *(f"#{precision}" for precision in PRECISIONS),
        *("?on other data", "?raced by default", "?trained weights"),
    )
    rows = tuple(
        (
            Cell(row.name),
            Cell(str(row.input_size), row.input_size),
            known(row.parameters, count),
            known(row.macs, count),
            *(_published(row.accuracies.get(precision), data) for precision in PRECISIONS),
            Cell(", ".join(_elsewhere(row, data))),
            Cell("yes" if row.common else ""),
            Cell(", ".join(row.weights), len(row.weights)),
        )
        for row in models
    )
    return Table(f"catalogue-{task}", f"The catalogue for {task}, with published accuracies", headings, rows)


def _published(accuracy: Accuracy | None, data: str) -> Cell:
    if accuracy is None or accuracy.data != data:
        return Cell("")
    return Cell(value_text(accuracy.metric, accuracy.value), accuracy.value)


def _elsewhere(row: CatalogueRow, data: str) -> list[str]:
    """The figures of other data, which are not to be compared with the others."""
    others = {precision: one for precision, one in row.accuracies.items() if one.data != data}
    return [f"{name} {value_text(one.metric, one.value)} on {one.data}" for name, one in others.items()]


def _facts(found: ChooseFound) -> tuple[tuple[str, str], ...]:
    timed = [row for row in found.models if row.latency is not None]
    front = [row for row in timed if row.on_front]
    unsure = sum(row.place is Place.POSSIBLE for row in front)
    rows = [("task", found.task)] if found.task else []
    rows.append(("device", f"{found.device}; {found.plan.describe()}" if found.device else found.plan.describe()))
    rows.append(("timed", f"{several(len(timed), 'candidate')} in {found.seconds:.0f} s"))
    if found.basis is not Source.UNKNOWN:
        told = f", {unsure} of them undecided (front?)" if unsure else ""
        rows.append(("front", f"{several(len(front), 'candidate')}{told}"))
    if found.data:
        counts = {
            row.accuracy.samples for row in found.models if row.accuracy and row.accuracy_source is Source.MEASURED
        }
        told = f", {several(max(counts), 'sample')}" if counts else ""
        rows.append(("data", f"{found.data}{told}"))
    rows += [("threads", text) for text in _threads(found.plans)]
    rows += [(row.plan.accelerator, text) for row in found.plans if (text := _accelerator(row))]
    return tuple(rows)


def _threads(plans: Sequence[PlanRow]) -> list[str]:
    """What each number of threads came to, on the model that they were tried on."""
    rows = [row for row in plans if row.plan.runs_on_cpu and row.latency is not None]
    if not rows:
        return []
    tried = ", ".join(f"{milliseconds(row.latency.estimate)} with {row.plan.threads}" for row in rows if row.latency)
    used = next((row for row in rows if row.used), rows[0])
    quickest = min(row.latency.estimate for row in rows if row.latency)
    unproven = used.latency is not None and used.latency.estimate > quickest
    told = ", which is not proven faster" if unproven else ""
    return [f"{used.plan.threads}; {rows[0].model} takes {tried}{told}"]


def _accelerator(row: PlanRow) -> str:
    """Why an accelerator was not raced."""
    if row.plan.runs_on_cpu:
        return ""
    if row.latency is not None:
        return f"not faster: {row.model} takes {milliseconds(row.latency.estimate)} there"
    return row.trouble


def _graph(found: ChooseFound, x: str, name: str, table: Table, *, on_terminal: bool) -> list[Block]:
    """A graph with its table; where it would have no two points, the table alone."""
    choice = choice_of(found)
    chosen = choice.row or choice.nearest
    spec = accuracy_spec(found.models, x, "" if chosen is None else chosen.name)
    if spec is None:
        return [table] if on_terminal else []
    told = f"Left is {'faster' if x == 'latency' else 'smaller'}, up is more accurate. {_SHAPES}"
    told += f" The line joins the Pareto front of the estimates: {', '.join(front_names(spec))}."
    unsure = [row.name for row in found.models if row.place is Place.POSSIBLE and row.latency is not None]
    told += f" Undecided: {', '.join(unsure)}." if unsure and x == "latency" else ""
    return [Chart(f"{name}-{x}", _GRAPHS[x], told, spec, table, on_terminal)]


def _table(found: ChooseFound, name: str) -> Table:
    limits = asked_limits(found.limits)
    judged = any(accuracy_state(row, limits) is not FloorState.NOT_JUDGED for row in found.models)
    # Only what was measured here is judged, so the verdict tells that too.
    source = ("limit", "?from") if judged else ("from",)
    headings = columns(
        *("model", "#latency", "#?95 % CI", "#accuracy", *source, "#size", "#?MACs"),
        *("#?init", "#?memory", "#?rounds", "front", "?weights", "?why not"),
    )
    taken = choice_of(found).row
    chosen = "" if taken is None else taken.name
    states = {row.name: (Cell(accuracy_state(row, limits).value),) if judged else () for row in found.models}
    rows = tuple(_cells(row, chosen, states[row.name]) for row in found.models)
    marks = tuple(_mark(row, chosen) for row in found.models)
    caption = "Every candidate, the front first"
    return Table(name, caption, headings, rows, len(rows) > _FILTER_FROM, marks, _MOST_ROWS)


def _mark(row: ModelRow, chosen: str) -> str:
    if row.name == chosen:
        return "chosen"
    if row.failure is not None or row.latency is None:
        return "failed"
    return {Place.ON: "kept", Place.POSSIBLE: "undecided", Place.OFF: "dropped", Place.UNKNOWN: "timed"}[row.place]


def _cells(row: ModelRow, chosen: str, state: tuple[Cell, ...]) -> tuple[Cell, ...]:
    latency, accuracy = row.latency, row.accuracy
    return (
        Cell(row.name),
        known(None if latency is None else latency.estimate, milliseconds),
        Cell(interval_ms(latency.low, latency.high) if latency and math.isfinite(latency.high) else ""),
        _accuracy(row),
        *state,
        Cell("" if accuracy is None else row.accuracy_source.value),
        Cell(size(row.size_bytes), row.size_bytes),
        known(row.macs, count),
        known(row.init_ms, milliseconds),
        known(row.peak_memory_mb, memory),
        known(row.rounds, str),
        Cell("take this" if row.name == chosen else _place(row)),
        Cell(row.weights),
        Cell(BOOK.text(row.why_dropped)),
    )


def _place(row: ModelRow) -> str:
    if row.failure is not None:
        return "failed"
    return "not timed" if row.latency is None else _PLACES[row.place]


def _accuracy(row: ModelRow) -> Cell:
    if row.accuracy is None:
        return Cell("unknown")
    return Cell(value_text(row.accuracy.metric, row.accuracy.value), row.accuracy.value)


def _sizes(found: ChooseFound, name: str) -> Table:
    headings = columns("model", "#accuracy", "from", "#size")
    rows = sorted(sized(found.models), key=lambda row: row.size_bytes)
    cells = tuple(
        (Cell(row.name), _accuracy(row), Cell(row.accuracy_source.value), Cell(size(row.size_bytes), row.size_bytes))
        for row in rows
    )
    return Table(name, "Accuracy and size", headings, cells)
