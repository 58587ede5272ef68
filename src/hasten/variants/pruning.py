"""Pruning: the smallest weights of dense layers and 1x1 convolutions set to zero, alone or in blocks.

Dense layers can store their blocks without zeros: LiteRT has kernels of its own for layers stored so, and XNNPACK
leaves them to it. The kernel for float32 weights takes blocks of one output channel by four inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import UsageError
from hasten.core.remark import Remark, remark
from hasten.model.edit.file import operator_number, read_object, write_object
from hasten.model.reader import read_graph
from hasten.variants.sparsity import as_matrix, weighted_nodes
from hasten.variants.variant import NothingToChangeError, Variant, place_for, weight_shares, zipped_bytes
from hasten.variants.words import ENCODED, ZEROS

if TYPE_CHECKING:
    import os

    from hasten.model.graph import Node, Tensor

    Array = np.ndarray[Any, Any]

PRUNED_TYPES = ("float32", "float16")
_BLOCK = 4
# The version of FULLY_CONNECTED that brought sparse weights.
_SPARSE_VERSION = 8


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
    model_path: str | os.PathLike[str], sparsity: float, out_path: str | os.PathLike[str], *, encode: bool = False
) -> Variant:
    """Write a variant whose dense layers and 1x1 convolutions have that share of zeros, the smallest weights first.

    `encode` stores dense layers without their zeros, which come in blocks then. Accuracy usually needs training
    afterwards.
    """
    if not 0 < sparsity < 1:
        raise UsageError(f"A sparsity of {sparsity} is not possible.", "Give a share between 0 and 1, such as 0.8.")
    model_path = Path(model_path)
    graph = read_graph(model_path)
    out_path = place_for(Path(out_path), model_path)
    model, pruned, weights = read_object(model_path), [], set()
    done: set[int] = set()
    for node, tensor in weighted_nodes(graph):
        if _is_prunable(node, tensor):
            _prune(model, tensor, node.op, sparsity, _BLOCK if encode else 1, done)
            pruned.append(node.index)
            weights.add(tensor.index)
    if not pruned:
        hint = "Give a model with float weights in FULLY_CONNECTED or 1x1 CONV_2D; prune before quantizing."
        raise NothingToChangeError(f"There is nothing to prune in {model_path.name}.", hint)
    encoded = _encode_dense_layers(model, weights) if encode else 0
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


def _is_prunable(node: Node, tensor: Tensor) -> bool:
    if tensor.dtype not in PRUNED_TYPES or tensor.is_sparse or tensor.buffer_offset is None:
        return False
    return node.op == "FULLY_CONNECTED" or (node.op == "CONV_2D" and tensor.shape[1:3] == (1, 1))


def _prune(model: Any, tensor: Tensor, op: str, sparsity: float, block: int, done: set[int]) -> None:
    buffer = model.buffers[model.subgraphs[0].tensors[tensor.index].buffer]
    if id(buffer) in done:  # several layers share these weights
        return
    done.add(id(buffer))
    values = np.frombuffer(bytes(buffer.data), tensor.dtype).reshape(tensor.shape)
    matrix = as_matrix(values, op)
    kept = np.where(_smallest(matrix, sparsity, block), np.zeros_like(matrix), matrix)
    buffer.data = np.ascontiguousarray(kept).reshape(-1).view(np.uint8)


def _smallest(matrix: Array, sparsity: float, block: int) -> Array:
    """Where the share of blocks of inputs with the smallest sum of squares is; blocks at the edge may be smaller."""
    squares = np.pad(matrix.astype(np.float64) ** 2, [(0, 0), (0, -matrix.shape[1] % block)])
    sums = squares.reshape(matrix.shape[0], -1, block).sum(axis=2)
    mask = np.zeros(sums.size, bool)
    mask[np.argsort(sums.reshape(-1), kind="stable")[: round(sparsity * sums.size)]] = True
    wide: Array = mask.reshape(sums.shape).repeat(block, axis=1)
    return wide[:, : matrix.shape[1]]


def _encode_dense_layers(model: Any, tensors: set[int]) -> int:
    """Encode the given weights of the main graph where every reader is a dense layer; return for how many nodes."""
    from ai_edge_litert import schema_py_generated as schema

    main = model.subgraphs[0]
    dense = [op for op in main.operators if _is_dense(schema, model, op) and int(op.inputs[1]) in tensors]
    encodable = {int(op.inputs[1]) for op in dense} - _other_readers(main, dense)
    nodes = [op for op in dense if int(op.inputs[1]) in encodable and _fits(schema, main.tensors[op.inputs[1]])]
    for index in {int(op.inputs[1]) for op in nodes}:
        _encode(schema, model, main.tensors[index])
    for operator in nodes:
        operator.opcodeIndex = _sparse_code(schema, model, operator.opcodeIndex)
    return len(nodes)


def _is_dense(schema: Any, model: Any, operator: Any) -> bool:
    return operator_number(model.operatorCodes[operator.opcodeIndex]) == int(schema.BuiltinOperator.FULLY_CONNECTED)


def _other_readers(subgraph: Any, dense: list[Any]) -> set[int]:
    """Tensors that anything but a dense layer's weights input reads."""
    others = {int(index) for index in subgraph.outputs}
    for operator in subgraph.operators:
        is_dense = any(operator is one for one in dense)
        others.update(int(i) for position, i in enumerate(operator.inputs) if not (is_dense and position == 1))
    return others


def _fits(schema: Any, tensor: Any) -> bool:
    return tensor.type == schema.TensorType.FLOAT32 and len(tensor.shape) == 2 and tensor.shape[1] % _BLOCK == 0


def _encode(schema: Any, model: Any, tensor: Any) -> None:
    rows = int(tensor.shape[0])
    values = np.frombuffer(bytes(model.buffers[tensor.buffer].data), np.float32).reshape(rows, -1, _BLOCK)
    kept = values.any(axis=2)
    segments = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
    tensor.sparsity = schema.SparsityParametersT(
        traversalOrder=[0, 1, 2],
        blockMap=[1],
        dimMetadata=[
            schema.DimensionMetadataT(format=schema.DimensionType.DENSE, denseSize=rows),
            schema.DimensionMetadataT(
                format=schema.DimensionType.SPARSE_CSR,
                arraySegmentsType=schema.SparseIndexVector.Int32Vector,
                arraySegments=schema.Int32VectorT(values=segments),
                arrayIndicesType=schema.SparseIndexVector.Int32Vector,
                arrayIndices=schema.Int32VectorT(values=np.nonzero(kept)[1].astype(np.int32)),
            ),
            schema.DimensionMetadataT(format=schema.DimensionType.DENSE, denseSize=_BLOCK),
        ],
    )
    # A buffer of its own: others may share the plain one.
    model.buffers.append(schema.BufferT(data=np.ascontiguousarray(values[kept]).reshape(-1).view(np.uint8)))
    old, tensor.buffer = tensor.buffer, len(model.buffers) - 1
    if not any(other.buffer == old for subgraph in model.subgraphs for other in subgraph.tensors):
        model.buffers[old].data = None


def _sparse_code(schema: Any, model: Any, index: int) -> int:
    number = schema.BuiltinOperator.FULLY_CONNECTED
    version = max(int(model.operatorCodes[index].version), _SPARSE_VERSION)
    for position, code in enumerate(model.operatorCodes):
        if operator_number(code) == number and code.version == version:
            return position
    model.operatorCodes.append(schema.OperatorCodeT(builtinCode=number, deprecatedBuiltinCode=number, version=version))
    return len(model.operatorCodes) - 1
