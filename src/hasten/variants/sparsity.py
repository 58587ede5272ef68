"""What is found in a model's weights: zeros, blocks of them, and few distinct values. Reads constants, runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.model.graph import BITS_OF_DTYPE
from hasten.model.reader import read_constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.graph import Graph, Node, Tensor

    Array = np.ndarray[Any, Any]

WEIGHTED_OPERATORS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL"})
# Output channels by inputs, the largest first. Kernels for sparse weights exist for these shapes of blocks.
BLOCKS = ((4, 4), (1, 16), (4, 1), (1, 4), (2, 1))
# Zeros lie in blocks where nearly all of them do, and where there are enough to tell.
IN_BLOCKS = 0.95
ENOUGH_ZEROS = 0.05
# Clustered weights share few values: as many as an index of a byte can tell apart, and each used many times.
MOST_CLUSTERS = 256
FEWEST_USES = 16


@dataclass(frozen=True, slots=True)
class LayerSparsity:
    """The weights of one node: what share is zero, in which blocks, and how many distinct values there are.

    Of weights in a sparse encoding only the share is known: the rest is None.
    """

    node: int
    elements: int
    zeros: float
    block: tuple[int, int] | None
    distinct: int | None

    @property
    def clustered(self) -> bool:
        """Whether few values are used many times, so that the file can be packed well."""
        if self.distinct is None:
            return False
        return self.distinct <= MOST_CLUSTERS and self.distinct * FEWEST_USES <= self.elements


def layer_sparsities(graph: Graph) -> tuple[LayerSparsity, ...]:
    """The weights of every node of the main graph that has some."""
    return tuple(_described(graph, node, tensor) for node, tensor in weighted_nodes(graph))


def model_sparsity(layers: tuple[LayerSparsity, ...]) -> float:
    """The share of zeros in all weights together."""
    total = sum(layer.elements for layer in layers)
    return sum(layer.zeros * layer.elements for layer in layers) / total if total else 0.0


def weighted_nodes(graph: Graph) -> Iterator[tuple[Node, Tensor]]:
    """Nodes of the main graph with constant weights, which may stand behind a DEQUANTIZE or DENSIFY."""
    tensors = graph.main.tensors
    sources = {node.outputs[0]: node.inputs[0] for node in graph.main.nodes if node.op in ("DEQUANTIZE", "DENSIFY")}
    for node in graph.main.nodes:
        if node.op not in WEIGHTED_OPERATORS or len(node.inputs) < 2:
            continue
        index = node.inputs[1]
        while index in sources:
            index = sources[index]
        if index >= 0 and tensors[index].is_weight and len(tensors[index].shape) > 1 and tensors[index].elements:
            yield node, tensors[index]


def _described(graph: Graph, node: Node, tensor: Tensor) -> LayerSparsity:
    elements = tensor.elements or 0
    values = read_constant(graph, tensor)
    if values is None:  # in a sparse encoding: what is not stored is zero
        stored = tensor.buffer_bytes * 8 / BITS_OF_DTYPE.get(tensor.dtype, 32)
        return LayerSparsity(node.index, elements, max(0.0, 1 - stored / elements), None, None)
    zero = as_matrix(values, node.op) == _zero_points(tensor)
    return LayerSparsity(node.index, elements, float(zero.mean()), _block_of(zero), len(np.unique(values)))


def as_matrix(values: Array, op: str) -> Array:
    """Weights as output channels by inputs; the channels of a depthwise convolution come last in the file."""
    if op == "DEPTHWISE_CONV_2D":
        values = np.moveaxis(values, -1, 0)
    return values.reshape(values.shape[0], -1)


def _zero_points(tensor: Tensor) -> Any:
    """The stored number that means zero; one for each row where channels have their own."""
    if tensor.quantization is None or not tensor.quantization.zero_points:
        return 0
    points = tensor.quantization.zero_points
    return points[0] if len(set(points)) == 1 else np.array(points)[:, None]


def _block_of(zero: Array) -> tuple[int, int] | None:
    """The largest block that zeros come in; None where they come one by one, or hardly at all."""
    if zero.mean() < ENOUGH_ZEROS:
        return None
    for rows, columns in BLOCKS:
        if zero.shape[0] < 2 * rows or zero.shape[1] < 2 * columns:
            continue
        whole = zero[: zero.shape[0] // rows * rows, : zero.shape[1] // columns * columns]
        blocks = whole.reshape(whole.shape[0] // rows, rows, whole.shape[1] // columns, columns).all(axis=(1, 3))
        if blocks.sum() * rows * columns >= IN_BLOCKS * max(whole.sum(), 1) and not blocks.all():
            return rows, columns
    return None
