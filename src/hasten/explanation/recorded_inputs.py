"""Inputs for a part that was cut out of a model: what the tensors at its border hold when the whole model runs."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.whole_file import write_whole
from hasten.data.tensor_forms import forms_as_loaded, numpy_type
from hasten.explanation.inner_tensors import running_copy
from hasten.measure.seeded_inputs import seeded_inputs
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.plan import Workload
    from hasten.explanation.inner_tensors import Inputs, Subject
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import TensorInfo

_MOST_SAMPLES: Final = 8
_MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class PartFound:
    """A range of nodes as a model of its own, and the inputs that were recorded for it."""

    path: str
    nodes: tuple[int, int]
    inputs: str = ""
    """The file with recorded inputs; empty where there are none."""
    samples: int = 0
    source: str = ""
    """What the whole model ran on."""
    why: str = ""
    """Why no inputs were recorded."""


def write_part(part: PartFound, content: bytes, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a part and its inputs: both, or nothing where one of the files is there or cannot be written."""
    files = {Path(part.path): content}
    if arrays:
        stored = io.BytesIO()
        np.savez(stored, **dict(arrays))  # type: ignore[arg-type]
        files[Path(part.inputs)] = stored.getvalue()
    written: list[Path] = []
    try:
        for path, own in files.items():
            write_whole(path, own, replace=False)
            written.append(path)
    except OSError as error:
        for done in written:
            done.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise UsageError(f"{path} already exists.", "Choose another name.") from None
        raise DataError(f"{path} cannot be written: {error.strerror}.", "Choose another folder.") from error


def workload_of_main(graph: Graph, workload: Workload) -> Workload:
    """The workload with a signature that runs the main graph, which is the one that parts are cut from."""
    keys = [signature.key for signature in graph.signatures if signature.subgraph == 0]
    return replace(workload, signature=keys[0] if keys else "")


def recorded_inputs(
    target: Target, subject: Subject, tensors: Sequence[int], samples: Inputs
) -> dict[str, NDArray[Any]]:
    """What tensors of the main graph hold on each sample, as arrays of a data file: one row for each sample.

    They are called x0, x1, … as a model's inputs in their order are, because a tensor may have any name.
    """
    rows: list[list[NDArray[Any]]] = []
    with contextlib.closing(stored_values(target, subject, tensors, samples)) as found:
        for values in found:
            rows.append([_array(*values[index]) for index in tensors])
            if sum(array.nbytes for row in rows for array in row) > _MOST_BYTES or len(rows) == _MOST_SAMPLES:
                break
    return {f"x{place}": np.stack([row[place] for row in rows]) for place in range(len(tensors))}


def stored_values(
    target: Target, subject: Subject, tensors: Sequence[int], samples: Inputs | None = None
) -> Generator[dict[int, tuple[bytes, TensorInfo]], None, None]:
    """What tensors of the main graph hold on each sample, or once on seeded inputs: as they are stored, by index."""
    graph, workload = subject.graph, subject.candidate.workload
    if subject.subgraph.index:
        raise ModelError(f"The signature {workload.signature!r} of {graph.path.name} does not run its main graph.")
    signature = graph.signature(workload.signature or None)
    own = list(signature.inputs.values() if signature else graph.main.inputs)
    with running_copy(target, subject, [index for index in tensors if index not in graph.main.inputs]) as copy:
        forms = forms_as_loaded(read_graph(copy.path), workload, copy.load)
        for given in [seeded_inputs(copy.load.inputs)] if samples is None else map(forms.fed, samples):
            answers = copy.runner.evaluate(given)
            fed = dict(zip(forms.fed(own), zip(given, copy.load.inputs, strict=True), strict=True))
            # Copied while the runner lives: they may be views of its memory.
            shown = {index: (bytes(answers[at]), copy.load.outputs[at]) for index, at in copy.places.items()}
            yield {index: value for index, value in (fed | shown).items() if index in tensors}


def _array(data: bytes, tensor: TensorInfo) -> NDArray[Any]:
    return np.frombuffer(data, numpy_type(tensor)).reshape(tensor.shape)
