"""Weights that store only their blocks without zeros: LiteRT has kernels of its own for dense layers stored so.

Its kernel for float32 weights takes blocks of one output channel by four inputs. XNNPACK leaves such layers to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.model.model_object import operator_number

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

BLOCK = 4
# The version of FULLY_CONNECTED that brought sparse weights.
SPARSE_VERSION = 8


def encode_dense_layers(model: Any, tensors: set[int]) -> int:
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
    return tensor.type == schema.TensorType.FLOAT32 and len(tensor.shape) == 2 and tensor.shape[1] % BLOCK == 0


def _encode(schema: Any, model: Any, tensor: Any) -> None:
    rows, columns = (int(size) for size in tensor.shape)
    values = np.frombuffer(bytes(model.buffers[tensor.buffer].data), np.float32).reshape(rows, columns // BLOCK, BLOCK)
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
            schema.DimensionMetadataT(format=schema.DimensionType.DENSE, denseSize=BLOCK),
        ],
    )
    # A buffer of its own: others may share the plain one.
    model.buffers.append(schema.BufferT(data=np.ascontiguousarray(values[kept]).reshape(-1).view(np.uint8)))
    old, tensor.buffer = tensor.buffer, len(model.buffers) - 1
    if not any(other.buffer == old for subgraph in model.subgraphs for other in subgraph.tensors):
        model.buffers[old].data = None


def _sparse_code(schema: Any, model: Any, index: int) -> int:
    number = schema.BuiltinOperator.FULLY_CONNECTED
    version = max(int(model.operatorCodes[index].version), SPARSE_VERSION)
    for position, code in enumerate(model.operatorCodes):
        if operator_number(code) == number and code.version == version:
            return position
    model.operatorCodes.append(schema.OperatorCodeT(builtinCode=number, deprecatedBuiltinCode=number, version=version))
    return len(model.operatorCodes) - 1
