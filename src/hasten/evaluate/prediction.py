"""One prediction: a model run once, in a process of its own, on an input that the user gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.core.failure import Failure, RunnerFailed
from hasten.data import audio, images
from hasten.data.arrays import ARRAY_ERRORS
from hasten.data.classes import packed_labels
from hasten.data.dataset import Sample
from hasten.data.prepare import Preparer
from hasten.data.tensor_forms import forms_as_loaded, real_from_bytes
from hasten.model.metadata import read_metadata
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.data.dataset import Array, Inputs
    from hasten.data.preprocess import Preprocess
    from hasten.data.tensor_forms import LoadedForms
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.targets.base import Target

TOP: Final = 5
_HINT: Final = "Name a .npy file (one input), a .npz file with an array for each input, an image or a WAV file."


@dataclass(frozen=True, slots=True)
class TopClass:
    """One of the most likely classes: its place in the output, its name if it has one, and its value."""

    index: int
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outputs of a model for one input."""

    model: str
    plan: Plan
    outputs: dict[str, Array]
    """Real values by the names of the outputs; quantized ones are converted back."""
    top: tuple[TopClass, ...]
    preprocess: str
    notes: tuple[Remark, ...]
    saved: str = ""
    """The file that holds all of the outputs; empty for none."""


def predict(
    target: Target,
    candidate: Candidate,
    graph: Graph,
    source: Path,
    preprocess: Preprocess,
    labels: Sequence[str] = (),
    label_offset: int = 0,
) -> Prediction | Failure:
    """Run the model once on what a file holds."""
    sample = Sample(str(source), _inputs(source))

    def run() -> tuple[LoadedForms, Preparer, list[bytes | memoryview]]:
        with target.start(candidate.plan) as runner:
            load = runner.load(candidate.path, candidate.workload)
            forms = forms_as_loaded(graph, candidate.workload, load)
            preparer = Preparer(forms.inputs, preprocess, read_metadata(graph))
            answers = runner.evaluate([array.data for array in forms.fed(preparer.prepare(sample))])
            return forms, preparer, forms.read(answers)

    try:
        forms, preparer, answers = with_connection(run)
    except RunnerFailed as failed:
        return failed.failure
    outputs = {
        form.name: real_from_bytes(answer, form).copy() for form, answer in zip(forms.outputs, answers, strict=True)
    }
    if not labels:
        labels, label_offset = packed_labels(graph), 0
    return Prediction(
        candidate.model.path,
        candidate.plan,
        outputs,
        _top(outputs, labels, label_offset),
        preparer.preprocess[0].describe() if preparer.preprocess else "",
        preparer.notes,
    )


def _inputs(source: Path) -> Inputs:
    suffix = source.suffix.lower()
    if not source.is_file():
        raise DataError(f"The input file {source} does not exist.", _HINT)
    if suffix in images.SUFFIXES | audio.SUFFIXES:
        return (source,)
    if suffix not in (".npy", ".npz"):
        raise DataError(f"hasten cannot read {source} as an input.", _HINT)
    try:
        found = np.load(source, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return (found,)
        with found:
            arrays = {name: found[name] for name in found.files}
        return tuple(arrays.values()) if len(arrays) == 1 else arrays  # one alone needs no name
    except ARRAY_ERRORS as error:
        raise DataError(f"{source} cannot be read as arrays: {error}.", _HINT) from None


def _top(outputs: dict[str, Array], labels: Sequence[str], offset: int) -> tuple[TopClass, ...]:
    """The most likely classes, where the only output is a row of scores."""
    values = next(iter(outputs.values())) if len(outputs) == 1 else np.empty(0)
    if values.ndim != 2 or values.shape[0] != 1 or values.shape[1] < 2 or values.dtype.kind != "f":
        return ()
    row = values[0]
    if not np.isfinite(row).all():
        return ()  # among values that are no numbers, none is the most likely
    order = np.argsort(-row, kind="stable")[:TOP].tolist()
    return tuple(TopClass(index, _label(labels, index - offset), float(row[index])) for index in order)


def _label(labels: Sequence[str], number: int) -> str:
    return labels[number] if 0 <= number < len(labels) else ""
