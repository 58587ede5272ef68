"""Drops what QUANTIZE and DEQUANTIZE undo, and merges one that follows another; float16 constants become float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import NONE, activation, drop_unread, each, nodes_of
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

STEP: Final = 0.02
"""The largest error in relation to the largest output, where values of 8 bits are rounded once more or once less: one
step is 1/127 of the largest value that a tensor can hold, and outputs rarely reach that one."""

_BYTES: Final = frozenset({"int8", "uint8"})
_INTEGERS: Final = _BYTES | {"int16"}
# Operators that move values, or choose among them, without computing: they do the same to stored integers.
_MOVERS: Final = frozenset(
    {
        "DEPTH_TO_SPACE",
        "EXPAND_DIMS",
        "MAX_POOL_2D",
        "RESHAPE",
        "RESIZE_NEAREST_NEIGHBOR",
        "SLICE",
        "SPACE_TO_DEPTH",
        "SQUEEZE",
        "STRIDED_SLICE",
        "TRANSPOSE",
    }
)


def cancel_pairs(graph: EditedGraph) -> list[Change]:
    """QUANTIZE after DEQUANTIZE by the same scale, also with operators in between that only move values.

    The other order rounds and clips: such a pair stays.
    """
    changes = []
    for operator in each(graph, "QUANTIZE"):
        changes += _cancelled(graph, operator) or _moved(graph, operator)
    return changes


def _cancelled(graph: EditedGraph, quantize: Operator) -> list[Change]:
    before = graph.producer(quantize.inputs[0])
    if before is None or not graph.is_op(before, "DEQUANTIZE", "QUANTIZE"):
        return []
    stored, result = before.inputs[0], quantize.outputs[0]
    is_undone = graph.is_op(before, "DEQUANTIZE") or _is_offset(graph, stored, quantize.inputs[0])
    if graph.dtype(stored) not in _INTEGERS or graph.kind(stored) != graph.kind(result) or not is_undone:
        return []
    change = Change(nodes_of([before, quantize]))
    if not graph.take_out(quantize, stored):
        return []
    drop_unread(graph, before)
    return [change]


def _is_offset(graph: EditedGraph, first: int, second: int) -> bool:
    """Whether two tensors store the same values with other zero points, as int8 and uint8 do."""
    one, other = _parameters(graph, first), _parameters(graph, second)
    if {graph.dtype(first), graph.dtype(second)} != _BYTES or one is None or other is None or one[0] != other[0]:
        return False
    offset = 128 if graph.dtype(first) == "int8" else -128
    return other[1] - one[1] == offset


def _moved(graph: EditedGraph, quantize: Operator) -> list[Change]:
    mover = graph.producer(quantize.inputs[0])
    if mover is None or graph.op(mover) not in _MOVERS or activation(graph, mover) != NONE:
        return []
    before = graph.producer(mover.inputs[0])
    is_alone = graph.is_read_only_by(mover.inputs[0], mover) and graph.is_read_only_by(mover.outputs[0], quantize)
    if before is None or not graph.is_op(before, "DEQUANTIZE") or not is_alone or len(mover.outputs) != 1:
        return []
    stored, result = before.inputs[0], quantize.outputs[0]
    parameters = _parameters(graph, stored)
    is_same = graph.dtype(stored) == graph.dtype(result) and parameters == _parameters(graph, result)
    if graph.dtype(stored) not in _BYTES or parameters is None or not is_same:
        return []
    made = graph.insert_copy(mover, [stored, *mover.inputs[1:]], [result], before=quantize)
    graph.remove(before, mover, quantize)
    made.nodes = nodes_of([before, mover, quantize])
    return [Change(made.nodes)]


def merge_requantizations(graph: EditedGraph) -> list[Change]:
    """DEQUANTIZE and QUANTIZE to another scale as one QUANTIZE; two QUANTIZEs as one where no value is clipped less."""
    changes = []
    for operator in each(graph, "QUANTIZE"):
        before = graph.producer(operator.inputs[0])
        if before is None or not graph.is_op(before, "DEQUANTIZE", "QUANTIZE"):
            continue
        source, result = before.inputs[0], operator.outputs[0]
        if not _merges(graph, before, source, result):
            continue
        made = graph.insert(
            "QUANTIZE", [source], [result], before=operator, chosen=options("QuantizeOptions"), version=2
        )
        made.nodes = nodes_of([before, operator])
        graph.remove(operator)
        drop_unread(graph, before)
        changes.append(Change(made.nodes))
    return changes


def _merges(graph: EditedGraph, before: Operator, source: int, result: int) -> bool:
    if graph.dtype(result) not in _BYTES or _parameters(graph, result) is None:
        return False
    if graph.is_op(before, "DEQUANTIZE"):
        return graph.dtype(source) in _BYTES and _parameters(graph, source) is not None
    middle, last = _range(graph, before.outputs[0]), _range(graph, result)
    is_clipped_alike = middle is not None and last is not None and middle[0] <= last[0] and last[1] <= middle[1]
    return is_clipped_alike and graph.dtype(source) in {"float32", *_BYTES}


def _parameters(graph: EditedGraph, tensor: int) -> tuple[float, int] | None:
    """Scale and zero point; None where there are none, or one for each channel."""
    if not graph.is_quantized(tensor):
        return None
    declared: Any = graph.tensor(tensor).quantization
    if len(declared.scale) != 1:
        return None
    points = declared.zeroPoint if declared.zeroPoint is not None and len(declared.zeroPoint) else (0,)
    return float(declared.scale[0]), int(points[0])


def _range(graph: EditedGraph, tensor: int) -> tuple[float, float] | None:
    """The least and the largest value that a tensor of bytes can stand for."""
    parameters = _parameters(graph, tensor)
    if parameters is None or graph.dtype(tensor) not in _BYTES:
        return None
    scale, point = parameters
    limits = np.iinfo(graph.dtype(tensor))
    return scale * (limits.min - point), scale * (limits.max - point)


def unpack_float16(graph: EditedGraph) -> list[Change]:
    """DEQUANTIZE or CAST of a float16 constant as a float32 constant: a larger file, whose numbers others can read."""
    changes = []
    for operator in each(graph, "DEQUANTIZE", "CAST"):
        source, result = operator.inputs[0], operator.outputs[0]
        values = graph.constant(source) if graph.dtype(source) == "float16" else None
        if values is None or graph.dtype(result) != "float32" or result in graph.outputs:
            continue
        made = graph.add_constant(values.astype(np.float32), graph.name(result))
        graph.tensor(made).half = values
        change = Change(operator.nodes, {"bytes": int(values.nbytes)})
        graph.remove(operator)
        graph.let_read(result, made)
        changes.append(change)
    return changes


def pack_float16(graph: EditedGraph) -> bool:
    """Put the float16 constants back that no other rewrite has changed; whether these are all."""
    packed_all = True
    for index in range(len(graph.record.tensors)):
        half, readers = getattr(graph.tensor(index), "half", None), graph.readers(index)
        if half is None or not readers:
            packed_all = packed_all and half is None
            continue
        source = graph.add_constant(half, f"{graph.name(index)}/half")
        result = graph.add_tensor(half.shape, index)
        graph.insert(
            "DEQUANTIZE", [source], [result], before=readers[0], chosen=options("DequantizeOptions"), version=3
        )
        graph.let_read(index, result)
    return packed_all


QUANTIZATION_PAIRS = Rewrite("quantization-pairs", cancel_pairs)
REQUANTIZATIONS = Rewrite("requantizations", merge_requantizations, STEP)
FLOAT16_CONSTANTS = Rewrite("float16-constants", unpack_float16, undo_unused=pack_float16)
