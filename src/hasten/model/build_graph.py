"""Drawing one subgraph: values, constants, inputs and outputs, and the one way to add an operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import ELEMENT_TYPES, OperatorRecord, Quantization, SubgraphRecord, TensorRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

INT8_MIN, INT8_MAX = -128, 127
# Normal values beyond four standard deviations are rare enough to be clipped.
RANGE_IN_RMS = 4.0


@dataclass(frozen=True, slots=True)
class Spec:
    """What a tensor is, before it has a place in a graph.

    `rms` is the root mean square expected of the real values when inputs have their own expected one: weights and
    quantization ranges are chosen by it, so that deep stacks neither vanish nor saturate.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    quantization: Quantization | None = None
    dynamic_batch: bool = False
    rms: float = 1.0


@dataclass(frozen=True, slots=True)
class Value(Spec):
    """A tensor in a graph that is being drawn; operators take and return values."""

    index: int = -1
    subgraph: int = -1


def signed_range(rms: float) -> Quantization:
    """Return the int8 quantization of values around zero."""
    return Quantization((RANGE_IN_RMS * rms / INT8_MAX,))


def positive_range(largest: float) -> Quantization:
    """Return the int8 quantization of values from zero to `largest`."""
    return Quantization((largest / (INT8_MAX - INT8_MIN),), (INT8_MIN,))


class GraphBuilder:
    """One subgraph while it is drawn."""

    def __init__(self, record: SubgraphRecord, random: np.random.Generator) -> None:
        self._record = record
        self._random = random

    @property
    def index(self) -> int:
        """Where the subgraph stands in the file, as control flow operators refer to it."""
        return self._record.index

    def input(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        scale: float | None = None,
        zero_point: int = 0,
    ) -> Value:
        """Add an input; a batch of -1 is dynamic; int8 without a scale is not quantized but plain integers."""
        if any(size < 0 for size in shape[1:]):
            raise UsageError(
                f"Input {name!r} has shape {tuple(shape)}.", "Only the first dimension may be dynamic (-1)."
            )
        is_dynamic = bool(shape) and shape[0] == -1
        concrete = (1, *shape[1:]) if is_dynamic else tuple(shape)
        spec = Spec(concrete, dtype, None, is_dynamic)
        if scale is not None:
            # As in `signed_range`: a float32 and an int8 model of one seed are then the same network.
            rms = scale * INT8_MAX / RANGE_IN_RMS
            spec = Spec(concrete, dtype, Quantization((scale,), (zero_point,)), is_dynamic, rms)
        value = self._value(spec, name)
        self._record.inputs.append((name, value.index))
        return value

    def constant(self, data: Array, quantization: Quantization | None = None, *, name: str = "") -> Value:
        """Add a constant that holds `data` as it is; quantized data must be given quantized."""
        spec = Spec(data.shape, str(data.dtype), quantization)
        return self._value(spec, name or f"constant_{len(self._record.tensors)}", data)

    def output(self, value: Value, name: str | None = None) -> None:
        """Make a value an output, by `name` in the signature."""
        self._check_ours([value])
        self._record.outputs.append((name or self._record.tensors[value.index].name, value.index))

    def operator(
        self,
        code: str,
        inputs: Sequence[Value],
        outputs: Sequence[Spec],
        *,
        version: int = 1,
        options_type: str = "",
        **options: Any,
    ) -> tuple[Value, ...]:
        """Add any builtin operator by its name in the schema; the caller vouches for the outputs' shapes."""
        record = OperatorRecord(code, (), (), version, options_type, options)
        return self._add(record, inputs, outputs)

    def _add(self, record: OperatorRecord, inputs: Sequence[Value], outputs: Sequence[Spec]) -> tuple[Value, ...]:
        self._check_ours(inputs)
        stem = f"{record.code.lower()}_{len(self._record.operators)}"
        names = [stem if len(outputs) == 1 else f"{stem}:{position}" for position in range(len(outputs))]
        values = tuple(self._value(spec, name) for spec, name in zip(outputs, names, strict=True))
        input_indices = tuple(value.index for value in inputs)
        output_indices = tuple(value.index for value in values)
        self._record.operators.append(replace(record, inputs=input_indices, outputs=output_indices))
        return values

    def _value(self, spec: Spec, name: str, data: Array | None = None) -> Value:
        if spec.dtype not in ELEMENT_TYPES:
            raise UsageError(f"There is no element type {spec.dtype!r}.", f"Choose among {', '.join(ELEMENT_TYPES)}.")
        raw = None if data is None else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._record.tensors.append(
            TensorRecord(name, spec.shape, spec.dtype, spec.quantization, spec.dynamic_batch, raw)
        )
        index = len(self._record.tensors) - 1
        return Value(spec.shape, spec.dtype, spec.quantization, spec.dynamic_batch, spec.rms, index, self._record.index)

    def _check_ours(self, values: Sequence[Value]) -> None:
        if any(value.subgraph != self._record.index for value in values):
            raise UsageError(
                f"Subgraph {self._record.name!r} uses a value of another one.",
                "Pass it through the inputs and outputs of the subgraphs.",
            )
