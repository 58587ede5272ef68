"""Builds a model of the catalogue with random weights, whose latency is that of trained ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.errors import DataError, UsageError
from hasten.core.whole_file import write_whole
from hasten.model.build import ModelBuilder
from hasten.model.example_models import scaled_input
from hasten.practices.choose.catalogue.families import FAMILIES
from hasten.practices.choose.facts import PRECISIONS

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.choose.catalogue.entry import Entry


def build(entry: Entry, precision: str, folder: Path) -> Path:
    """Write the model to the folder, under its name and precision, and return its path. The bytes are always the same.

    An int8 model has int8 inputs and outputs, and a scale for each channel of its weights.
    """
    path = folder / f"{entry.name}_{precision}.tflite"
    content = model_bytes(entry, precision)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.", "Choose another folder.") from None
    return path


def model_bytes(entry: Entry, precision: str) -> bytes:
    """The file of a model with random weights."""
    if precision not in PRECISIONS:
        raise UsageError(f"No model can be built in {precision!r}.", f"Choose {' or '.join(PRECISIONS)}.")
    if not entry.family:
        raise UsageError(
            f"The catalogue has no architecture for {entry.name}.",
            f"Download its trained weights: hasten choose --get {entry.name}",
        )
    g = ModelBuilder(description=f"hasten: {entry.name}, random weights")
    x = scaled_input(g, entry.shape, precision, "input")
    for name, value in FAMILIES[entry.family](g, x, entry.settings).items():
        g.output(value, name)
    return g.build()
