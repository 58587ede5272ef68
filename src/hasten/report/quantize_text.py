"""Variants as text: what to use, a table of all, and what there is to say about each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.accuracy import Kind
from hasten.core.quantization import FAILED, ORIGINAL, UNKNOWN
from hasten.core.units import interval_ms, milliseconds, percent, several, size
from hasten.report.text import WIDTH, printable, wrapped
from hasten.show.tables import rendered, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.mixing import Sensitivity
    from hasten.core.quantization import VariantRow
    from hasten.practices.quantize_records import QuantizeResult

_DASH: Final = "-"
_DELTA: Final = "\N{GREEK CAPITAL LETTER DELTA}"
# A name and the metric's figure share the room that the other columns leave of 80.
_NAME_AND_FIGURE: Final = 26
_FIGURE: Final = 7
_MOST_OF_HEADING: Final = 9
_MOST_SENSITIVE: Final = 5
_MOST_SKIPPED: Final = 3
_LARGE: Final = 9.995


def quantize_text(model: str, found: QuantizeResult) -> str:
    """The choice first, then the table, then a line for each that needs one."""
    # The reason why nothing is to be done names the file itself.
    head = found.why if found.already else f"{Path(model).name}: {found.why}"
    lines = [*wrapped(head), *wrapped(f"Chosen: {found.chosen}, copied to {found.path}")]
    if found.already:
        return "\n".join([*lines, *_as_it_is(found)])
    # Steps on the way to a mix left no file: programs see them, people see where they led.
    rows = [row for row in found.rows if row.path or not row.is_step]
    lines += ["", _table(rows), ""]
    common = _common_notes(rows)
    for row in rows:
        lines += _about(row, common)
    if found.sensitivity:
        lines += ["", *_sensitive(found.sensitivity, found.chosen)]
    lines += ["", *wrapped(_floor(found, rows))]
    for note in (*common, *found.notes, *_left_out(found.skipped)):
        lines += wrapped(note, "! ")
    for hint in found.hints:
        question, _, command = hint.partition("? ")
        lines += ["", *wrapped(f"{question}?"), f"  {command}"]
    return "\n".join(lines)


def _as_it_is(found: QuantizeResult) -> list[str]:
    """What was measured of a model that stays as it is. Without labels it was compared with itself, which says
    nothing."""
    row = found.rows[0]
    accuracy = row.accuracy if row.accuracy is not None and row.accuracy.kind is Kind.ACCURACY else None
    said = []
    if row.latency is not None:
        interval = interval_ms(row.latency.low, row.latency.high)
        said.append(f"{milliseconds(row.latency.estimate)} a run (95 % interval {interval})")
    if accuracy is not None:
        said.append(f"{_accuracy(accuracy)}, one half of {found.data}")
    notes = (*found.notes, *_left_out(found.skipped)) if accuracy is not None else ()
    measured = wrapped(f"Measured: {'; '.join(said)}") if said else []
    return [*measured, *(line for note in notes for line in wrapped(note, "! "))]


def _floor(found: QuantizeResult, rows: Sequence[VariantRow]) -> str:
    """What was asked for, and which half of the data the figures are of."""
    limit = found.floor.get("text") or f"at most {percent(found.max_drop)} lost"
    asked = f"Floor: {limit}, decided on one half of {found.data}"
    changed = next((row.known_accuracy for row in rows if _has_change_only(row)), None)
    if changed is not None:
        mark = "a sign" if _is_share(changed) else _DELTA
        signed = f"one with {mark} is the change against the original on as many samples of the first as it took"
        return f"{asked}. Figures are of the other half; {signed}."
    elsewhere = any(row.accuracy is None and row.choosing is not None for row in rows)
    first = ", or of the first where a variant got no further" if elsewhere else ""
    return f"{asked}; figures are of the other half{first}."


def _table(rows: Sequence[VariantRow]) -> str:
    grid = table()
    heading = _heading(next((row.known_accuracy for row in rows if row.known_accuracy is not None), None))
    figure = max(_FIGURE, len(heading))
    name = _NAME_AND_FIGURE - figure
    grid.add_column("variant", no_wrap=True, width=name)
    for title, width in (
        ("size", 7),
        ("zipped", 7),
        ("latency", 8),
        ("±", 4),
        ("against it", 14),
        (heading, figure),
        ("floor", 7),
    ):
        grid.add_column(title, justify="left" if title == "floor" else "right", no_wrap=True, width=width)
    for row in rows:
        grid.add_row(*_cells(row, name))
    return rendered(grid, WIDTH)


def _heading(found: Accuracy | None) -> str:
    """What the figures are; of a metric of the user's own, the name of the function."""
    if found is None:
        return "score"
    if found.kind is not Kind.ACCURACY:
        return _likeness(found.metric)
    name = printable(found.metric.rpartition(":")[2])
    return name if len(name) <= _MOST_OF_HEADING else f"{name[: _MOST_OF_HEADING - 1]}…"


