"""What two models are compared on: a few samples of the user's data, prepared as the original wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy_notes import NOTES
from hasten.core.errors import DataError
from hasten.data.forms import forms_from_graph
from hasten.data.prepare import Preparer
from hasten.data.preprocess import Preprocess
from hasten.model.metadata import read_metadata

if TYPE_CHECKING:
    from hasten.core.plan import Workload
    from hasten.data.dataset import Dataset
    from hasten.model.graph import Graph

_FEWEST_SAMPLES: Final = 4
_MOST_SAMPLES: Final = 32
# What all samples together may touch: they are run several times, and what inner tensors hold is kept.
_MOST_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """For each sample the bytes of each of the original's inputs, and what a reader should know of them."""

    source: str
    samples: tuple[tuple[bytes, ...], ...]
    is_random: bool = False
    notes: tuple[str, ...] = ()
    """What had to be guessed, and what was left out."""


def samples_for(graph: Graph, workload: Workload) -> int:
    """How many samples are looked at: more of a small model, where they take a moment only."""
    if workload.shapes:
        return _FEWEST_SAMPLES  # the file does not tell how large inner tensors become
    inner = sum(
        (tensor.elements or 0) * 4 for part in graph.subgraphs for tensor in part.tensors if not tensor.is_constant
    )
    return max(_FEWEST_SAMPLES, min(_MOST_SAMPLES, _MOST_BYTES // max(1, graph.size_bytes + inner)))


def inputs_from_data(
    graph: Graph, workload: Workload, dataset: Dataset, preprocess: Preprocess = Preprocess(), *, skip_bad: bool = False
) -> GivenInputs:
    """A few samples, drawn at random. One that cannot be used is a DataError, unless such ones are to be left out."""
    preparer = Preparer(forms_from_graph(graph, workload).inputs, preprocess, read_metadata(graph))
    found: list[tuple[bytes, ...]] = []
    bad: list[str] = []
    wanted = samples_for(graph, workload)
    for _, sample in dataset.drawn():
        if len(found) == wanted:
            break
        try:
            found.append(tuple(np.ascontiguousarray(values).tobytes() for values in preparer.prepare(sample)))
        except DataError as error:
            if not skip_bad:
                raise
            bad.append(error.message)
    if not found:
        raise DataError(f"{dataset.source} has no sample that can be used{f': {bad[0]}' if bad else ''}")
    left_out = [f"{len(bad)} bad sample{' was' if len(bad) == 1 else 's were'} left out: {bad[0]}"] if bad else []
    notes = (*NOTES.sentences((*dataset.notes, *preparer.notes)), *left_out)
    return GivenInputs(dataset.source, tuple(found), dataset.is_random, notes)
