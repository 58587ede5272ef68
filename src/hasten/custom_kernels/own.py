"""hasten's own kernels: which operators of a model each can take, and what it must know of them.

Only forms that LiteRT 2.3 runs on built-in kernels many times slower than plain C are offered; XNNPACK has the rest.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.custom_kernels.offer import MAX_RANK, Found, Offer, encoded
from hasten.engine import abi
from hasten.model.graph import BITS_OF_DTYPE
from hasten.model.reader import NO_TENSOR
from hasten.rewrites.layer_norm import layer_norms
from hasten.rewrites.patterns import nodes_of
from hasten.rewrites.roots import ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hasten.model.edit.graph import EditedGraph, Operator

    Array = NDArray[Any]
    Taken = tuple[tuple[int, ...], bytes]
    """The inputs that the engine hands over, and the options of the custom operator."""
    Find = Callable[[EditedGraph, Operator], Taken | None]

LAYER_NORM: Final = "layer_norm"
NORM_TOLERANCE: Final = 1e-5
"""Of the largest output: sums in another order differ by a few units in the last place."""
_MOVABLE_BITS: Final = (8, 16, 32, 64)
_REFLECT: Final = 0
_INDEX_DTYPES: Final = ("int32", "int64")
_FLOOR_DTYPES: Final = {
    "FLOOR_DIV": ("float32", "int8", "int16", "int32"),
    "FLOOR_MOD": ("float32", "int8", "int16", "int32", "int64"),
}


def own_kernels(graph: EditedGraph, kernel: str) -> list[Found]:
    """The places in a graph where one of hasten's own kernels could stand."""
    if kernel == LAYER_NORM:
        return list(_layer_norms(graph))
    ops, arity, find = _FINDERS[kernel]
    found = []
    for operator in graph.operators:
        taken = find(graph, operator) if graph.is_op(operator, *ops) and _is_complete(operator, arity) else None
        if taken is not None:
            inputs, data = taken
            outputs = tuple(operator.outputs)
            offer = Offer(f"hasten.{kernel}", graph.op(operator), operator.nodes, inputs, outputs, data)
            found.append(Found(offer, (operator,)))
    return found