def _cells(row: VariantRow, name: int) -> list[str]:
    latency, against = row.latency, row.against
    return [
        _short(row.recipe, name),
        size(row.size_bytes) if row.size_bytes else _DASH,
        size(row.zipped_bytes) if row.zipped_bytes else _DASH,
        _DASH if latency is None else milliseconds(latency.estimate),
        _DASH if latency is None else _width(latency.relative_half_width),
        _DASH if against is None else f"{against.verdict.value} {_ratio(against.ratio)}",
        _figure(row),
        _DASH if row.recipe == ORIGINAL else row.floor or _DASH,
    ]


def _figure(row: VariantRow) -> str:
    """The metric's value. That of a variant which was not reported on is of other samples than the original's, so only
    the change says something; agreement is with the original, whatever the samples. Values in units of their own may
    be below 0, so that a sign alone would not tell a change."""
    known = row.known_accuracy
    if known is None:
        return _DASH
    if not _has_change_only(row):
        return _value(known, known.value, _FIGURE)
    mark = "" if _is_share(known) else _DELTA
    return mark + _signed(known, _change(row), _FIGURE - len(mark))


def _has_change_only(row: VariantRow) -> bool:
    known = row.known_accuracy
    return known is not None and known.kind is Kind.ACCURACY and row.accuracy is None and row.drop is not None


def _change(row: VariantRow) -> float:
    """What was lost on the choosing half, as a change of the metric: an error that grows is a loss as well."""
    known, drop = row.known_accuracy, row.drop or 0.0
    return 0.0 - drop if known is None or known.higher_is_better else drop


def _about(row: VariantRow, common: Sequence[str]) -> list[str]:
    said = [row.why] if row.why else []
    if row.accuracy is not None:
        said.append(_accuracy(row.accuracy))
    if row.change is not None and row.accuracy is not None:
        low, high = (_signed(row.accuracy, bound) for bound in (row.change.low, row.change.high))
        said.append(f"{_signed(row.accuracy, row.change.difference)} against the original ({low} to {high})")
    if row.accuracy is None and row.choosing is not None and row.floor != FAILED:
        said.append(_judged_by(row, row.choosing))
    if row.is_mix:
        integers = "" if row.integer_share is None else f", {percent(row.integer_share)} of the weights are integers"
        stay = "stays" if len(row.float_nodes) == 1 else "stay"
        said.append(f"{several(len(row.float_nodes), 'node')} {stay} float{integers}")
    if row.floor != FAILED:
        said += [note for note in row.notes if note not in common]
    return wrapped(f"{row.recipe}: {'; '.join(said)}") if said else []


def _judged_by(row: VariantRow, found: Accuracy) -> str:
    """A figure of the half that decides, with the samples that it took."""
    if not _has_change_only(row):
        return _accuracy(found)
    samples = several(found.samples, "sample")
    return f"{found.metric} {_signed(found, _change(row))} against the original on {samples} of the first half"


