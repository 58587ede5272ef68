"""A variant that leaves those nodes float which integers make slower, by what the profiles of both models show."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.quantization import BUT, FAILED, KEPT, SIZE, SLOW, VariantRow
from hasten.core.units import several
from hasten.explain.inner_tensors import Subject
from hasten.explain.node_gains import Gains, measure_gains
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.variants.io_types import FLOAT_IO
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.practices.quantize.run import QuantizePractice

_SHARE: Final = 0.7
_MOST_NAMED: Final = 3


def leave_slow_nodes(practice: QuantizePractice) -> None:
    """Try the best static int8 variant once more, without the nodes that lost by it. It is faster, and larger: who asks
    for size does not want it."""
    if practice.settings.goal == SIZE:
        return
    row = subject_of(practice.rows)
    # One that was reported on has been through all of this in an earlier run.
    if row is None or row.accuracy is not None:
        return
    if any(other.recipe.startswith(f"{row.recipe}{BUT}{SLOW}") for other in practice.rows):
        return
    gains = gains_of(practice, row)
    if gains is None or not gains.losses or set(gains.losses) >= set(row.nodes):
        return
    name = f"{row.recipe}{BUT}{SLOW}{len(gains.losses)}"
    tried = practice.judge(name, recipe_from_name(row.recipe), float_nodes=gains.losses, share=_SHARE)
    if tried.floor != FAILED:
        practice.folder.save(replace(tried, notes=(*tried.notes, _note(gains))))
        practice.time_all(_SHARE)


def subject_of(rows: Sequence[VariantRow]) -> VariantRow | None:
    """The static int8 variant to improve on: one that keeps the floor if there is one, then the fastest, and among
    equals the one that loses least."""
    known = [
        row
        for row in rows
        if row.recipe in RECIPE_NAMES and recipe_from_name(row.recipe).activations == "int8" and row.path
    ]
    timed = [row for row in known if row.against is not None and row.floor != FAILED]
    return min(timed, key=_preference, default=None)


def gains_of(practice: QuantizePractice, row: VariantRow) -> Gains | None:
    """What each node gains by a recipe; measured once for each."""
    if row.recipe not in practice.gains:
        practice.tell(_SHARE, f"profiling {row.recipe} beside the original")
        original = Subject(practice.candidate, practice.graph)
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
            path = _with_float_border(practice, row, Path(folder))
            variant = Subject(practice.candidate_of(replace(row, path=str(path))), read_graph(path))
            practice.gains[row.recipe] = measure_gains(practice.target, original, variant, no_progress)
    return practice.gains[row.recipe]


def _with_float_border(practice: QuantizePractice, row: VariantRow, folder: Path) -> Path:
    """The row's file, or one that differs from it in inputs and outputs only: what conversions between nodes would cost
    is seen from those at the border, and a variant that takes and gives integers has none."""
    if practice.settings.io_types.is_float:
        return Path(row.path)
    path = folder / "float_border.tflite"
    practice.maker.make(row.base_recipe, path, practice.calibration(), but=row.float_nodes or None, io_types=FLOAT_IO)
    return path


def _preference(row: VariantRow) -> tuple[bool, float, float]:
    assert row.against is not None
    return row.floor != KEPT, round(row.against.ratio, 1), row.drop or 0.0


def _note(gains: Gains) -> str:
    lost = sorted((gains.nodes[node] for node in gains.losses), key=lambda gain: gain.saved_ms)
    kinds = list(dict.fromkeys(f"{gain.op} ({gain.kernel_after})" for gain in lost))
    more = f" and {len(kinds) - _MOST_NAMED} more kinds" if len(kinds) > _MOST_NAMED else ""
    total = -sum(gain.saved_ms for gain in lost)
    named = ", ".join(kinds[:_MOST_NAMED])
    return f"left float, as integers were {total:.2g} ms slower here: {several(len(lost), 'node')}, {named}{more}"
