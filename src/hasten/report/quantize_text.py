"""Variants as text: what to use, a table of all, and what there is to say about each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.accuracy import Kind
from hasten.core.quantization import FAILED, ORIGINAL, UNKNOWN
from hasten.core.units import milliseconds, percent, size
from hasten.report.tables import rendered, table
from hasten.report.text import WIDTH, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.mixing import Sensitivity
    from hasten.core.quantization import VariantRow
    from hasten.practices.quantize_records import QuantizeResult

_DASH: Final = "-"
_NAME: Final = 20
_MOST_SENSITIVE: Final = 5
_MOST_SKIPPED: Final = 3
_LARGE: Final = 9.995


def quantize_text(model: str, found: QuantizeResult) -> str:
    """The choice first, then the table, then a line for each that needs one."""
    # The reason why nothing is to be done names the file itself.
    head = found.why if found.already else f"{Path(model).name}: {found.why}"
    lines = [*wrapped(head), *wrapped(f"Chosen: {found.chosen}, copied to {found.path}")]
    if found.already:
        return "\n".join(lines)
    # Steps on the way to a mix left no file: programs see them, people see where they led.
    rows = [row for row in found.rows if row.path or not row.is_step]
    lines += ["", _table(rows), ""]
    common = _common_notes(rows)
    for row in rows:
        lines += _about(row, common)
    if found.sensitivity:
        lines += ["", *_sensitive(found.sensitivity, found.chosen)]
    drop = f"Floor: at most {percent(found.max_drop)} lost, decided on one half of {found.data}"
    lines += ["", *wrapped(f"{drop}; figures are of the other half, those of broken ones of the first.")]
    for note in (*common, *found.notes, *_left_out(found.skipped)):
        lines += wrapped(note, "! ")
    for hint in found.hints:
        question, _, command = hint.partition("? ")
        lines += ["", *wrapped(f"{question}?"), f"  {command}"]
    return "\n".join(lines)


def _table(rows: Sequence[VariantRow]) -> str:
    grid = table()
    metric = next((row.known_accuracy.metric for row in rows if row.known_accuracy is not None), "score")
    grid.add_column("variant", no_wrap=True, width=_NAME)
    for title, width in (
        ("size", 7), ("zipped", 7), ("latency", 8), ("±", 5), ("against it", 14), (metric[:6], 6), ("floor", 7)
    ):  # fmt: skip
        grid.add_column(title, justify="left" if title == "floor" else "right", no_wrap=True, width=width)
    for row in rows:
        grid.add_row(*_cells(row))
    return rendered(grid, WIDTH)


def _cells(row: VariantRow) -> list[str]:
    known, latency, against = row.known_accuracy, row.latency, row.against
    return [
        _short(row.recipe),
        size(row.size_bytes) if row.size_bytes else _DASH,
        size(row.zipped_bytes) if row.zipped_bytes else _DASH,
        _DASH if latency is None else milliseconds(latency.estimate),
        _DASH if latency is None else _width(latency.relative_half_width),
        _DASH if against is None else f"{against.verdict.value} {_ratio(against.ratio)}",
        _DASH if known is None else _value(known, known.value),
        _DASH if row.recipe == ORIGINAL else row.floor or _DASH,
    ]


def _about(row: VariantRow, common: Sequence[str]) -> list[str]:
    said = [row.why] if row.why else []
    if row.accuracy is not None:
        said.append(_accuracy(row.accuracy))
    if row.change is not None and row.accuracy is not None:
        low, high = (_signed(row.accuracy, bound) for bound in (row.change.low, row.change.high))
        said.append(f"{_signed(row.accuracy, row.change.difference)} against the original ({low} to {high})")
    if row.is_mix:
        integers = "" if row.integer_share is None else f", {percent(row.integer_share)} of the weights are integers"
        said.append(f"{len(row.float_nodes)} nodes stay float{integers}")
    if row.floor != FAILED:
        said += [note for note in row.notes if note not in common]
    return wrapped(f"{row.recipe}: {'; '.join(said)}") if said else []


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
    what = found.metric if found.kind is Kind.ACCURACY else f"agreement ({found.metric})"
    if found.kind is Kind.UNKNOWN:
        what = f"{UNKNOWN} accuracy, agreement on random inputs ({found.metric})"
    interval = f"{_value(found, found.low)} to {_value(found, found.high)}"
    return f"{what} {_value(found, found.value)} ({interval}) on {found.samples} samples"


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
        lines += wrapped(f"{error:>7}  node {nodes} {entry.op} {entry.location}"[: WIDTH - 2], "  ")
    return lines


def _ratio(value: float) -> str:
    """A ratio in four places."""
    return f"{value:.2f}" if value < _LARGE else f"{value:.0f}"


def _width(share: float) -> str:
    """Half of an interval's width; a dash after a single process, which has none."""
    return _DASH if not math.isfinite(share) else percent(share) if share < 1 else ">99%"


def _is_share(found: Accuracy) -> bool:
    return found.metric.startswith("top-") or found.metric == "miou"


def _value(found: Accuracy, value: float) -> str:
    if not math.isfinite(value):
        return "unknown"
    return f"{value:.1%}" if _is_share(found) else f"{value:.3g}"


def _signed(found: Accuracy, value: float) -> str:
    if not math.isfinite(value):
        return "unknown"
    return f"{value:+.1%}" if _is_share(found) else f"{value:+.3g}"


def _short(name: str) -> str:
    """A name that fits its column; of a mix, the end matters most."""
    name = printable(name)
    return name if len(name) <= _NAME else f"{name[: _NAME - 9]}…{name[-8:]}"
