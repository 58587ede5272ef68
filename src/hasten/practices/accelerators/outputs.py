"""Are an accelerator's numbers right? The same inputs for all, and outputs against the reference kernels'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.data.forms import forms_from_graph
from hasten.data.prepare import Preparer
from hasten.model.metadata import read_metadata
from hasten.practices.accelerators.facts import NO_NUMBERS, OutputError, beside_the_cpu, output_error, worst_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.plan import Workload
    from hasten.data.dataset import Dataset
    from hasten.data.preprocess import Preprocess
    from hasten.model.graph import Graph
    from hasten.targets.client import TensorInfo

    Outputs = Sequence[Sequence[NDArray[np.float64]]]
    MakeInputs = Callable[[Sequence[TensorInfo]], list[list[bytes]]]

_INPUTS_CHECKED: Final = 3
_SAMPLES_CHECKED: Final = 8
_TRUTHS: Final = ("reference", "builtin", "xnnpack")
"""Whose outputs count as right: the first of these that runs."""
# Their outputs jump where their inputs only move: on noise, another rounding is another choice.
_CHOOSING: Final = ("ARG_MAX", "ARG_MIN", "TOPK_V2", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "CUSTOM")


def make_inputs(tensors: Sequence[TensorInfo]) -> list[list[bytes]]:
    """Seeded inputs, the same for all: floats in 0..1, bytes over their range, indices and flags 0 or 1."""
    source = np.random.default_rng(0)
    return [[_input_bytes(tensor, source) for tensor in tensors] for _ in range(_INPUTS_CHECKED)]


def inputs_from_data(graph: Graph, workload: Workload, dataset: Dataset, preprocess: Preprocess) -> MakeInputs:
    """Real inputs, the same for all: samples drawn from the data, prepared as the model wants them."""

    def make(tensors: Sequence[TensorInfo]) -> list[list[bytes]]:
        forms = forms_from_graph(graph, workload).in_effect([(item.name, item.shape) for item in tensors], ())
        preparer = Preparer(forms.inputs, preprocess, read_metadata(graph))
        prepared = [forms.fed(preparer.prepare(sample)) for _, sample in dataset.drawn(_SAMPLES_CHECKED, seed=0)]
        return [[np.ascontiguousarray(array).tobytes() for array in arrays] for arrays in prepared]

    return make


def real_numbers(data: bytes | memoryview, info: TensorInfo) -> NDArray[np.float64]:
    """An output as numbers, stored units. Types that NumPy lacks are compared byte by byte."""
    try:
        dtype = np.dtype(info.dtype)
    except TypeError:
        dtype = np.dtype(np.uint8)
    values = np.frombuffer(data, dtype=dtype)
    return (np.abs(values) if values.dtype.kind == "c" else values).astype(np.float64)


def output_errors(
    graph: Graph, outputs: Mapping[str, Outputs], tensors: Sequence[TensorInfo]
) -> dict[str, OutputError]:
    """The error of each, by name: against the reference kernels, or the next best where those cannot run the model."""
    truth = next((outputs[name] for name in _TRUTHS if name in outputs), None)
    if truth is None:
        return {}
    steps = [1.0 if tensor.dtype in ("int8", "uint8", "int16") else 0.0 for tensor in tensors]
    errors = {
        name: worst_of([_error(expected, got, steps) for expected, got in zip(truth, found, strict=True)])
        for name, found in outputs.items()
    }
    if not chooses(graph):
        return errors
    cpu_typical = max(errors[name].typical for name in _TRUTHS if name in errors)
    return {name: beside_the_cpu(error, cpu_typical) for name, error in errors.items()}


def chooses(graph: Graph) -> bool:
    """Whether some of the model's outputs may be choices."""
    return any(node.op in _CHOOSING for node in graph.main.nodes)


def _error(
    expected: Sequence[NDArray[np.float64]], got: Sequence[NDArray[np.float64]], steps: Sequence[float]
) -> OutputError:
    if len(expected) != len(got) or len(expected) != len(steps):
        return NO_NUMBERS
    return output_error(expected, got, steps)


def _input_bytes(tensor: TensorInfo, source: np.random.Generator) -> bytes:
    if tensor.dtype in ("float32", "float64", "float16"):
        return source.random(tensor.shape).astype(tensor.dtype).tobytes()
    if tensor.dtype in ("int8", "uint8"):
        return source.bytes(tensor.bytes)
    if tensor.dtype in ("int16", "int32", "int64", "bool", "uint16", "uint32", "uint64"):
        return source.integers(0, 2, tensor.shape).astype(tensor.dtype).tobytes()
    return bytes(tensor.bytes)
