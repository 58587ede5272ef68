"""The builder of small .tflite models: synthetic load that measures a machine's peaks and compares its back ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import Quantization, SubgraphRecord, model_bytes
from hasten.model.build_graph import Spec, Value, signed_range
from hasten.model.build_layers import LayerBuilder, activated_range, activation_code

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_SIGNATURE = "serving_default"
# LOGISTIC and SOFTMAX in int8 are defined with this output quantization only.
PROBABILITY = Quantization((1 / 256,), (-128,))
# Averaging takes values of random sign towards zero; half is between none of that and all of it.
RMS_LEFT_BY_MEAN = 0.5
# Int8 came with the second version of every operator here, but for those that had it from the start.
INT8_VERSION = 2
INT8_FROM_THE_START = frozenset({"HARD_SWISH", "RESHAPE"})


class OperatorBuilder(LayerBuilder):
    """Adds operators without weights to a graph."""

    def add(self, a: Value, b: Value, *, activation: str | None = None) -> Value:
        """Add with broadcasting."""
        return self._binary("ADD", "AddOptions", a, b, float(np.hypot(a.rms, b.rms)), activation)

    def mean(self, x: Value, axes: Sequence[int] = (1, 2), *, keep_dims: bool = False) -> Value:
        """Take the mean over `axes`."""
        gone = {axis % len(x.shape) for axis in axes}
        sizes = [1 if axis in gone else size for axis, size in enumerate(x.shape) if keep_dims or axis not in gone]
        rms = x.rms * RMS_LEFT_BY_MEAN
        quantization = None if x.quantization is None else signed_range(rms)
        spec = Spec(tuple(sizes), x.dtype, quantization, x.dynamic_batch and 0 not in gone, rms)
        inputs = [x, self._indices(axes)]
        return self._one("MEAN", inputs, spec, "ReducerOptions", keepDims=keep_dims)

    def softmax(self, x: Value) -> Value:
        """Turn the last dimension into probabilities."""
        return self._unary("SOFTMAX", x, PROBABILITY, 1 / x.shape[-1], options_type="SoftmaxOptions", beta=1.0)

    def _indices(self, values: Sequence[int]) -> Value:
        return self.constant(np.array(values, dtype=np.int32))

    def _binary(self, code: str, options_type: str, a: Value, b: Value, rms: float, activation: str | None) -> Value:
        if a.dtype != b.dtype:
            raise UsageError(
                f"{code} takes one element type, not {a.dtype} and {b.dtype}.", "Use cast() on one of them."
            )
        if code != "MUL" and a.dtype in {"int8", "uint8"} and a.quantization is None:
            # LiteRT 2.3.0 aborts the whole process on such a model.
            raise UsageError(f"{code} of plain {a.dtype} has no kernel.", "Give the inputs a scale.")
        quantization = None if a.quantization is None else activated_range(rms, activation)
        shape = np.broadcast_shapes(a.shape, b.shape)
        spec = Spec(shape, a.dtype, quantization, a.dynamic_batch or b.dynamic_batch, rms)
        fused = activation_code(activation)
        return self._one(code, [a, b], spec, options_type, fusedActivationFunction=fused)

    def _unary(
        self, code: str, x: Value, quantization: Quantization, rms: float, *, options_type: str = "", **options: float
    ) -> Value:
        kept = None if x.quantization is None else quantization
        spec = like(x, quantization=kept, rms=rms)
        return self._one(code, [x], spec, options_type, **options)

    def _one(self, code: str, inputs: Sequence[Value], spec: Spec, options_type: str, **options: object) -> Value:
        is_newer = inputs[0].dtype == "int8" and code not in INT8_FROM_THE_START
        version = INT8_VERSION if is_newer else 1
        (value,) = self.operator(code, inputs, [spec], version=version, options_type=options_type, **options)
        return value


class ModelBuilder(OperatorBuilder):
    """Draws a model: inputs, operators that take and return values, outputs; then its bytes.

    Two builders with one seed and the same calls give the same bytes. The builder itself draws the main subgraph.
    """

    def __init__(self, seed: int = 0, *, description: str = "hasten") -> None:
        super().__init__(SubgraphRecord(0, "main"), np.random.default_rng(seed))
        self._description = description
        self._subgraphs = [self._record]

    def build(self, signature: str | None = DEFAULT_SIGNATURE, *, old_schema: bool = False) -> bytes:
        """Return the file; `signature` names the main subgraph's, None leaves it without one."""
        if not self._record.outputs:
            raise UsageError("The model has no output.", "Call output() on a value.")
        self._record.signature = signature
        return model_bytes(self._subgraphs, description=self._description, old_schema=old_schema)


def like(
    x: Value,
    *,
    shape: tuple[int, ...] | None = None,
    dtype: str | None = None,
    quantization: Quantization | Literal["same"] | None = "same",
    rms: float | None = None,
) -> Spec:
    """Return what `x` is, but for what is given."""
    return Spec(
        x.shape if shape is None else shape,
        dtype or x.dtype,
        x.quantization if quantization == "same" else quantization,
        x.dynamic_batch,
        x.rms if rms is None else rms,
    )
