"""How each kind of operator computes the same on tensors whose dimensions stand in another order.

A rule tells two things: which orders the tensors of an operator have if one of them has a certain order
(`orders_around`), and what to change in the operator itself: axes, paddings, constants (`reorder`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.reader import NO_TENSOR
from hasten.rewrites.orders import Order, inverse, ordered, through_reshape, without
from hasten.rewrites.reshapes import RESHAPE_KINDS, can_be_written, is_to_known_shape, write_reshape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hasten.model.edit.graph import Array, EditedGraph, Operator

    Orders = dict[int, Order]
    """The order in which each tensor of an operator would be stored. Constants and parameters are not among them."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Where an operator has its data, and what of its parameters depends on the order of dimensions."""

    data: tuple[int, ...] | None = None
    """The inputs whose dimensions are those of the output; None for all, which then may broadcast."""
    axes: tuple[int, ...] = ()
    """Inputs that hold numbers of dimensions."""
    rows: tuple[int, ...] = ()
    """Inputs that hold a row for each dimension."""
    axis_option: bool = False
    """Whether the option `axis` is the number of a dimension."""
    is_met: Callable[[EditedGraph, Operator, Order], bool] | None = None
    """What must hold besides."""


# -- what must hold


def _keeps_last(graph: EditedGraph, operator: Operator, order: Order) -> bool:
    """These work along the last dimension."""
    return order[-1] == len(order) - 1


def _keeps_rows(graph: EditedGraph, operator: Operator, order: Order) -> bool:
    """A dense layer works along the last dimension, too, if it leaves the others as they are."""
    return _keeps_last(graph, operator, order) and bool(graph.option(operator, "keepNumDims", False))


def _has_equal_shapes(graph: EditedGraph, operator: Operator, order: Order) -> bool:
    """SELECT has another meaning where shapes differ."""
    return len({graph.sizes(index) for index in (*operator.inputs, *operator.outputs)}) == 1


def _gathers_by_list(graph: EditedGraph, operator: Operator, order: Order) -> bool:
    """Indices of more dimensions would put more dimensions into the output."""
    indices = operator.inputs[1]
    ranked = graph.has_known_rank(indices) and len(graph.shape(indices)) <= 1
    return ranked and graph.option(operator, "batchDims") == 0


def _slices_plainly(graph: EditedGraph, operator: Operator, order: Order) -> bool:
    """No dimension is added, rows are missing for the last dimensions only, and they hold ends and no lengths."""
    unusual = any(graph.option(operator, name) for name in ("ellipsisMask", "newAxisMask", "offset"))
    rows = [graph.constant(index) for index in operator.inputs[1:]]
    lengths = {None if values is None else values.size for values in rows}
    return not unusual and lengths <= set(range(1, len(order) + 1)) and len(lengths) == 1


