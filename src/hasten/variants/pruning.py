"""Pruning: the smallest weights of dense layers and 1x1 convolutions set to zero, alone or in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import UsageError
from hasten.core.remark import Remark, remark
from hasten.model.model_object import read_object, write_object
from hasten.model.reader import read_graph
from hasten.variants.selection import ALL_NODES, NodeChoice, select
from hasten.variants.sparse_encoding import BLOCK, encode_dense_layers
from hasten.variants.sparsity import as_matrix, weighted_nodes
from hasten.variants.variant import NothingToChangeError, Variant, place_for, weight_shares, zipped_bytes
from hasten.variants.words import ENCODED, ZEROS

if TYPE_CHECKING:
    import os

    from hasten.model.graph import Graph, Node, Tensor

    Array = np.ndarray[Any, Any]

PRUNED_TYPES = ("float32", "float16")
# LiteRT 2.3 has sparse kernels for dense layers whose weights are encoded; its sparse convolutions it never takes.
ENCODED_BLOCK = (1, BLOCK)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Which share of the weights of dense layers and 1x1 convolutions becomes zero, and how they are stored."""

    share: float
    encode: bool = False

    @property
    def name(self) -> str:
        """The name of a variant pruned so."""
        return f"pruned_{100 * self.share:.0f}" + ("_sparse" if self.encode else "")


def prune_variant(
    model_path: str | os.PathLike[str],
    sparsity: float,
    out_path: str | os.PathLike[str],
    *,
    block: tuple[int, int] = (1, 1),
    encode: bool = False,
    choice: NodeChoice = ALL_NODES,
) -> Variant:
    """Write a variant whose dense layers and 1x1 convolutions have that share of zeros, the smallest weights first.

    `block` has output channels by inputs that become zero together. `encode` stores dense layers without their zeros,
    for which LiteRT has faster kernels; it takes blocks of 1 by 4. Accuracy usually needs training afterwards.
    """
    if not 0 < sparsity < 1:
        raise UsageError(f"A sparsity of {sparsity} is not possible.", "Give a share between 0 and 1, such as 0.8.")
    if min(block) < 1:
        raise UsageError(f"A block of {block} is not possible.", "Give output channels by inputs, such as 4, 1.")
    if encode and block != ENCODED_BLOCK:
        raise UsageError(f"Blocks of {block} cannot be encoded.", "Use blocks of 1 by 4, which LiteRT's kernel takes.")
    model_path = Path(model_path)
    graph = read_graph(model_path)
    out_path = place_for(Path(out_path), model_path)
    selected = select(graph, None, choice, static=False).outputs
    model, pruned, weights = read_object(model_path), [], set()
    done: set[int] = set()
    for node, tensor in weighted_nodes(graph):
        if _is_prunable(graph, node, tensor) and (selected is None or node.outputs[0] in selected):
            _prune(model, tensor, node.op, sparsity, block, done)
            pruned.append(node.index)
            weights.add(tensor.index)
    if not pruned:
        hint = "Give a model with float weights in FULLY_CONNECTED or 1x1 CONV_2D; prune before quantizing."
        raise NothingToChangeError(f"There is nothing to prune in {model_path.name}.", hint)
    encoded = encode_dense_layers(model, weights) if encode else 0
    write_object(model, out_path, model_path)
    variant = read_graph(out_path)
    return Variant(
        path=out_path,
        recipe=Pruning(sparsity, encode).name,
        size_bytes=variant.size_bytes,
        zipped_bytes=zipped_bytes(out_path),
        nodes=tuple(pruned),
        weight_shares=weight_shares(variant),
        notes=_notes(encoded, len(pruned)),
    )


def _notes(encoded: int, pruned: int) -> tuple[Remark, ...]:
    notes = [remark(ENCODED, layers=encoded)] if encoded else []
    return (*notes, remark(ZEROS)) if encoded < pruned else tuple(notes)


def _is_prunable(graph: Graph, node: Node, tensor: Tensor) -> bool:
    if tensor.dtype not in PRUNED_TYPES or tensor.is_sparse or tensor.buffer_offset is None:
        return False
    return node.op == "FULLY_CONNECTED" or (node.op == "CONV_2D" and tensor.shape[1:3] == (1, 1))


def _prune(model: Any, tensor: Tensor, op: str, sparsity: float, block: tuple[int, int], done: set[int]) -> None:
    buffer = model.buffers[model.subgraphs[0].tensors[tensor.index].buffer]
    if id(buffer) in done:  # several layers share these weights
        return
    done.add(id(buffer))
    values = np.frombuffer(bytes(buffer.data), tensor.dtype).reshape(tensor.shape)
    matrix = as_matrix(values, op)
    kept = np.where(_smallest(matrix, sparsity, block), np.zeros_like(matrix), matrix)
    buffer.data = np.ascontiguousarray(kept).reshape(-1).view(np.uint8)


def _smallest(matrix: Array, sparsity: float, block: tuple[int, int]) -> Array:
    """Where the share of blocks with the smallest sum of squares is; blocks at the edge may be smaller."""
    rows, columns = block
    padding = [(0, -size % step) for size, step in zip(matrix.shape, block, strict=True)]
    squares = np.pad(matrix.astype(np.float64) ** 2, padding)
    sums = squares.reshape(squares.shape[0] // rows, rows, squares.shape[1] // columns, columns).sum(axis=(1, 3))
    count = round(sparsity * sums.size)
    mask = np.zeros(sums.size, bool)
    mask[np.argsort(sums.reshape(-1), kind="stable")[:count]] = True
    wide: Array = mask.reshape(sums.shape).repeat(rows, axis=0).repeat(columns, axis=1)
    return wide[: matrix.shape[0], : matrix.shape[1]]
