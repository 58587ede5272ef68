"""A prediction as blocks and as the document that `hasten run --json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy_notes import NOTES
from hasten.core.codec import to_data
from hasten.core.printable import printable
from hasten.core.units import several
from hasten.show.blocks import Cell, Facts, Headline, Note, Notes, Table, cell, columns

if TYPE_CHECKING:
    from hasten.data.dataset import Array
    from hasten.evaluate.prediction import Prediction
    from hasten.show.blocks import Block

_FIRST_VALUES: Final = 8
_SHOWN_VALUES: Final = 4


def view(found: Prediction) -> list[Block]:
    """The most likely class, or what each output holds; then how the model was run."""
    facts = [("model", printable(PurePath(found.model).name)), ("plan", found.plan.describe())]
    facts += [
        (name, text)
        for name, text in (("preprocessing", found.preprocess.replace(",", ", ")), ("saved to", found.saved))
        if text
    ]
    notes = tuple(Note(printable(text)) for text in NOTES.sentences(found.notes))
    return [
        Headline(_answer(found)),
        _classes(found) if found.top else _outputs(found),
        Facts(tuple(facts)),
        *([Notes(notes)] if notes else []),
    ]


def document(found: Prediction) -> dict[str, Any]:
    """The document of `hasten run --json`: large outputs by their first values only."""
    return {
        "model": found.model,
        "plan": to_data(found.plan),
        "outputs": [_output_data(name, values) for name, values in found.outputs.items()],
        "top": [to_data(entry) for entry in found.top],
        "preprocess": found.preprocess,
        "notes": NOTES.sentences(found.notes),
        "output": found.saved or None,
    }


def _answer(found: Prediction) -> str:
    bad = sum(int((~np.isfinite(values)).sum()) for values in found.outputs.values() if values.dtype.kind == "f")
    if bad:
        total = sum(values.size for values in found.outputs.values())
        return f"{bad} of {several(total, 'output value')} {'is' if bad == 1 else 'are'} NaN or infinite."
    if not found.top:
        return f"The model computed {several(len(found.outputs), 'output')}."
    best = found.top[0]
    return f"Most likely: {printable(best.label) or f'class {best.index}'} ({best.value:.4g})."


def _classes(found: Prediction) -> Table:
    names = ("label",) if any(entry.label for entry in found.top) else ()
    rows = tuple(
        (cell(entry.value), cell(entry.index), *(Cell(printable(entry.label)) for _ in names)) for entry in found.top
    )
    return Table("classes", "The most likely classes", columns("#value", "#class", *names), rows)


def _outputs(found: Prediction) -> Table:
    rows = tuple(
        (
            Cell(printable(name), code=True),
            Cell(f"{values.dtype} {'x'.join(map(str, values.shape)) or 'scalar'}"),
            *(cell(_output_data(name, values).get(key)) for key in ("min", "mean", "max")),
            Cell(" ".join(f"{value:.4g}" for value in values.ravel()[:_SHOWN_VALUES].tolist())),
        )
        for name, values in found.outputs.items()
    )
    headings = columns("output", "type", "#min", "#mean", "#max", "first values")
    return Table("outputs", "What each output holds", headings, rows)


def _output_data(name: str, values: Array) -> dict[str, Any]:
    has_range = values.size and values.dtype.kind in "fiub"
    figures: dict[str, float] = (
        {"min": float(values.min()), "max": float(values.max()), "mean": float(values.mean())} if has_range else {}
    )
    if values.dtype.kind == "f":
        figures["non_finite"] = int((~np.isfinite(values)).sum())
    first = values.ravel()[:_FIRST_VALUES].tolist()
    return {"name": name, "type": str(values.dtype), "shape": list(values.shape), **figures, "values": first}
