"""A node as the cost formulas see it: its tensors by position, with the shapes that a run has settled."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hasten.model.graph import BITS_OF_DTYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.model.graph import Node, Shape, Subgraph, Tensor


class Unresolved(Exception):
    """A formula needs what is missing: an input, a dimension, the size of a type. Callers turn it into None."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Answers what a formula asks about a node, or raises `Unresolved`."""

    subgraph: Subgraph
    node: Node
    shapes: Mapping[int, Shape]

    def has_input(self, position: int) -> bool:
        """Whether an optional input is there."""
        return position < len(self.node.inputs) and self.node.inputs[position] >= 0

    def input(self, position: int) -> Tensor:
        """The input at a position."""
        if not self.has_input(position):
            raise Unresolved
        return self.subgraph.tensors[self.node.inputs[position]]

    def inputs(self) -> list[Tensor]:
        """The inputs that are there, each once however often the node names it."""
        return [self.subgraph.tensors[index] for index in dict.fromkeys(self.node.inputs) if index >= 0]

    def outputs(self) -> list[Tensor]:
        """The outputs."""
        return [self.subgraph.tensors[index] for index in dict.fromkeys(self.node.outputs) if index >= 0]

    def output(self) -> Tensor:
        """The first output."""
        for tensor in self.outputs():
            return tensor
        raise Unresolved

    def shape(self, tensor: Tensor, rank: int | None = None) -> Shape:
        """The shape in a run, of that rank where one is asked for."""
        shape = self.shapes.get(tensor.index)
        if shape is None:
            if tensor.is_dynamic:
                raise Unresolved
            shape = tensor.shape
        if any(size < 0 for size in shape) or (rank is not None and len(shape) != rank):
            raise Unresolved
        return shape

    def elements(self, tensor: Tensor) -> int:
        """How many elements the tensor has in a run."""
        return prod(self.shape(tensor))

    def dimension(self, tensor: Tensor, axis: int) -> int:
        """The size along one axis."""
        shape = self.shape(tensor)
        if not -len(shape) <= axis < len(shape):
            raise Unresolved
        return shape[axis]

    def bytes(self, tensor: Tensor) -> int:
        """The tensor's size, rounded up to whole bytes where elements are smaller; a constant's is that in the file."""
        if tensor.buffer_bytes and tensor.is_constant:
            return tensor.buffer_bytes
        bits = BITS_OF_DTYPE.get(tensor.dtype)
        if bits is None:
            raise Unresolved
        return -(-self.elements(tensor) * bits // 8)

    def number(self, option: str) -> int:
        """An integer option that must be there."""
        value = self.node.options.get(option)
        if not isinstance(value, int) or value < 0:
            raise Unresolved
        return value
