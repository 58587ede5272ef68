"""The values of a model's inner tensors on given inputs: read from copies of it, through runners, some at a time."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.failure import RunnerFailed
from hasten.core.remark import Remark, remark, said
from hasten.data.tensor_forms import TensorForm, forms_from_graph, real_from_bytes
from hasten.explanation.tensor_errors import ErrorMeter
from hasten.model.edit.outputs import shown_names, with_outputs
from hasten.model.graph import BITS_OF_DTYPE, FLOAT_DTYPES
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hasten.explanation.tensor_errors import Reals
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph, Subgraph, Tensor
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient

    Inputs = Sequence[Sequence[bytes]]
    """For each sample the bytes of each input."""

_MOST_TENSORS_A_COPY: Final = 64
_MOST_BYTES_A_COPY: Final = 64 * 2**20
# Copies that the engine refuses are split to find the tensor at fault; a model that refuses them all ends it.
_MOST_FAILURES: Final = 12
CLASSIC: Final = "Interpreter"
"""The interface that has the order of the file, and no names of signatures."""
_READABLE_FLOATS: Final = FLOAT_DTYPES - {"float8_e4m3fn", "float8_e5m2"}
_READABLE_INTEGERS: Final = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to look into: how to run it, and its graph."""

    candidate: Candidate
    graph: Graph

    @property
    def subgraph(self) -> Subgraph:
        """The graph that the workload's signature runs."""
        signature = self.graph.signature(self.candidate.workload.signature or None)
        return self.graph.subgraphs[signature.subgraph] if signature else self.graph.main


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """A copy of a model that shows inner tensors, in a runner."""

    runner: RunnerClient
    load: LoadReport
    path: Path
    places: dict[int, int]
    """Where its outputs have the tensors, by index; those that the engine does not show are missing."""


@contextlib.contextmanager
def running_copy(target: Target, subject: Subject, tensors: Sequence[int]) -> Iterator[RunningCopy]:
    """Run the model with these tensors as further outputs."""
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        copy = Path(folder) / "copy.tflite"
        copy.write_bytes(with_outputs(subject.graph, tensors, subject.subgraph.index))
        with target.start(subject.candidate.plan) as runner:
            load = runner.load(copy, subject.candidate.workload)
            yield RunningCopy(runner, load, copy, _places(subject, load, tensors))


def _places(subject: Subject, load: LoadReport, tensors: Sequence[int]) -> dict[int, int]:
    """The classic interface has no names of signatures, but the order of the file."""
    if load.api == CLASSIC:
        order = list(dict.fromkeys([*subject.subgraph.outputs, *tensors]))
        return {index: order.index(index) for index in tensors}
    at = {tensor.name: place for place, tensor in enumerate(load.outputs)}
    names = shown_names(subject.graph, tensors, subject.subgraph.index, subject.candidate.workload.signature or None)
    return {index: at[name] for index, name in names.items() if name in at}


