"""The builder with the operators that only tests draw: casts, moves, variables, loops and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import UsageError
from hasten.model import build
from hasten.model.build_bytes import OperatorRecord, Quantization, SubgraphRecord
from hasten.model.build_graph import Spec, Value
from hasten.model.build_layers import activated_range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.model.build_graph import GraphBuilder

WEIGHT_TYPES = ("float32", "float16", "int8")
TANH = Quantization((1 / 128,), (0,))


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

    def less(self, a: Value, b: Value) -> Value:
        """Compare with broadcasting; the result is bool."""
        spec = Spec(np.broadcast_shapes(a.shape, b.shape), "bool", None, a.dynamic_batch or b.dynamic_batch)
        return self._one("LESS", [a, b], spec, "LessOptions")

    def relu6(self, x: Value) -> Value:
        """Clip values to 0…6."""
        return self._unary("RELU6", x, activated_range(x.rms, "relu6"), x.rms / 2**0.5)

    def tanh(self, x: Value) -> Value:
        """Apply the hyperbolic tangent."""
        return self._unary("TANH", x, TANH, min(x.rms, 1.0))

    def dequantize(self, x: Value) -> Value:
        """Turn int8 into float32."""
        spec = build.like(x, dtype="float32", quantization=None)
        return self._one("DEQUANTIZE", [x], spec, "DequantizeOptions")

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert the element type."""
        return self._one("CAST", [x], build.like(x, dtype=dtype, quantization=None), "")

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
