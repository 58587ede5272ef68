"""What a model wants in an input or gives in an output: shape, type and quantization; real values to bytes and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np

from hasten.bundle.record import BundleTensor
from hasten.core.errors import DataError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.plan import Workload
    from hasten.data.dataset import Array
    from hasten.model.graph import Graph, Tensor

T = TypeVar("T")

_NUMPY_TYPES: Final = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)


@dataclass(frozen=True, slots=True)
class TensorForm:
    """One input or output. real = (stored - zero_point) x scale; a scale of 0 means that stored values are real."""

    name: str
    tensor_name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0

    @property
    def is_quantized(self) -> bool:
        """Whether stored values stand for others."""
        return self.scale != 0

    @property
    def is_float(self) -> bool:
        """Whether values are stored as reals."""
        return "float" in self.dtype

    @property
    def elements(self) -> int:
        """How many values there are."""
        return prod(self.shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample: without the batch, which must be 1."""
        return self.shape[1:] if len(self.shape) > 1 and self.shape[0] == 1 else self.shape


@dataclass(frozen=True, slots=True)
class ModelForms:
    """The inputs and outputs of a model, or of one of its signatures."""

    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]

    def in_effect(
        self, inputs: Iterable[tuple[str, tuple[int, ...]]], outputs: Iterable[tuple[str, tuple[int, ...]]]
    ) -> LoadedForms:
        """The forms with the shapes that the engine gives them, and the engine's order, by its names and shapes."""
        (takes, places_in), (gives, places_out) = (
            _loaded(forms, list(wanted)) for forms, wanted in ((self.inputs, inputs), (self.outputs, outputs))
        )
        return LoadedForms(takes, gives, tuple(places_in.index(at) for at in range(len(places_in))), places_out)


@dataclass(frozen=True, slots=True)
class LoadedForms(ModelForms):
    """The forms of a model that an engine has loaded.

    They keep the file's order, so that the first input and the first output are the same ones everywhere. The engine
    may have another: what goes to it, and what comes from it, is turned here.
    """

    fed_from: tuple[int, ...]
    """For each input of the engine, in its order, the place among ours."""
    read_from: tuple[int, ...]
    """For each of our outputs, the place among the engine's."""

    @property
    def in_engine_order(self) -> ModelForms:
        """The same as the engine lists them."""
        outputs = sorted(zip(self.read_from, self.outputs, strict=True), key=lambda entry: entry[0])
        return ModelForms(tuple(self.fed(self.inputs)), tuple(form for _, form in outputs))

    def fed(self, values: Sequence[T]) -> list[T]:
        """What the inputs take, in the engine's order."""
        return [values[place] for place in self.fed_from]

    def read(self, answers: Sequence[T]) -> list[T]:
        """What the engine answers, in our order."""
        return [answers[place] for place in self.read_from]


def forms_from_graph(graph: Graph, workload: Workload) -> ModelForms:
    """The forms of the workload's signature; of the main graph in a file without signatures."""
    signature = graph.signature(workload.signature or None)
    if signature is None:
        inputs = [(tensor.name, tensor) for tensor in graph.inputs]
        outputs = [(tensor.name, tensor) for tensor in graph.outputs]
    else:
        tensors = graph.subgraphs[signature.subgraph].tensors
        inputs = [(name, tensors[index]) for name, index in signature.inputs.items()]
        outputs = [(name, tensors[index]) for name, index in signature.outputs.items()]
    shapes: Mapping[str, tuple[int, ...]] = dict(workload.shapes)
    return ModelForms(
        tuple(form_from_tensor(name, tensor, shapes.get(name) or shapes.get(tensor.name)) for name, tensor in inputs),
        tuple(form_from_tensor(name, tensor) for name, tensor in outputs),
    )


