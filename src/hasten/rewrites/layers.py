"""Layers with constant float weights, as rewrites see them: where weights and bias are, and along which axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.reader import NO_TENSOR
from hasten.rewrites.patterns import float_constant, is_float, open_axes

if TYPE_CHECKING:
    from hasten.model.edit.graph import Array, EditedGraph, Operator

SAME, VALID = 0, 1
"""Paddings by the schema's numbers."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Which input is which, and the axis of the weights along which outputs lie."""

    weights: int
    bias: int
    outputs: int


_PLACES: Final = {
    "CONV_2D": _Places(1, 2, 0),
    "DEPTHWISE_CONV_2D": _Places(1, 2, 3),
    "FULLY_CONNECTED": _Places(1, 2, 0),
    "TRANSPOSE_CONV": _Places(1, 3, 0),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator with constant weights. `bias` is zeros where the file has none."""

    operator: Operator
    op: str
    weights: Array
    bias: Array

    @property
    def output_axis(self) -> int:
        """The axis of the weights along which output channels lie."""
        return _PLACES[self.op].outputs

    def along_outputs(self, values: Array) -> Array:
        """One value for each output channel, in a shape that broadcasts against the weights."""
        shape = [1] * self.weights.ndim
        shape[self.output_axis] = -1
        return values.reshape(shape)


def layer(graph: EditedGraph, operator: Operator | None) -> Layer | None:
    """The layer that an operator is; None for quantized, sparse, shuffled or computed weights."""
    if operator is None or graph.op(operator) not in _PLACES or operator.builtinOptions is None:
        return None
    op = graph.op(operator)
    places = _PLACES[op]
    weights = float_constant(graph, operator.inputs[places.weights])
    if weights is None or graph.option(operator, "weightsFormat") or not is_float(graph, operator.outputs[0]):
        return None
    bias: Array | None = np.zeros(weights.shape[places.outputs], np.float32)
    if len(operator.inputs) > places.bias and operator.inputs[places.bias] != NO_TENSOR:
        bias = float_constant(graph, operator.inputs[places.bias])
    return None if bias is None or bias.size != weights.shape[places.outputs] else Layer(operator, op, weights, bias)


def set_weights(graph: EditedGraph, old: Layer, weights: Array, bias: Array) -> None:
    """Give a layer other weights, as constants of its own: others may read the old ones."""
    places = _PLACES[old.op]
    operator = old.operator
    name = graph.name(operator.outputs[0])
    for place, values, known, what in (
        (places.weights, weights, old.weights, "weights"),
        (places.bias, bias, old.bias, "bias"),
    ):
        made = np.asarray(values, np.float32)
        if made.shape == known.shape and (made == known).all():
            continue
        graph.set_input(operator, place, graph.add_constant(made, f"{name}/{what}"))


def window(graph: EditedGraph, operator: Operator, size: tuple[int, int]) -> Window | None:
    """The window of a convolution (of kernel `size`) or pool; None if height or width of its input is open."""
    x = operator.inputs[0]
    if open_axes(graph, x) & {1, 2} or len(graph.shape(x)) != 4:
        return None
    option = graph.option
    return Window(
        graph.shape(x)[1:3],
        size,
        (int(option(operator, "strideH")), int(option(operator, "strideW"))),
        (int(option(operator, "dilationHFactor", 1)), int(option(operator, "dilationWFactor", 1))),
        int(option(operator, "padding")),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides over height and width; each pair is (height, width)."""

    sizes: tuple[int, ...]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: int

    def counts(self) -> tuple[int, int]:
        """How many places the window takes along each side."""
        return self._count(0), self._count(1)

    def before(self) -> tuple[int, int]:
        """How many zeros the kernel puts before each side."""
        return self._padded(0) // 2, self._padded(1) // 2

    def is_padded(self) -> bool:
        """Whether the window ever leaves the input."""
        return self._padded(0) > 0 or self._padded(1) > 0

    def reach(self, side: int) -> int:
        """How far a window reaches along one side, holes included."""
        return (self.kernel[side] - 1) * self.dilations[side] + 1

    def _count(self, side: int) -> int:
        size, stride = self.sizes[side], self.strides[side]
        return -(-size // stride) if self.padding == SAME else (size - self.reach(side)) // stride + 1

    def _padded(self, side: int) -> int:
        if self.padding != SAME:
            return 0
        return max((self._count(side) - 1) * self.strides[side] + self.reach(side) - self.sizes[side], 0)
