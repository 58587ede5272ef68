"""Computes once what no run can change: operators of constants only, and shapes that are known before the model runs.

Only kinds for which NumPy gives the same bits as the engine's kernels are computed: moves, integers, and sums,
differences and products of floats, which IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.reader import NO_TENSOR
from hasten.rewrites.orders import is_order
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.model.edit.graph import Array, EditedGraph, Operator

    Arrays = Sequence[Array]
    Compute = Callable[[EditedGraph, Operator, Arrays], Arrays | None]
    """The results of an operator on its inputs; None where they cannot be told."""

# Results that are larger than what they replace may let the file grow by this much.
_MOST_ADDED_BYTES: Final = 64 * 1024
_PLAIN_INTEGERS: Final = frozenset({"int32", "int64"})
_CAST_SOURCES: Final = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
_CAST_TARGETS: Final = _CAST_SOURCES | {"float32", "float64"}


def fold_constants(graph: EditedGraph) -> list[Change]:
    """Operators whose results are known before the model runs."""
    changes: list[Change] = []
    room = _MOST_ADDED_BYTES
    for operator in list(graph.operators):
        results = _results(graph, operator)
        if results is None or (added := _added_bytes(graph, operator, results)) > room:
            continue
        room -= added
        for index, values in zip(operator.outputs, results, strict=True):
            graph.make_constant(index, values)
        graph.remove(operator)
        changes.append(Change(operator.nodes))
    return changes


def _results(graph: EditedGraph, operator: Operator) -> Arrays | None:
    """What an operator gives in every run, if that is known and just what is declared."""
    compute = _COMPUTE.get(graph.op(operator))
    # An output of the graph must be written by somebody; an operator may lack an optional input.
    if compute is None or NO_TENSOR in operator.inputs or not set(graph.outputs).isdisjoint(operator.outputs):
        return None
    if graph.is_op(operator, "SHAPE", "RANK"):
        results = compute(graph, operator, ())
    elif all(map(graph.is_constant, operator.inputs)):
        inputs = [values for index in operator.inputs if (values := graph.constant(index)) is not None]
        # Numbers beyond the range of their type wrap around, as in the kernels.
        with np.errstate(all="ignore"):
            results = compute(graph, operator, inputs) if len(inputs) == len(operator.inputs) else None
    else:
        return None
    if results is None or len(results) != len(operator.outputs):
        return None
    pairs = zip(operator.outputs, results, strict=True)
    return results if all(_is_as_declared(graph, index, values) for index, values in pairs) else None


def _is_as_declared(graph: EditedGraph, index: int, values: Array) -> bool:
    has_shape = not graph.is_fixed(index) or graph.shape(index) == values.shape
    # A file cannot tell an empty constant from a tensor that is filled in a run.
    return has_shape and values.size > 0 and values.dtype.name == graph.dtype(index)


def _added_bytes(graph: EditedGraph, operator: Operator, results: Arrays) -> int:
    """How much larger the file gets: constants that only this operator reads go."""
    gone = [index for index in dict.fromkeys(operator.inputs) if graph.is_read_only_by(index, operator)]
    freed = sum(values.nbytes for index in gone if (values := graph.constant(index)) is not None)
    return max(0, sum(values.nbytes for values in results) - freed)


# -- shapes


def _shape(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    source, result = operator.inputs[0], operator.outputs[0]
    if not graph.is_fixed(source) or not graph.shape(source):
        return None
    return [np.array(graph.shape(source), graph.dtype(result))]


def _rank(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    source = operator.inputs[0]
    return [np.array(len(graph.shape(source)), np.int32)] if graph.has_known_rank(source) else None


# -- moves


def _moved(move: Compute, data: slice = slice(0, 1)) -> Compute:
    """A move of elements; what they stand for must be the same before and after it."""

    def compute(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
        is_same = graph.are_stored_alike(*operator.inputs[data], *operator.outputs)
        return move(graph, operator, inputs) if is_same else None

    return compute


def _axis(graph: EditedGraph, operator: Operator, rank: int) -> int:
    return int(graph.option(operator, "axis")) % max(1, rank)


def _reshape(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    result = operator.outputs[0]
    shape = graph.shape(result)
    return [inputs[0].reshape(shape)] if graph.is_fixed(result) and prod(shape) == inputs[0].size else None


def _transpose(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, order = inputs[0], tuple(int(axis) % max(1, inputs[0].ndim) for axis in inputs[1].reshape(-1))
    return [values.transpose(order)] if len(order) == values.ndim and is_order(order) else None


def _pack(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    if len({values.shape for values in inputs}) != 1:
        return None
    return [np.stack(inputs, _axis(graph, operator, inputs[0].ndim + 1))]


def _unpack(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values = inputs[0]
    if values.ndim == 0:
        return None
    return [np.asarray(part) for part in np.moveaxis(values, _axis(graph, operator, values.ndim), 0)]


def _concatenate(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    axis = _axis(graph, operator, inputs[0].ndim)
    others = {(*values.shape[:axis], *values.shape[axis + 1 :]) for values in inputs}
    fits = len(others) == 1 and inputs[0].ndim > 0 and _has_no_activation(graph, operator)
    return [np.concatenate(inputs, axis)] if fits else None


def _split(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    axis, values = inputs
    if values.ndim == 0:
        return None
    place, parts = int(axis.reshape(-1)[0]) % values.ndim, len(operator.outputs)
    return np.split(values, parts, place) if values.shape[place] % parts == 0 else None


def _split_by_sizes(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, sizes, axis = inputs
    place = int(axis.reshape(-1)[0]) % max(1, values.ndim)
    if values.ndim == 0 or (sizes < 0).any() or int(sizes.sum()) != values.shape[place]:
        return None
    return np.split(values, np.cumsum(sizes.reshape(-1))[:-1].tolist(), place)


def _slice(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, begins, sizes = inputs[0], inputs[1].reshape(-1).tolist(), inputs[2].reshape(-1).tolist()
    if len(begins) != values.ndim or len(sizes) != values.ndim or min(begins, default=0) < 0:
        return None
    ends = [None if size == -1 else begin + size for begin, size in zip(begins, sizes, strict=True)]
    return [values[tuple(map(slice, begins, ends))]]


def _strided_slice(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, (begins, ends, strides) = inputs[0], (rows.reshape(-1).tolist() for rows in inputs[1:])
    unusual = [graph.option(operator, name) for name in ("ellipsisMask", "newAxisMask", "offset")]
    if any(unusual) or not len(begins) == len(ends) == len(strides) <= values.ndim or 0 in strides:
        return None
    masks = {name: int(graph.option(operator, name)) for name in ("beginMask", "endMask", "shrinkAxisMask")}
    taken: list[Any] = []
    for axis, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        no_begin, no_end, is_one = (mask >> axis & 1 for mask in masks.values())
        # TensorFlow and LiteRT differ on a dimension that is dropped and has no begin.
        if is_one and (no_begin or not -values.shape[axis] <= begin < values.shape[axis]):
            return None
        taken.append(begin if is_one else slice(None if no_begin else begin, None if no_end else end, stride))
    return [np.asarray(values[tuple(taken)])]


def _gather(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, indices = inputs
    axis = _axis(graph, operator, values.ndim)
    if graph.option(operator, "batchDims") or values.ndim == 0:
        return None
    is_inside = (indices >= 0).all() and (indices < values.shape[axis]).all()
    return [np.asarray(np.take(values, indices, axis))] if is_inside else None


def _tile(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    repeats = inputs[1].reshape(-1).tolist()
    is_plain = len(repeats) == inputs[0].ndim and min(repeats, default=0) >= 0
    return [np.tile(inputs[0], repeats)] if is_plain and _stays_small(inputs[0], prod(repeats)) else None


def _broadcast(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    values, shape = inputs[0], tuple(inputs[1].reshape(-1).tolist())
    fits = len(shape) >= values.ndim and all(
        size in (1, wanted) for size, wanted in zip(values.shape[::-1], shape[::-1], strict=False)
    )
    return [np.broadcast_to(values, shape)] if fits and min(shape, default=0) >= 0 else None


def _fill(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    shape, value = tuple(inputs[0].reshape(-1).tolist()), inputs[1]
    is_plain = value.size == 1 and min(shape, default=0) >= 0
    return [np.full(shape, value.reshape(()))] if is_plain and _stays_small(value, prod(shape)) else None


def _pad(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    """What is put around quantized values is their zero point, and no zero."""
    values, widths = inputs[0], inputs[1]
    is_plain = widths.shape == (values.ndim, 2) and (widths >= 0).all() and not graph.is_quantized(operator.inputs[0])
    filling = inputs[2].reshape(-1)[0] if len(inputs) > 2 else 0
    return [np.pad(values, widths.tolist(), constant_values=filling)] if is_plain else None


def _stays_small(values: Array, repeats: int) -> bool:
    """Whether a result is worth making: one that lets the file grow too much is not computed at all."""
    return values.nbytes * (repeats - 1) <= _MOST_ADDED_BYTES


# -- numbers


def _cast(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    target = graph.dtype(operator.outputs[0])
    is_exact = inputs[0].dtype.name in _CAST_SOURCES and target in _CAST_TARGETS and _is_plain(graph, operator)
    return [inputs[0].astype(target)] if is_exact else None


def _range(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
    if any(values.size != 1 or values.dtype.name not in _PLAIN_INTEGERS for values in inputs):
        return None
    start, limit, delta = (int(values.reshape(())) for values in inputs)
    if delta == 0 or not _stays_small(inputs[0], len(range(start, limit, delta))):
        return None
    return [np.arange(start, limit, delta, dtype=inputs[0].dtype)]


def _calculated(function: Callable[..., Any], dtypes: frozenset[str]) -> Compute:
    """A function of numbers of these types, element by element."""

    def compute(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
        are_known = len({values.dtype for values in inputs}) == 1 and inputs[0].dtype.name in dtypes
        if not are_known or not _is_plain(graph, operator) or not _has_no_activation(graph, operator):
            return None
        try:
            shape = np.broadcast_shapes(*(values.shape for values in inputs))
        except ValueError:
            return None
        return [np.asarray(function(*inputs))] if _stays_small(inputs[0], prod(shape) // inputs[0].size) else None

    return compute


def _divided(function: Callable[..., Any]) -> Compute:
    """A division of integers, which the kernels refuse to do by zero."""
    compute = _calculated(function, _PLAIN_INTEGERS)

    def checked(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
        return compute(graph, operator, inputs) if inputs[1].all() else None

    return checked


def _toward_zero(a: Array, b: Array) -> Array:
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _reduced(function: Callable[..., Any]) -> Compute:
    """A reduction of plain integers, whose order does not matter."""

    def compute(graph: EditedGraph, operator: Operator, inputs: Arrays) -> Arrays | None:
        values, axes = inputs[0], inputs[1].reshape(-1).tolist()
        is_plain = values.dtype.name in _PLAIN_INTEGERS and _is_plain(graph, operator)
        if not is_plain or not all(-values.ndim <= axis < values.ndim for axis in axes):
            return None
        where = tuple({axis % values.ndim for axis in axes})
        kept = bool(graph.option(operator, "keepDims", False))
        return [np.asarray(function(values, axis=where, keepdims=kept)).astype(values.dtype)]

    return compute


def _is_plain(graph: EditedGraph, operator: Operator) -> bool:
    """Whether stored numbers are the numbers themselves."""
    return not any(graph.is_quantized(index) for index in (*operator.inputs, *operator.outputs))


def _has_no_activation(graph: EditedGraph, operator: Operator) -> bool:
    return int(graph.option(operator, "fusedActivationFunction")) == 0


_NUMBERS: Final = _PLAIN_INTEGERS | {"float32"}
_ALL_INPUTS: Final = slice(0, None)

_COMPUTE: Final[dict[str, Compute]] = {
    "SHAPE": _shape,
    "RANK": _rank,
    "RESHAPE": _moved(_reshape),
    "SQUEEZE": _moved(_reshape),
    "EXPAND_DIMS": _moved(_reshape),
    "TRANSPOSE": _moved(_transpose),
    "PACK": _moved(_pack, _ALL_INPUTS),
    "UNPACK": _moved(_unpack),
    "CONCATENATION": _moved(_concatenate, _ALL_INPUTS),
    "SPLIT": _moved(_split, slice(1, 2)),
    "SPLIT_V": _moved(_split_by_sizes),
    "SLICE": _moved(_slice),
    "STRIDED_SLICE": _moved(_strided_slice),
    "GATHER": _moved(_gather),
    "TILE": _moved(_tile),
    "BROADCAST_TO": _moved(_broadcast),
    "FILL": _moved(_fill, slice(1, 2)),
    "PAD": _moved(_pad),
    "PADV2": _moved(_pad),
    "CAST": _cast,
    "RANGE": _range,
    "ADD": _calculated(np.add, _NUMBERS),
    "SUB": _calculated(np.subtract, _NUMBERS),
    "MUL": _calculated(np.multiply, _NUMBERS),
    "MAXIMUM": _calculated(np.maximum, _PLAIN_INTEGERS),
    "MINIMUM": _calculated(np.minimum, _PLAIN_INTEGERS),
    "FLOOR_DIV": _divided(np.floor_divide),
    "FLOOR_MOD": _divided(np.mod),
    "DIV": _divided(_toward_zero),
    "EQUAL": _calculated(np.equal, _PLAIN_INTEGERS),
    "NOT_EQUAL": _calculated(np.not_equal, _PLAIN_INTEGERS),
    "LESS": _calculated(np.less, _PLAIN_INTEGERS),
    "LESS_EQUAL": _calculated(np.less_equal, _PLAIN_INTEGERS),
    "GREATER": _calculated(np.greater, _PLAIN_INTEGERS),
    "GREATER_EQUAL": _calculated(np.greater_equal, _PLAIN_INTEGERS),
    "LOGICAL_AND": _calculated(np.logical_and, frozenset({"bool"})),
    "LOGICAL_OR": _calculated(np.logical_or, frozenset({"bool"})),
    "LOGICAL_NOT": _calculated(np.logical_not, frozenset({"bool"})),
    "REDUCE_PROD": _reduced(np.prod),
    "REDUCE_MAX": _reduced(np.max),
    "REDUCE_MIN": _reduced(np.min),
    "SUM": _reduced(np.sum),
}

CONSTANT_FOLDING = Rewrite("constant-folding", fold_constants)