class _LoadedTensor(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class _Load(Protocol):
    """What a runner reports of a model that it has loaded."""

    @property
    def inputs(self) -> Sequence[_LoadedTensor]: ...
    @property
    def outputs(self) -> Sequence[_LoadedTensor]: ...


def forms_as_loaded(graph: Graph, workload: Workload, load: _Load) -> LoadedForms:
    """The forms with the engine's shapes and in its order, as a runner has loaded the model."""
    return forms_from_graph(graph, workload).in_effect(
        [(tensor.name, tensor.shape) for tensor in load.inputs],
        [(tensor.name, tensor.shape) for tensor in load.outputs],
    )


def bundle_tensors(
    graph: Graph, workload: Workload, load: _Load
) -> tuple[tuple[BundleTensor, ...], tuple[BundleTensor, ...]]:
    """The inputs and outputs as a bundle lists them: names, shapes and order from the engine, scales from the file."""
    forms = forms_as_loaded(graph, workload, load).in_engine_order
    return _bundle_tensors(forms.inputs), _bundle_tensors(forms.outputs)


def _bundle_tensors(forms: Sequence[TensorForm]) -> tuple[BundleTensor, ...]:
    return tuple(BundleTensor(form.name, form.dtype, form.shape, form.scale, form.zero_point) for form in forms)


def stored_from_real(values: Array, form: TensorForm, name: str) -> Array:
    """Real values as the model stores them. Those beyond a quantized range are clipped."""
    if form.is_quantized:
        limits = np.iinfo(form.dtype)
        return np.clip(np.rint(values / form.scale + form.zero_point), limits.min, limits.max).astype(form.dtype)
    if form.is_float or form.dtype == "bool":
        return values.astype(numpy_type(form))
    whole = np.rint(values)
    limits = np.iinfo(numpy_type(form))
    if whole.size and (not np.array_equal(whole, values) or whole.min() < limits.min or whole.max() > limits.max):
        raise DataError(
            f"{name}: input {form.name!r} takes integers from {limits.min} to {limits.max} and has no scale to "
            "convert other values.",
            "Give values as the model takes them.",
        )
    return whole.astype(numpy_type(form))


def real_from_bytes(data: bytes | memoryview, form: TensorForm) -> Array:
    """An output as real values, in its shape."""
    if form.dtype == "bfloat16":
        wide = np.frombuffer(data, dtype=np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(form.shape)
    values: Array = np.frombuffer(data, dtype=numpy_type(form))
    # An output whose size changes with the data comes as it is.
    values = values.reshape(form.shape) if values.size == form.elements else values
    if form.is_quantized:
        return np.asarray((values.astype(np.float32) - np.float32(form.zero_point)) * np.float32(form.scale))
    return values


def held(values: Array, form: TensorForm) -> Array:
    """Real values as a form holds them: rounded and clipped to its type."""
    return real_from_bytes(stored_from_real(values, form, form.name).tobytes(), form)


def numpy_type(form: TensorForm | _LoadedTensor) -> np.dtype[Any]:
    """The type of stored values."""
    if form.dtype not in _NUMPY_TYPES:
        raise ModelError(
            f"{form.name!r} holds values of type {form.dtype}, which hasten cannot make from data.",
            "Time the model with hasten bench, which needs no data.",
        )
    return np.dtype(form.dtype)


def form_from_tensor(name: str, tensor: Tensor, wanted: tuple[int, ...] | None = None) -> TensorForm:
    """The form of a tensor, with the shape that is wanted in place of its own."""
    quantization = tensor.quantization
    shape = wanted or tuple(max(size, 1) for size in tensor.shape)
    if quantization is None or quantization.per_channel or not quantization.scales or tensor.dtype.startswith("float"):
        return TensorForm(name, tensor.name, shape, tensor.dtype)
    return TensorForm(name, tensor.name, shape, tensor.dtype, quantization.scales[0], (*quantization.zero_points, 0)[0])


def _loaded(
    forms: tuple[TensorForm, ...], wanted: list[tuple[str, tuple[int, ...]]]
) -> tuple[tuple[TensorForm, ...], tuple[int, ...]]:
    """The forms that the engine names, with its shapes; and for each of them its place in the engine's order."""
    places = {form.tensor_name: place for place, form in enumerate(forms)}
    places |= {form.name: place for place, form in enumerate(forms)}
    if all(name in places for name, _ in wanted):
        chosen = [places[name] for name, _ in wanted]
    elif len(wanted) == len(forms):
        chosen = list(range(len(forms)))
    else:
        raise ModelError("The engine reports other inputs and outputs than the model file lists.")
    order = tuple(sorted(range(len(wanted)), key=lambda at: chosen[at]))
    return tuple(replace(forms[chosen[at]], shape=wanted[at][1]) for at in order), order
