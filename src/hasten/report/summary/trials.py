"""Lines of a session as rows of one table: tune's trials, measurements, variants, sides of a comparison, failures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data
from hasten.core.doubts import DOUBTS, doubts_data
from hasten.core.errors import HastenError
from hasten.core.measurement import Measurement
from hasten.core.pareto import pareto_front
from hasten.core.plan import plan_from_mapping
from hasten.core.remark import remark_from_data
from hasten.report.summary.commands import ORIGINAL, command_of
from hasten.report.summary.reading import at, items, number, records, text, whole
from hasten.report.summary.records import DoubtRow, Figure, TrialRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.session import Line

KINDS: Final = ("trial", "measurement", "variant", "comparison", "failure")
UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, HastenError)


def figure(data: object, value: str = "value", bounds: str = "ci95") -> Figure | None:
    """A number with the interval that stands beside it."""
    found = number(data, value)
    return None if found is None else Figure(found, number(data, bounds, 0), number(data, bounds, 1))


def latency_figure(data: object) -> Figure | None:
    """A latency in milliseconds."""
    return figure(data, "median_ms", "ci95_ms")


def accuracy_figure(data: object) -> Figure | None:
    """An accuracy, as a record or as a bare number."""
    bare = number({"it": data}, "it")
    return Figure(bare) if bare is not None else figure(data)


def plan_words(data: object) -> str:
    """A plan as a person would say it."""
    if not isinstance(data, dict) or not data:
        return ""
    try:
        return plan_from_mapping(data).describe()
    except UNREADABLE:
        return ", ".join(f"{key}={value}" for key, value in data.items())


def doubt_rows(data: object, where: str) -> tuple[DoubtRow, ...]:
    """Doubts that stand beside a number, as records or as plain sentences."""
    found = []
    for entry in items(data):
        if isinstance(entry, str):
            found.append(DoubtRow("", entry, "", (where,)))
        elif isinstance(entry, dict):
            doubt = remark_from_data(entry)
            found.append(DoubtRow(doubt.code, DOUBTS.text(doubt), DOUBTS.hint(doubt), (where,)))
    return tuple(found)


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
    elapsed = before.elapsed_s if before.latency is not None else row.elapsed_s
    lost = before.lost if before.accuracy_on == "choosing" else row.lost
    return replace(row, lost=row.lost if lost is None else lost, elapsed_s=elapsed)


def _rows_of(line: Line, position: int) -> list[tuple[tuple[str, ...], TrialRow]]:
    if line.kind == "trial":
        row = _tried(line.label, line.data)
        return [(("trial", row.name), row)]
    if line.kind == "variant":
        return [(("variant", line.label), _variant(line.label, line.data))]
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
    found = from_data(Measurement, data)
    latency, plan = found.samples.latency, found.plan.describe()
    model = found.model.path.rsplit("/", 1)[-1]
    name = label if label and label != found.model.path else f"{model}, {plan}"
    ends = {"latency": {"median_ms": latency.estimate, "ci95_ms": [latency.low, latency.high]}}
    doubts = doubts_data(found.doubts)
    return TrialRow(
        name=name,
        kind="measurement",
        variant=model,
        plan=plan,
        status="interrupted" if data.get("interrupted") else "timed",
        latency=latency_figure(ends["latency"]),
        size=found.model.size_bytes,
        memory_mb=found.peak_memory_mb,
        init_ms=found.init_ms,
        doubts=doubt_rows(doubts, name),
    )


def _tried(label: str, data: dict[str, Any]) -> TrialRow:
    name = text(data, "id") or label
    return TrialRow(
        name=name,
        kind="trial",
        variant=text(data, "variant"),
        plan=plan_words(at(data, "plan")),
        status=text(data, "status"),
        stage=text(data, "stage"),
        latency=latency_figure(at(data, "latency")),
        ratio=figure(at(data, "against_original"), "ratio"),
        verdict=text(data, "against_original", "verdict"),
        **_judged(data),
        lost=number(data, "drop"),
        size=whole(data, "size"),
        zipped_size=whole(data, "zipped_size"),
        memory_mb=number(data, "peak_memory_mb"),
        init_ms=number(data, "init_ms"),
        why=text(data, "why"),
        doubts=doubt_rows(at(data, "doubts"), name),
        elapsed_s=number(data, "elapsed_s"),
    )


def _judged(data: dict[str, Any]) -> dict[str, Any]:
    """What a row says of its accuracy. Sessions from before it was recorded do not name the direction."""
    metric, higher = text(data, "accuracy", "metric"), at(data, "accuracy", "higher_is_better")
    return {
        "accuracy": accuracy_figure(at(data, "accuracy")),
        "metric": metric,
        "accuracy_kind": text(data, "accuracy", "kind"),
        "accuracy_on": text(data, "accuracy_on"),
        "accuracy_samples": whole(data, "accuracy", "samples"),
        "higher_is_better": higher if isinstance(higher, bool) else metric != "mae",
    }


def _variant(label: str, data: dict[str, Any]) -> TrialRow:
    notes = " ".join(str(note) for note in items(data, "notes"))
    return TrialRow(
        name=text(data, "recipe") or label,
        kind="variant",
        variant=label,
        status=text(data, "floor") or "made",
        latency=latency_figure(at(data, "latency")),
        ratio=figure(at(data, "against"), "ratio"),
        verdict=text(data, "verdict"),
        **_judged(data),
        lost=0.0 if label == ORIGINAL else number(data, "drop"),
        size=whole(data, "size"),
        zipped_size=whole(data, "zipped_size"),
        why=f"{text(data, 'why')} {notes}".strip(),
    )


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
    runs = [row for row in rows if row.kind in ("trial", "variant") and row.status not in ("failed", "broken")]
    by_loss = all(row.lost is not None for row in runs if row.accuracy is not None)
    timed = [row for row in runs if row.latency]
    return {row.name for row in pareto_front(timed, lambda row: _goals(row, by_loss))}


def _goals(row: TrialRow, by_loss: bool) -> tuple[float, float, float]:
    latency = row.latency.value if row.latency else 0.0
    return latency, _badness(row, by_loss), float(row.size or 0)


def _badness(row: TrialRow, by_loss: bool) -> float:
    """How wrong a row is, less is better: by what it lost against the original, where that is known of all."""
    if row.accuracy is None:
        return 0.0
    return row.lost or 0.0 if by_loss else -row.accuracy.value if row.higher_is_better else row.accuracy.value


def front_names(result: dict[str, Any] | None) -> list[str]:
    """The trials that a result names as its front."""
    return [name for entry in records(result, "front") if (name := text(entry, "id"))]