def _common_notes(rows: Sequence[VariantRow]) -> list[str]:
    """Notes that all variants share, which are said once."""
    made = [row for row in rows if row.floor != FAILED and row.recipe != ORIGINAL]
    if len(made) < 2:
        return []
    return [note for note in made[0].notes if all(note in row.notes for row in made)]


def _left_out(skipped: Sequence[tuple[str, str]]) -> list[str]:
    """How many samples were left out, and the first of them by name."""
    if not skipped:
        return []
    named = "; ".join(reason if name in reason else f"{name}: {reason}" for name, reason in skipped[:_MOST_SKIPPED])
    more = f"; and {len(skipped) - _MOST_SKIPPED} more, which --json lists" if len(skipped) > _MOST_SKIPPED else ""
    bad = "1 bad sample was" if len(skipped) == 1 else f"{len(skipped)} bad samples were"
    return [f"{bad} left out: {named}{more}"]


def _accuracy(found: Accuracy) -> str:
    what = found.metric if found.kind is Kind.ACCURACY else f"{_likeness(found.metric)} ({found.metric})"
    if found.kind is Kind.UNKNOWN:
        what = f"{UNKNOWN} accuracy, {_likeness(found.metric)} on random inputs ({found.metric})"
    interval = f"{_value(found, found.low)} to {_value(found, found.high)}"
    return f"{what} {_value(found, found.value)} ({interval}) on {several(found.samples, 'sample')}"


def _sensitive(entries: Sequence[Sensitivity], chosen: str) -> list[str]:
    """Of the recipe that the chosen mix is of, or else of the first that was looked into."""
    base = chosen.partition("_but_")[0].removesuffix("_size")
    recipe = base if any(entry.recipe == base for entry in entries) else entries[0].recipe
    mine = [entry for entry in entries if entry.recipe == recipe]
    worst = sorted(mine, key=lambda entry: -entry.error)[:_MOST_SENSITIVE]
    lines = wrapped(f"Most sensitive to {recipe} (error at the output when only these are quantised):")
    for entry in worst:
        nodes = f"{entry.nodes[0]}-{entry.nodes[-1]}" if len(entry.nodes) > 1 else f"{entry.nodes[0]}"
        error = percent(entry.error) if math.isfinite(entry.error) else "useless"
        lines.append("  " + _cut(printable(f"{error:>7}  node {nodes} {entry.op} {entry.location}"), WIDTH - 2))
    return lines


def _ratio(value: float) -> str:
    """A ratio in four places."""
    return f"{value:.2f}" if value < _LARGE else f"{value:.0f}"


def _width(share: float) -> str:
    """Half of an interval's width, in four places; a dash after a single process, which has none."""
    return _DASH if not math.isfinite(share) else percent(round(share, 3)) if share < 0.995 else ">99%"


def _is_share(found: Accuracy) -> bool:
    return found.metric.startswith("top-") or found.metric == "miou"


def _value(found: Accuracy, value: float, room: int | None = None) -> str:
    return _number(found, value, "", room)


def _signed(found: Accuracy, value: float, room: int | None = None) -> str:
    return _number(found, value, "+", room)


def _number(found: Accuracy, value: float, sign: str, room: int | None) -> str:
    """A value of a metric with three digits, or as many as there is room for."""
    if not math.isfinite(value):
        return "unknown"
    if _is_share(found):
        return f"{value:{sign}.1%}"
    forms = [f"{value:{sign}.{digits}g}" for digits in (3, 2, 1)]
    return next((form for form in forms if room is None or len(form) <= room), forms[-1])


def _short(name: str, room: int) -> str:
    """A name that fits its column; of a mix, the end matters most."""
    name = printable(name)
    return name if len(name) <= room else f"{name[: room - 9]}…{name[-8:]}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _likeness(metric: str) -> str:
    return "deviation" if metric == "mae" else "agreement"