def _strided_slice(graph: EditedGraph, operator: Operator) -> Taken | None:
    """Slices with a stride: XNNPACK takes those without. One of a dynamic length is left to LiteRT."""
    source, *indices = operator.inputs
    begin, end, strides = (_integers(graph, index, "int32") for index in indices)
    if begin is None or end is None or strides is None:
        return None
    masks = [graph.option(operator, f"{name}Mask") for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")]
    if graph.option(operator, "offset", False) or not _moves(graph, source) or not (strides != 1).any():
        return None
    if _rank(graph, source) + int(masks[3]).bit_count() > abi.MAX_RANK:
        return None
    return (source,), encoded(struct.pack("<5i", *masks), {1: begin, 2: end, 3: strides})


def _mirror_pad(graph: EditedGraph, operator: Operator) -> Taken | None:
    source, amounts = operator.inputs
    paddings = _integers(graph, amounts)
    if paddings is None or paddings.shape != (_rank(graph, source), 2) or not _moves(graph, source):
        return None
    skipped = 1 if int(graph.option(operator, "mode")) == _REFLECT else 0
    return (source,), encoded(struct.pack("<i", skipped), {1: paddings})


def _cumsum(graph: EditedGraph, operator: Operator) -> Taken | None:
    source = operator.inputs[0]
    axis = _axis_before_last(graph, operator, "int32")
    if axis is None or graph.dtype(source) not in ("float32", "int32", "int64"):
        return None
    flags = [int(graph.option(operator, name, False)) for name in ("exclusive", "reverse")]
    return (source,), encoded(struct.pack("<2i", *flags), {1: axis})


def _arg_max(graph: EditedGraph, operator: Operator) -> Taken | None:
    """Where several elements lie behind the axis: LiteRT treats NaN in another way where there is one."""
    source = operator.inputs[0]
    axis = _axis_before_last(graph, operator)
    if axis is None or graph.dtype(source) not in ("float32", "int8", "uint8", "int32", "bool"):
        return None
    shape = graph.shape(source)
    if math.prod(shape[int(axis.reshape(-1)[0]) % len(shape) + 1 :]) == 1:
        return None
    return (source,), encoded(struct.pack("<i", graph.is_op(operator, "ARG_MAX")), {1: axis})


def _gather(graph: EditedGraph, operator: Operator) -> Taken | None:
    """Along the last axis: LiteRT copies each element by a call of its own."""
    source, index = operator.inputs
    axis, rank = int(graph.option(operator, "axis")), _rank(graph, source)
    if not _moves(graph, source) or axis not in (-1, rank - 1) or int(graph.option(operator, "batchDims")) != 0:
        return None
    indices = graph.constant(index)
    if (indices is None and not graph.is_filled(index)) or graph.dtype(index) not in ("int16", *_INDEX_DTYPES):
        return None
    return ((source, index), b"") if indices is None else ((source,), encoded(b"", {1: indices}))


def _floor(graph: EditedGraph, operator: Operator) -> Taken | None:
    a, b = operator.inputs
    is_known = graph.dtype(a) in _FLOOR_DTYPES[graph.op(operator)] and not graph.is_quantized(a)
    if not is_known or max(_rank(graph, a), _rank(graph, b)) > MAX_RANK:
        return None
    constants = {place: values for place, index in enumerate((a, b)) if (values := graph.constant(index)) is not None}
    filled = tuple(index for index in (a, b) if graph.is_filled(index))
    return (filled, encoded(b"", constants)) if filled and len(filled) + len(constants) == 2 else None


# Kernel → the operators that it takes, how many inputs they have, and what finds those that it should take.
_FINDERS: Final[dict[str, tuple[tuple[str, ...], int, Find]]] = {
    "strided_slice": (("STRIDED_SLICE",), 4, _strided_slice),
    "mirror_pad": (("MIRROR_PAD",), 2, _mirror_pad),
    "cumsum": (("CUMSUM",), 2, _cumsum),
    "arg_max": (("ARG_MAX", "ARG_MIN"), 2, _arg_max),
    "gather": (("GATHER",), 2, _gather),
    "floor_div": (("FLOOR_DIV",), 2, _floor),
    "floor_mod": (("FLOOR_MOD",), 2, _floor),
}
OWN_KERNELS: Final = (*_FINDERS, LAYER_NORM)
"""The names in the library, without its prefix."""


def _layer_norms(graph: EditedGraph) -> Iterator[Found]:
    """Norms over the last axis, however they are spelled. Roots are written alike first: nodes keep their numbers."""
    ROOTS.apply(graph)
    for norm in layer_norms(graph):
        shape = graph.shape(norm.x)
        constants = [_channels(values, shape[-1]) for values in (norm.scale, norm.shift) if values is not None]
        if norm.axes != (len(shape) - 1,) or len(shape) > MAX_RANK or any(values is None for values in constants):
            continue
        attributes = struct.pack("<f2i", norm.epsilon, norm.scale is not None, norm.shift is not None)
        data = encoded(attributes, {place: values for place, values in enumerate(constants, 1) if values is not None})
        nodes, result = nodes_of(norm.operators), norm.operators[-1].outputs[0]
        offer = Offer("hasten.layer_norm", "LAYER_NORM", nodes, (norm.x,), (result,), data, NORM_TOLERANCE)
        yield Found(offer, tuple(norm.operators))


def _channels(values: Array, size: int) -> Array | None:
    """A number for each element of the last axis; None where other axes have numbers of their own."""
    if values.size == 1 or (values.size == size and values.shape[-1:] == (size,)):
        return np.broadcast_to(values.reshape(-1), (size,))
    return None


def _is_complete(operator: Operator, arity: int) -> bool:
    """Whether it has the inputs and the output that its kind has: a file may hold anything."""
    return len(operator.inputs) == arity and NO_TENSOR not in operator.inputs and len(operator.outputs) == 1


def _rank(graph: EditedGraph, index: int) -> int:
    return len(graph.shape(index))


def _moves(graph: EditedGraph, index: int) -> bool:
    """Whether a kernel that only copies can take a tensor."""
    bits = BITS_OF_DTYPE.get(graph.dtype(index))
    return bits in _MOVABLE_BITS and 1 <= _rank(graph, index) <= MAX_RANK and graph.is_filled(index)


def _integers(graph: EditedGraph, index: int, *dtypes: str) -> Array | None:
    """A constant of one of these types; of 32 or 64 bits where none is named."""
    return graph.constant(index) if graph.dtype(index) in (dtypes or _INDEX_DTYPES) else None


def _axis_before_last(graph: EditedGraph, operator: Operator, *dtypes: str) -> Array | None:
    """The constant that names an axis of the first input, if that is any but the last."""
    source, index = operator.inputs
    rank, named = _rank(graph, source), _integers(graph, index, *dtypes)
    if named is None or named.size != 1 or rank > MAX_RANK or not graph.is_filled(source):
        return None
    axis = int(named.reshape(-1)[0])
    return named if 0 <= (axis + rank if axis < 0 else axis) < rank - 1 else None
