"""The builder with the operators that only tests draw: activations, pooling, moves, variables, loops and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import UsageError
from hasten.model import build
from hasten.model.build_bytes import OperatorRecord, Quantization, SubgraphRecord
from hasten.model.build_graph import Spec, Value, signed_range
from hasten.model.build_layers import activated_range, padding_code, windowed_shape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.model.build_graph import GraphBuilder

WEIGHT_TYPES = ("float32", "float16", "int8")
TANH = Quantization((1 / 128,), (0,))
# Of a normal distribution with a deviation of 1; it is 0.5 for small values, and 0.71 for large ones.
RMS_OF_LOGISTIC = 0.54


class OperatorBuilder(build.OperatorBuilder):
    """Adds any operator to a graph.

    `weights` is how layers of float32 values store theirs: as they are, as float16 behind a DEQUANTIZE, or as int8 that
    the kernel combines with float32 values ("dynamic range").
    """

    weights = "float32"

    def _float_weights(self, real: NDArray[np.float32], axis: int) -> Value:
        if self.weights == "float16":
            half = self.constant(real.astype(np.float16))
            (weights,) = self.operator(
                "DEQUANTIZE", [half], [Spec(real.shape)], version=3, options_type="DequantizeOptions"
            )
            return weights
        return self._int8_weights(real, axis) if self.weights == "int8" else self.constant(real)

    def sub(self, a: Value, b: Value, *, activation: str | None = None) -> Value:
        """Subtract with broadcasting."""
        return self._binary("SUB", "SubOptions", a, b, float(np.hypot(a.rms, b.rms)), activation)

    def mul(self, a: Value, b: Value, *, activation: str | None = None) -> Value:
        """Multiply with broadcasting."""
        return self._binary("MUL", "MulOptions", a, b, a.rms * b.rms, activation)

    def less(self, a: Value, b: Value) -> Value:
        """Compare with broadcasting; the result is bool."""
        spec = Spec(np.broadcast_shapes(a.shape, b.shape), "bool", None, a.dynamic_batch or b.dynamic_batch)
        return self._one("LESS", [a, b], spec, "LessOptions")

    def relu(self, x: Value) -> Value:
        """Set negative values to zero."""
        return self._unary("RELU", x, activated_range(x.rms, "relu"), x.rms / 2**0.5)

    def relu6(self, x: Value) -> Value:
        """Clip values to 0…6."""
        return self._unary("RELU6", x, activated_range(x.rms, "relu6"), x.rms / 2**0.5)

    def hard_swish(self, x: Value) -> Value:
        """Apply x · relu6(x + 3) / 6."""
        return self._unary(
            "HARD_SWISH", x, signed_range(x.rms), _rms_after_swish(x.rms), options_type="HardSwishOptions"
        )

    def logistic(self, x: Value) -> Value:
        """Apply the sigmoid."""
        return self._unary("LOGISTIC", x, build.PROBABILITY, RMS_OF_LOGISTIC)

    def tanh(self, x: Value) -> Value:
        """Apply the hyperbolic tangent."""
        return self._unary("TANH", x, TANH, min(x.rms, 1.0))

    def swish(self, x: Value) -> Value:
        """Apply x · sigmoid(x), as the two operators that converters make of it."""
        return self._binary("MUL", "MulOptions", x, self.logistic(x), _rms_after_swish(x.rms), None)

    def quantize(self, x: Value, quantization: Quantization) -> Value:
        """Turn float32 into int8, or int8 into int8 of another scale."""
        return self._one("QUANTIZE", [x], build.like(x, dtype="int8", quantization=quantization), "QuantizeOptions")

    def dequantize(self, x: Value) -> Value:
        """Turn int8 into float32."""
        spec = build.like(x, dtype="float32", quantization=None)
        return self._one("DEQUANTIZE", [x], spec, "DequantizeOptions")

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert the element type."""
        return self._one("CAST", [x], build.like(x, dtype=dtype, quantization=None), "")

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
        spec = build.like(x, shape=tuple(shape))
        return self._one("RESHAPE", [x, self._indices(target)], spec, "ReshapeOptions", newShape=list(target))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Reorder the dimensions."""
        if x.dynamic_batch and order[0] != 0:
            raise UsageError("A dynamic batch cannot be moved.", "Keep dimension 0 in its place.")
        spec = build.like(x, shape=tuple(x.shape[axis] for axis in order))
        return self._one("TRANSPOSE", [x, self._indices(order)], spec, "TransposeOptions")

    def pad(self, x: Value, widths: Sequence[tuple[int, int]]) -> Value:
        """Put zeros around: (before, after) for each dimension."""
        shape = tuple(size + before + after for size, (before, after) in zip(x.shape, widths, strict=True))
        paddings = self.constant(np.array(widths, dtype=np.int32))
        return self._one("PAD", [x, paddings], build.like(x, shape=shape), "PadOptions")

    def concatenation(self, values: Sequence[Value], axis: int = -1) -> Value:
        """Join along `axis`; quantized values are first brought to the scale of the widest, as int8 demands one."""
        widest = max(values, key=lambda value: value.rms)
        if widest.quantization is not None:
            values = [self._requantized(value, widest.quantization) for value in values]
        axis %= len(widest.shape)
        shape = list(widest.shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        spec = build.like(widest, shape=tuple(shape))
        return self._one("CONCATENATION", values, spec, "ConcatenationOptions", axis=axis)

    def _requantized(self, x: Value, quantization: Quantization) -> Value:
        return x if x.quantization == quantization else self.quantize(x, quantization)

    def _pool(self, code: str, x: Value, kernel: int, stride: int, padding: str) -> Value:
        spec = build.like(x, shape=windowed_shape(x, kernel, stride, padding, x.shape[-1]))
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

    def custom(
        self, code: str, inputs: Sequence[Value], shape: Sequence[int], dtype: str = "float32", *, options: bytes = b""
    ) -> Value:
        """Add an operator that only its own kernel can run; Flex operators are custom ones named `Flex…`."""
        record = OperatorRecord(code, (), (), is_custom=True, custom_options=options)
        (value,) = self._add(record, inputs, [Spec(tuple(shape), dtype)])
        return value

    def variable(self, name: str) -> Value:
        """Return the handle of a variable; handles of one name are one variable, in all subgraphs.

        LiteRT reads a variable that nothing has assigned as whatever its memory holds: assign it through `call_once`.
        """
        (handle,) = self.operator(
            "VAR_HANDLE", [], [Spec((), "resource")], options_type="VarHandleOptions", container="", sharedName=name
        )
        return handle

    def read_variable(self, handle: Value, shape: Sequence[int], dtype: str = "float32") -> Value:
        """Return what a variable holds."""
        spec = Spec(tuple(shape), dtype)
        (value,) = self.operator("READ_VARIABLE", [handle], [spec], options_type="ReadVariableOptions")
        return value

    def assign_variable(self, handle: Value, value: Value) -> None:
        """Put a value into a variable."""
        self.operator("ASSIGN_VARIABLE", [handle, value], [], options_type="AssignVariableOptions")

    def call_once(self, initialization: GraphBuilder) -> None:
        """Run a subgraph that has no inputs and outputs, in the first call only."""
        self.operator("CALL_ONCE", [], [], options_type="CallOnceOptions", initSubgraphIndex=initialization.index)

    def while_loop(self, values: Sequence[Value], condition: GraphBuilder, body: GraphBuilder) -> tuple[Value, ...]:
        """Run `body`, from values to values, as long as `condition`, from values to one bool, holds."""
        options = {"condSubgraphIndex": condition.index, "bodySubgraphIndex": body.index}
        return self.operator("WHILE", values, values, options_type="WhileOptions", **options)

    def if_else(
        self, condition: Value, values: Sequence[Value], then: GraphBuilder, otherwise: GraphBuilder, output: Spec
    ) -> Value:
        """Run one of two subgraphs on the values."""
        options = {"thenSubgraphIndex": then.index, "elseSubgraphIndex": otherwise.index}
        (value,) = self.operator("IF", [condition, *values], [output], options_type="IfOptions", **options)
        return value


class ModelBuilder(OperatorBuilder, build.ModelBuilder):
    """Draws a model of any operators and several subgraphs."""

    def __init__(self, seed: int = 0, *, weights: str = "float32", description: str = "hasten") -> None:
        super().__init__(seed, description=description)
        if weights not in WEIGHT_TYPES:
            raise UsageError(f"Weights cannot be {weights!r}.", f"Choose among {', '.join(WEIGHT_TYPES)}.")
        self.weights = weights

    def subgraph(self, name: str, *, signature: str | None = None) -> OperatorBuilder:
        """Start a further subgraph: the target of a signature of its own, or of control flow."""
        if any(subgraph.name == name for subgraph in self._subgraphs):
            raise UsageError(f"There is a subgraph {name!r} already.", "Choose another name.")
        self._subgraphs.append(SubgraphRecord(len(self._subgraphs), name, signature))
        drawn = OperatorBuilder(self._subgraphs[-1], self._random)
        drawn.weights = self.weights
        return drawn

    def write(self, path: Path, signature: str | None = build.DEFAULT_SIGNATURE, *, old_schema: bool = False) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build(signature, old_schema=old_schema))
        return path


def _rms_after_swish(rms: float) -> float:
    """Return a fit to normal values: half is left of small ones, and of large ones what a rectifier leaves."""
    share_small, share_large = 0.5, 2**-0.5
    return rms * (share_small + (share_large - share_small) * rms / (rms + 1))