_ELEMENTWISE: Final = (
    *("ABS", "ADD", "ADD_N", "ATAN2", "BITWISE_XOR", "CAST", "CEIL", "COS", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP"),
    *("FAKE_QUANT", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU"),
    *("LESS", "LESS_EQUAL", "LOG", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL"),
    *("NEG", "NOT_EQUAL", "POW", "PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RIGHT_SHIFT"),
    *("ROUND", "RSQRT", "SELECT_V2", "SIGN", "SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH"),
    "ZEROS_LIKE",
)
_REDUCTIONS: Final = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")
_ALONG_LAST: Final = ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION", "TOPK_V2")
# Their result depends on the order of its terms.
_ROUNDED: Final = frozenset({"MEAN", "SUM", "REDUCE_PROD"})

_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(_ELEMENTWISE, _Rule()),
    **dict.fromkeys(_REDUCTIONS, _Rule((0,), axes=(1,))),
    **dict.fromkeys(_ALONG_LAST, _Rule((0,), is_met=_keeps_last)),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD", "TILE", "BROADCAST_TO"), _Rule((0,), rows=(1,))),
    **dict.fromkeys(("CUMSUM", "REVERSE_V2", "ARG_MAX", "ARG_MIN"), _Rule((0,), axes=(1,))),
    "FULLY_CONNECTED": _Rule((0,), is_met=_keeps_rows),
    "SELECT": _Rule(is_met=_has_equal_shapes),
    "CONCATENATION": _Rule(axis_option=True),
    "PACK": _Rule(axis_option=True),
    "UNPACK": _Rule((0,), axis_option=True),
    "SPLIT": _Rule((1,), axes=(0,)),
    "SPLIT_V": _Rule((0,), axes=(2,)),
    "GATHER": _Rule((0,), axis_option=True, is_met=_gathers_by_list),
    "SLICE": _Rule((0,), rows=(1, 2)),
    "STRIDED_SLICE": _Rule((0,), is_met=_slices_plainly),
}


# -- the orders of an operator's tensors


def orders_around(graph: EditedGraph, operator: Operator, tensor: int, order: Order, *, exact: bool) -> Orders | None:
    """The orders of an operator's tensors if one of them has this order; None where the operator cannot follow.

    `exact` leaves out operators whose results are rounded in another way then.
    """
    op = graph.op(operator)
    if op in RESHAPE_KINDS:
        reshaped = _orders_around_reshape(graph, operator, tensor, order)
        return _flattened(graph, operator, tensor, order) if reshaped is None and not exact else reshaped
    rule = _RULES.get(op)
    if rule is None or (op in _ROUNDED and not _rounds_alike(graph, operator, exact=exact)):
        return None
    if not _has_parameters(graph, operator, rule, len(order)):
        return None
    if op == "PACK":
        return _orders_around_pack(graph, operator, tensor, order)
    gone = _dropped(graph, operator, len(order)) if tensor in operator.inputs else frozenset[int]()
    if tensor in operator.outputs and _dropped(graph, operator, len(order) + 1):
        return None  # where the dropped dimension stood is anybody's guess
    if rule.is_met is not None and not rule.is_met(graph, operator, order):
        return None
    places = range(len(operator.inputs)) if rule.data is None else rule.data
    sources = _spread(graph, (operator.inputs[place] for place in places), order, may_broadcast=rule.data is None)
    results = _spread(graph, operator.outputs, without(order, gone))
    found: Orders = {} if sources is None or results is None else sources | results
    return found if tensor in found else None


def _spread(graph: EditedGraph, tensors: Iterable[int], order: Order, *, may_broadcast: bool = False) -> Orders | None:
    found: Orders = {}
    for index in tensors:
        if index == NO_TENSOR or not graph.has_known_rank(index):
            return None
        rank = len(graph.shape(index))
        if graph.is_constant(index):
            if graph.constant(index) is None or rank > len(order) or (rank < len(order) and not may_broadcast):
                return None
        elif not (may_broadcast and _has_one_element(graph, index)):
            if rank != len(order) or graph.tensor(index).isVariable:
                return None
            found[index] = order
    return found


def _has_one_element(graph: EditedGraph, index: int) -> bool:
    """Such a one broadcasts in the same way in every order."""
    return prod(graph.shape(index)) == 1 and graph.is_fixed(index)


def _rounds_alike(graph: EditedGraph, operator: Operator, *, exact: bool) -> bool:
    """Whether a reduction gives what it gave but for the rounding that is allowed: plain integers have none.

    Quantized ones would differ by a whole step: LiteRT's own kernel rounds in another way along height and width.
    """
    source = operator.inputs[0]
    is_integer = graph.dtype(source) in {"int32", "int64"}
    return not graph.is_quantized(source) and (is_integer or not exact)


def _has_parameters(graph: EditedGraph, operator: Operator, rule: _Rule, rank: int) -> bool:
    """Whether all that must change with the order is in the file."""
    axes = [_parameter(graph, operator, place) for place in rule.axes]
    rows = [_parameter(graph, operator, place) for place in rule.rows]
    has_options = operator.builtinOptions is not None or not (
        rule.axis_option or graph.is_op(operator, "STRIDED_SLICE")
    )
    is_whole = all(values is not None and values.ndim > 0 and len(values) == rank for values in rows)
    return has_options and is_whole and all(values is not None for values in axes)


def _parameter(graph: EditedGraph, operator: Operator, place: int) -> Array | None:
    return graph.constant(operator.inputs[place]) if place < len(operator.inputs) else None


def _dropped(graph: EditedGraph, operator: Operator, rank: int) -> frozenset[int]:
    """The dimensions of the data that the output does not have."""
    op = graph.op(operator)
    axes: Sequence[int] = ()
    if op in {"ARG_MAX", "ARG_MIN"} or (op in _REDUCTIONS and not graph.option(operator, "keepDims", False)):
        values = _parameter(graph, operator, 1)
        axes = () if values is None else values.reshape(-1).tolist()
    elif op == "UNPACK" or (op == "GATHER" and graph.shape(operator.inputs[1]) == ()):
        axes = (int(graph.option(operator, "axis")),)
    elif op == "STRIDED_SLICE":
        mask = int(graph.option(operator, "shrinkAxisMask"))
        axes = [axis for axis in range(rank) if mask >> axis & 1]
    return frozenset(axis % rank for axis in axes)


def _orders_around_pack(graph: EditedGraph, operator: Operator, tensor: int, order: Order) -> Orders | None:
    if tensor not in operator.outputs:
        return None
    axis = int(graph.option(operator, "axis")) % len(order)
    sources = _spread(graph, operator.inputs, without(order, {axis}))
    return None if sources is None else sources | {tensor: order}


def _orders_around_reshape(graph: EditedGraph, operator: Operator, tensor: int, order: Order) -> Orders | None:
    source, result = operator.inputs[0], operator.outputs[0]
    if graph.is_constant(source) or (graph.is_op(operator, "RESHAPE") and not is_to_known_shape(graph, operator)):
        return None
    if not graph.has_known_rank(source) or not graph.has_known_rank(result):
        return None
    before, after = graph.sizes(source), graph.sizes(result)
    if not can_be_written(after):
        return None
    if tensor == source:
        found = through_reshape(order, before, after)
        return None if found is None else {source: order, result: found}
    found = through_reshape(order, after, before)
    return None if found is None else {source: found, result: order}


def _flattened(graph: EditedGraph, operator: Operator, tensor: int, order: Order) -> Orders | None:
    """A RESHAPE that flattens for a FULLY_CONNECTED, whose weights can be brought into the same order."""
    dense = graph.only_reader(operator.outputs[0])
    if dense is None or not graph.is_op(dense, "FULLY_CONNECTED") or dense.inputs[0] != operator.outputs[0]:
        return None
    if tensor != operator.inputs[0] or order[0] != 0:
        return None
    before, after = graph.sizes(tensor), graph.sizes(operator.outputs[0])
    if len(after) != 2 or before[0] != after[0] or -1 in before[1:] or prod(before[1:]) != after[1]:
        return None
    return {tensor: order} if _has_own_weights(graph, dense, after[1]) else None


def _has_own_weights(graph: EditedGraph, dense: Operator, columns: int) -> bool:
    """Whether the columns of the weights can be put into another order: a plain matrix that nobody else reads."""
    weights = dense.inputs[1]
    values = graph.constant(weights)
    if values is None or values.ndim != 2 or values.shape[1] != columns or not graph.is_read_only_by(weights, dense):
        return False
    quantization = graph.tensor(weights).quantization
    is_by_rows = quantization is None or (quantization.quantizedDimension == 0 and quantization.details is None)
    return is_by_rows and graph.option(dense, "weightsFormat") == 0


# -- changing the operator


class Reordering:
    """Changes operators of a graph for tensors in other orders. A constant that several of them read is made once."""

    def __init__(self, graph: EditedGraph) -> None:
        self._graph = graph
        self._made: dict[tuple[int, Order], int] = {}

    def reorder(self, operator: Operator, orders: Orders) -> None:
        """Let an operator compute on tensors that are stored in these orders."""
        graph, op = self._graph, self._graph.op(operator)
        if op in RESHAPE_KINDS:
            self._reorder_reshape(operator, orders)
            return
        rule = _RULES[op]
        places = range(len(operator.inputs)) if rule.data is None else rule.data
        whole = orders[operator.outputs[0]]
        # All data have one order; that of the output, if all of them are constants.
        order = next((orders[index] for place in places if (index := operator.inputs[place]) in orders), whole)
        if op == "PACK":  # the data lack a dimension, and its number is one of the output's
            order = without(whole, {int(graph.option(operator, "axis")) % len(whole)})
        for place in places:
            if graph.is_constant(operator.inputs[place]):
                graph.set_input(operator, place, self._constant(operator.inputs[place], order))
        if op == "STRIDED_SLICE":
            self._reorder_strided_slice(operator, order)
        self._reorder_parameters(operator, rule, whole if op == "PACK" else order)

    def _reorder_parameters(self, operator: Operator, rule: _Rule, order: Order) -> None:
        graph, places = self._graph, inverse(order)
        for place in rule.axes:
            values = self._values(operator, place)
            moved = [places[int(axis) % len(order)] for axis in values.reshape(-1)]
            self._set(operator, place, np.array(sorted(moved)).reshape(values.shape))
        for place in rule.rows:
            self._set(operator, place, self._values(operator, place)[list(order)])
        if rule.axis_option:
            axis = int(graph.option(operator, "axis")) % len(order)
            operator.builtinOptions.axis = places[axis]

    def _reorder_strided_slice(self, operator: Operator, order: Order) -> None:
        """Missing rows take all of their dimension; the bits of a mask move like the rows."""
        rank, options = len(order), operator.builtinOptions
        given = self._values(operator, 1).size
        masks = {name: int(getattr(options, name)) for name in ("beginMask", "endMask", "shrinkAxisMask")}
        for name in ("beginMask", "endMask"):
            masks[name] |= sum(1 << axis for axis in range(given, rank))
        for place, filling in ((1, 0), (2, 0), (3, 1)):
            rows = np.concatenate([self._values(operator, place), np.full(rank - given, filling)])
            self._set(operator, place, rows[list(order)])
        for name, mask in masks.items():
            setattr(options, name, sum(1 << new for new, axis in enumerate(order) if mask >> axis & 1))

    def _reorder_reshape(self, operator: Operator, orders: Orders) -> None:
        graph, source, result = self._graph, operator.inputs[0], operator.outputs[0]
        if result in orders:
            write_reshape(graph, operator, ordered(graph.sizes(result), orders[result]))
            return
        (dense,) = graph.readers(result)
        weights = dense.inputs[1]
        values = graph.constant(weights)
        assert values is not None  # `_has_own_weights` has seen them
        spread = values.reshape(values.shape[0], *graph.shape(source)[1:]).transpose(orders[source])
        graph.set_input(dense, 1, graph.add_constant(spread.reshape(values.shape), graph.name(weights), like=weights))

    def _constant(self, index: int, order: Order) -> int:
        """A constant in another order, which has all dimensions then; one of a single element stays as it is."""
        graph = self._graph
        values = graph.constant(index)
        assert values is not None  # `_spread` has seen it
        if values.size == 1:
            return index
        key = (index, order)
        if key not in self._made:
            missing = len(order) - values.ndim
            spread = values.reshape((1,) * missing + values.shape).transpose(order)
            made = self._made[key] = graph.add_constant(spread, graph.name(index), like=index)
            quantization = graph.tensor(made).quantization
            if graph.is_quantized(made) and len(quantization.scale) > 1:
                quantization.quantizedDimension = order.index(quantization.quantizedDimension + missing)
        return self._made[key]

    def _values(self, operator: Operator, place: int) -> Array:
        values = self._graph.constant(operator.inputs[place])
        assert values is not None  # `orders_around` has seen it
        return values

    def _set(self, operator: Operator, place: int, values: np.ndarray[Any, Any]) -> None:
        graph, old = self._graph, operator.inputs[place]
        made = graph.add_constant(values.astype(graph.dtype(old)), graph.name(old))
        graph.set_input(operator, place, made)
