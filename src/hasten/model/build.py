"""The builder of .tflite models with random weights: load that measures a machine, and models to choose among."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import Quantization, SubgraphRecord, model_bytes
from hasten.model.build_graph import INT8_MAX, Spec, Value, signed_range
from hasten.model.build_layers import LayerBuilder, activated_range, activation_code, padding_code, windowed_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_SIGNATURE = "serving_default"
# LOGISTIC and SOFTMAX in int8 are defined with this output quantization only.
PROBABILITY = Quantization((1 / 256,), (-128,))
# Averaging takes values of random sign towards zero; half is between none of that and all of it.
RMS_LEFT_BY_MEAN = 0.5
# Of a normal distribution with a deviation of 1; it is 0.5 for small values, and 0.71 for large ones.
RMS_OF_LOGISTIC = 0.54
# Int8 came with the second version of every operator here, but for those that had it from the start.
INT8_VERSION = 2
INT8_FROM_THE_START = frozenset({"HARD_SWISH", "RESHAPE"})


class OperatorBuilder(LayerBuilder):
    """Adds operators without weights to a graph."""

    def add(self, a: Value, b: Value, *, activation: str | None = None, range_of: Value | None = None) -> Value:
        """Add with broadcasting; an int8 sum can take the range of another value, so that both can be joined."""
        rms = float(np.hypot(a.rms, b.rms))
        quantization = None if range_of is None else range_of.quantization
        return self._binary("ADD", "AddOptions", a, b, rms, activation, quantization)

    def mul(self, a: Value, b: Value, *, activation: str | None = None) -> Value:
        """Multiply with broadcasting."""
        return self._binary("MUL", "MulOptions", a, b, a.rms * b.rms, activation)

    def relu(self, x: Value) -> Value:
        """Set negative values to zero."""
        return self._unary("RELU", x, activated_range(x.rms, "relu"), x.rms / 2**0.5)

    def hard_swish(self, x: Value) -> Value:
        """Apply x · relu6(x + 3) / 6."""
        return self._unary(
            "HARD_SWISH", x, signed_range(x.rms), _rms_after_swish(x.rms), options_type="HardSwishOptions"
        )

    def logistic(self, x: Value) -> Value:
        """Apply the sigmoid."""
        return self._unary("LOGISTIC", x, PROBABILITY, RMS_OF_LOGISTIC)

    def hard_sigmoid(self, x: Value) -> Value:
        """Apply relu6(x + 3) / 6, as the two operators that converters make of it."""
        shifted = self._binary("ADD", "AddOptions", x, self._scalar(x, 3.0), float(np.hypot(x.rms, 3.0)), "relu6")
        return self._binary("MUL", "MulOptions", shifted, self._scalar(x, 1 / 6), RMS_OF_LOGISTIC, None, PROBABILITY)

    def swish(self, x: Value) -> Value:
        """Apply x · sigmoid(x), as the two operators that converters make of it."""
        return self._binary("MUL", "MulOptions", x, self.logistic(x), _rms_after_swish(x.rms), None)

    def quantize(self, x: Value, quantization: Quantization) -> Value:
        """Turn float32 into int8, or int8 into int8 of another scale."""
        return self._one("QUANTIZE", [x], like(x, dtype="int8", quantization=quantization), "QuantizeOptions")

    def max_pool2d(self, x: Value, kernel: int = 2, stride: int = 2, *, padding: str = "valid") -> Value:
        """Take the largest value of each window."""
        return self._pool("MAX_POOL_2D", x, kernel, stride, padding)

    def average_pool2d(self, x: Value, kernel: int = 2, stride: int = 2, *, padding: str = "valid") -> Value:
        """Take the mean of each window."""
        return self._pool("AVERAGE_POOL_2D", x, kernel, stride, padding)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Give the same elements another shape; under a dynamic batch the first dimension is the batch."""
        if int(np.prod(shape)) != int(np.prod(x.shape)):
            raise UsageError(f"{x.shape} does not reshape to {tuple(shape)}.", "Both need the same number of elements.")
        target = (-1, *shape[1:]) if x.dynamic_batch else shape
        spec = like(x, shape=tuple(shape))
        return self._one("RESHAPE", [x, self._indices(target)], spec, "ReshapeOptions", newShape=list(target))

    def resize_bilinear(self, x: Value, height: int, width: int) -> Value:
        """Resize an NHWC value, with its corners kept in place."""
        spec = like(x, shape=(x.shape[0], height, width, x.shape[3]))
        inputs = [x, self._indices((height, width))]
        return self._one("RESIZE_BILINEAR", inputs, spec, "ResizeBilinearOptions", alignCorners=True)

    def concatenation(self, values: Sequence[Value], axis: int = -1) -> Value:
        """Join along `axis`; quantized values are first brought to the scale of the widest, as int8 demands one."""
        widest = max(values, key=lambda value: value.rms)
        if widest.quantization is not None:
            values = [self._requantized(value, widest.quantization) for value in values]
        axis %= len(widest.shape)
        shape = list(widest.shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        spec = like(widest, shape=tuple(shape))
        return self._one("CONCATENATION", values, spec, "ConcatenationOptions", axis=axis)

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

    def _scalar(self, x: Value, number: float) -> Value:
        """A constant that broadcasts against `x`, in its type."""
        if x.quantization is None:
            return self.constant(np.array([number], dtype=np.float32))
        return self.constant(np.array([INT8_MAX], dtype=np.int8), Quantization((number / INT8_MAX,)))

    def _requantized(self, x: Value, quantization: Quantization) -> Value:
        return x if x.quantization == quantization else self.quantize(x, quantization)

    def _pool(self, code: str, x: Value, kernel: int, stride: int, padding: str) -> Value:
        spec = like(x, shape=windowed_shape(x, kernel, stride, padding, x.shape[-1]))
        return self._one(
            code,
            [x],
            spec,
            "Pool2DOptions",
            padding=padding_code(padding),
            strideW=stride,
            strideH=stride,
            filterWidth=kernel,
            filterHeight=kernel,
        )

    def _binary(
        self,
        code: str,
        options_type: str,
        a: Value,
        b: Value,
        rms: float,
        activation: str | None,
        quantization: Quantization | None = None,
    ) -> Value:
        if a.dtype != b.dtype:
            raise UsageError(
                f"{code} takes one element type, not {a.dtype} and {b.dtype}.", "Use cast() on one of them."
            )
        if code != "MUL" and a.dtype in {"int8", "uint8"} and a.quantization is None:
            # LiteRT 2.3.0 aborts the whole process on such a model.
            raise UsageError(f"{code} of plain {a.dtype} has no kernel.", "Give the inputs a scale.")
        kept = None if a.quantization is None else quantization or activated_range(rms, activation)
        shape = np.broadcast_shapes(a.shape, b.shape)
        spec = Spec(shape, a.dtype, kept, a.dynamic_batch or b.dynamic_batch, rms)
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


def _rms_after_swish(rms: float) -> float:
    """Return a fit to normal values: half is left of small ones, and of large ones what a rectifier leaves."""
    share_small, share_large = 0.5, 2**-0.5
    return rms * (share_small + (share_large - share_small) * rms / (rms + 1))