@dataclass(slots=True)
class InnerTensors:
    """Reads tensors of one model; what cannot be read is kept with the reason."""

    target: Target
    subject: Subject
    expected: dict[str, Reals] = field(default_factory=dict)
    """Outputs of the model as it is, by name: copies of it should still have them."""
    unread: dict[int, Remark] = field(default_factory=dict)
    disturbance: ErrorMeter = field(default_factory=ErrorMeter)
    """How far the copies' own outputs are off from those of the model as it is."""
    _failures: int = 0

    def read(self, tensors: Sequence[int], inputs: Inputs) -> dict[int, Reals]:
        """The real values of these tensors on each sample. Tensors that resist are left out, and noted in `unread`.

        A model that cannot be copied at all is a ModelError.
        """
        found: dict[int, Reals] = {}
        for batch in self._batches(tensors):
            found.update(self._read_batch(batch, inputs))
        return found

    def _batches(self, tensors: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        room = _MOST_BYTES_A_COPY
        for index in tensors:
            tensor = self.subject.subgraph.tensors[index]
            size = (tensor.elements or 0) * BITS_OF_DTYPE.get(tensor.dtype, 8) // 8
            if batch and (len(batch) == _MOST_TENSORS_A_COPY or size > room):
                yield batch
                batch, room = [], _MOST_BYTES_A_COPY
            batch.append(index)
            room -= size
        if batch:
            yield batch

    def _read_batch(self, batch: list[int], inputs: Inputs) -> dict[int, Reals]:
        if self._failures >= _MOST_FAILURES:
            self.unread.update(dict.fromkeys(batch, remark("explain.many-refusals")))
            return {}
        try:
            return with_connection(lambda: self._run_copy(batch, inputs))
        except RunnerFailed as failed:
            self._failures += 1
            if len(batch) == 1:
                self.unread[batch[0]] = said(failed.failure.message)
                return {}
        middle = len(batch) // 2
        halves = (self._read_batch(half, inputs) for half in (batch[:middle], batch[middle:]))
        return {index: values for half in halves for index, values in half.items()}

    def _run_copy(self, batch: list[int], inputs: Inputs) -> dict[int, Reals]:
        found: dict[int, Reals] = {index: [] for index in batch}
        with running_copy(self.target, self.subject, batch) as copy:
            own = self._own_outputs(copy.load)
            for number, sample in enumerate(inputs):
                answers = copy.runner.evaluate(sample)
                for index, place in copy.places.items():
                    tensor = replace(self.subject.subgraph.tensors[index], shape=copy.load.outputs[place].shape)
                    found[index].append(real_values(answers[place], tensor))
                for place, form in own.items():
                    self.disturbance.add(self.expected[form.name][number], real_from_bytes(answers[place], form))
        self.unread.update({index: remark("explain.not-shown") for index in batch if index not in copy.places})
        return {index: values for index, values in found.items() if index in copy.places}

    def _own_outputs(self, load: LoadReport) -> dict[int, TensorForm]:
        """The outputs that the model has itself, by their place among those of a copy."""
        outputs = forms_from_graph(self.subject.graph, self.subject.candidate.workload).outputs
        forms = {name: form for form in outputs for name in (form.tensor_name, form.name)}
        return {
            place: replace(forms[tensor.name], shape=tensor.shape)
            for place, tensor in enumerate(load.outputs)
            if tensor.name in forms and forms[tensor.name].name in self.expected
        }


def is_comparable(tensor: Tensor) -> bool:
    """Whether it holds reals, plain or quantized, of a size that is known: indices and texts have no error in dB."""
    if tensor.is_constant or tensor.is_variable or not tensor.elements:
        return False
    return tensor.dtype in _READABLE_FLOATS or (
        tensor.quantization is not None and tensor.dtype in ("int8", "uint8", "int16")
    )


def is_readable(tensor: Tensor) -> bool:
    """Whether its values can be read and fed: those that are comparable, and plain integers and truth values too."""
    if is_comparable(tensor):
        return True
    return tensor.dtype in _READABLE_INTEGERS and not (tensor.is_constant or tensor.is_variable or not tensor.elements)


def real_values(data: bytes | memoryview, tensor: Tensor) -> NDArray[Any]:
    """A tensor's bytes as real numbers; scales for each channel are applied along their dimension."""
    quantization = tensor.quantization
    plain = TensorForm(tensor.name, tensor.name, tensor.shape, tensor.dtype)
    if quantization is None or tensor.dtype in FLOAT_DTYPES:
        return real_from_bytes(data, plain)
    if not quantization.per_channel:
        points = quantization.zero_points or (0,)
        return real_from_bytes(data, replace(plain, scale=quantization.scales[0], zero_point=points[0]))
    return dequantized(real_from_bytes(data, plain), tensor)


def dequantized(stored: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Values as they are stored, as real numbers."""
    quantization = tensor.quantization
    real = stored.astype(np.float64)
    if quantization is None or tensor.dtype in FLOAT_DTYPES:
        return real
    shape = [1] * real.ndim
    if quantization.per_channel:
        shape[quantization.dimension] = -1
    scales, points = (
        np.asarray(values, dtype=np.float64).reshape(shape if len(values) > 1 else [1] * real.ndim)
        for values in (quantization.scales, quantization.zero_points or (0,))
    )
    return np.asarray((real - points) * scales)
