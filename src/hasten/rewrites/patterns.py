"""Questions that the patterns of rewrites ask: what a value is as a formula, what clamps it, who else reads it.

Exporters spell one formula in many ways: operands swapped, factors multiplied in another order, a division for a
multiplication. A pattern therefore compares polynomials of tensors, not chains of operators.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import inf, isclose
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.rewrite import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from hasten.model.edit.graph import Array, EditedGraph, Operator, Options

    Polynomial = dict[tuple[int, ...], float]
    """Coefficients by product of tensors, whose indices are sorted: `3·x² + 1` is `{(x, x): 3, (): 1}`."""

VALUE_TYPES: Final = frozenset({"float32", "int8", "uint8"})
"""What delegates compute with; other types are mostly those of shapes and indices."""

CONSTANT_TOLERANCE: Final = 1e-6
"""Constants of a formula may differ by this share: a few roundings to float32, no other formula."""

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
"""Fused activations by the schema's numbers."""
RANGES: Final = {NONE: (-inf, inf), RELU: (0.0, inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
"""What each fused activation clamps to. TANH and SIGN_BIT are in the schema, but hardly any kernel knows them."""
_CLAMPS: Final = {
    "RELU": RANGES[RELU],
    "RELU6": RANGES[RELU6],
    "RELU_N1_TO_1": RANGES[RELU_N1_TO_1],
    "RELU_0_TO_1": (0.0, 1.0),
}

# Formulas of activations and norms have fewer; what has more is no such formula, and its expansion could explode.
_MOST_TERMS: Final = 24
_MOST_OPERATORS: Final = 40
_MOST_VALUES: Final = 80
_MOST_POWER: Final = 4


# -- tensors and operators


def each(graph: EditedGraph, *ops: str, backward: bool = False) -> Iterator[Operator]:
    """The operators of these kinds, or all, that are still there when their turn comes: a change may take more out."""
    for operator in list(reversed(graph.operators) if backward else graph.operators):
        is_there = operator.outputs and graph.producer(operator.outputs[0]) is operator
        if is_there and (not ops or graph.op(operator) in ops):
            yield operator


def is_float(graph: EditedGraph, *tensors: int) -> bool:
    """Whether all tensors hold plain float32 numbers."""
    return all(index >= 0 and graph.dtype(index) == "float32" and not graph.is_quantized(index) for index in tensors)


def open_axes(graph: EditedGraph, tensor: int) -> frozenset[int]:
    """The axes whose size is not known before the model runs."""
    return frozenset(axis for axis, size in enumerate(graph.sizes(tensor)) if size < 0)


def activation(graph: EditedGraph, operator: Operator) -> int:
    """The fused activation of an operator."""
    return int(graph.option(operator, "fusedActivationFunction", NONE))


def set_option(operator: Operator, name: str, value: Any) -> None:
    """Change an option of an operator that has options."""
    setattr(operator.builtinOptions, name, value)


def scalar(graph: EditedGraph, tensor: int) -> float | None:
    """The one value that a float constant holds, however often; None for everything else."""
    values = float_constant(graph, tensor)
    if values is None or not values.size:
        return None
    first = values.flat[0]
    # Its ends tell most large ones apart without a look at the rest.
    return float(first) if first == values.flat[-1] and (values == first).all() else None


def float_constant(graph: EditedGraph, tensor: int) -> Array | None:
    """The values of a plain float32 constant."""
    return graph.constant(tensor) if is_float(graph, tensor) else None


def integers(graph: EditedGraph, tensor: int) -> tuple[int, ...] | None:
    """The values of a constant of integers, flat: axes, sizes, paddings."""
    values = graph.constant(tensor)
    if values is None or values.dtype.kind not in "iu":
        return None
    return tuple(int(value) for value in values.reshape(-1))


def about(value: float | None, expected: float) -> bool:
    """Whether a constant is the expected one, as float32 numbers and their products have it."""
    return value is not None and isclose(value, expected, rel_tol=CONSTANT_TOLERANCE)


# -- formulas


def polynomial(
    graph: EditedGraph, tensor: int, leaves: Collection[int], *, past_activation: bool = False
) -> Polynomial | None:
    """A float value as a polynomial of the leaves and of constants that are no scalars; None if it is no such thing.

    Operators must have no fused activation; `past_activation` asks for what the last one has before its own.
    """
    known: dict[int, Polynomial | None] = {leaf: {(leaf,): 1.0} for leaf in leaves}
    found = _expanded(graph, tensor, known, past_activation)
    return None if found is None else {term: factor for term, factor in found.items() if factor != 0}


def same_polynomial(found: Polynomial | None, expected: Mapping[tuple[int, ...], float]) -> bool:
    """Whether the coefficients are the expected ones; terms of `expected` may name their tensors in any order."""
    wanted = {tuple(sorted(term)): factor for term, factor in expected.items()}
    return (
        found is not None and found.keys() == wanted.keys() and all(about(found[term], wanted[term]) for term in wanted)
    )


def _expanded(
    graph: EditedGraph, tensor: int, known: dict[int, Polynomial | None], past_activation: bool = False
) -> Polynomial | None:
    if tensor not in known:
        # A value that is looked at twice is worked out once, and long chains are given up.
        known[tensor] = None
        if is_float(graph, tensor) and len(known) <= _MOST_VALUES:
            known[tensor] = _worked_out(graph, tensor, known, past_activation)
    return known[tensor]


def _worked_out(
    graph: EditedGraph, tensor: int, known: dict[int, Polynomial | None], past_activation: bool
) -> Polynomial | None:
    if graph.is_constant(tensor):
        value = scalar(graph, tensor)
        return {(tensor,): 1.0} if value is None else {(): value}
    operator = graph.producer(tensor)
    rule = None if operator is None else _RULES.get(graph.op(operator))
    if operator is None or rule is None or (activation(graph, operator) != NONE and not past_activation):
        return None
    parts = []
    for index in operator.inputs:
        part = _expanded(graph, index, known)
        if part is None:
            return None
        parts.append(part)
    found = rule(*parts)
    return found if found is not None and len(found) <= _MOST_TERMS else None


def _sum(first: Polynomial, second: Polynomial) -> Polynomial:
    return {term: first.get(term, 0.0) + second.get(term, 0.0) for term in (*first, *second)}


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for one, factor in first.items():
        for other, times in second.items():
            term = tuple(sorted((*one, *other)))
            found[term] = found.get(term, 0.0) + factor * times
    return found


def _times(first: Polynomial, factor: float) -> Polynomial:
    return {term: times * factor for term, times in first.items()}


def _difference(first: Polynomial, second: Polynomial) -> Polynomial:
    return _sum(first, _times(second, -1.0))


def _square(first: Polynomial) -> Polynomial:
    return _product(first, first)


def _quotient(first: Polynomial, second: Polynomial) -> Polynomial | None:
    divisor = second.get((), 0.0)
    return _times(first, 1.0 / divisor) if second.keys() == {()} and divisor else None


def _power(first: Polynomial, second: Polynomial) -> Polynomial | None:
    exponent = second.get((), 0.0)
    if second.keys() != {()} or exponent not in range(1, _MOST_POWER + 1):
        return None
    found = first
    for _ in range(int(exponent) - 1):
        found = _product(found, first)
    return found


_RULES: Final[dict[str, Callable[..., Polynomial | None]]] = {
    "ADD": _sum,
    "SUB": _difference,
    "MUL": _product,
    "DIV": _quotient,
    "NEG": lambda first: _times(first, -1.0),
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": lambda first, second: _square(_difference(first, second)),
    "POW": _power,
}


def values_above(graph: EditedGraph, tensor: int) -> Iterator[int]:
    """A value and those from which arithmetic made it, nearest first: what a formula may be a formula of."""
    return _spread(tensor, lambda index: _computed_inputs(graph, index))


def operators_below(graph: EditedGraph, tensor: int) -> Iterator[Operator]:
    """The arithmetic operators that a value goes into, nearest first: where a formula may end."""
    for index in _spread(tensor, lambda index: _results(graph, index)):
        operator = graph.producer(index)
        if index != tensor and operator is not None:
            yield operator


def _computed_inputs(graph: EditedGraph, tensor: int) -> list[int]:
    operator = graph.producer(tensor)
    if operator is None or graph.op(operator) not in _RULES:
        return []
    return [index for index in operator.inputs if not graph.is_constant(index)]


def _results(graph: EditedGraph, tensor: int) -> list[int]:
    return [operator.outputs[0] for operator in graph.readers(tensor) if graph.op(operator) in _RULES]


def _spread(start: int, neighbors: Callable[[int], list[int]]) -> Iterator[int]:
    seen = [start]
    for index in seen:
        yield index
        if len(seen) < _MOST_OPERATORS:
            seen += [found for found in dict.fromkeys(neighbors(index)) if found not in seen]


# -- clamps


@dataclass(frozen=True, slots=True)
class Clamped:
    """A value between two limits. `tensor` is what is clamped; `is_fused` if the operator that makes it clamps too."""

    tensor: int
    low: float
    high: float
    is_fused: bool = False

    def within(self, low: float, high: float) -> Clamped:
        """The same, clamped once more."""
        return Clamped(self.tensor, min(max(self.low, low), high), min(max(self.high, low), high), self.is_fused)


def clamped(graph: EditedGraph, tensor: int) -> Clamped:
    """What a float value is clamped to, by whatever operators; without limits where nothing clamps it."""
    operator = graph.producer(tensor)
    if operator is None or not is_float(graph, tensor):
        return Clamped(tensor, -inf, inf)
    source, low, high = _limits(graph, operator)
    if source is not None:
        return clamped(graph, source).within(low, high)
    fused = activation(graph, operator) if graph.op(operator) in _RULES else NONE
    return Clamped(tensor, *RANGES.get(fused, RANGES[NONE]), fused != NONE)


def _limits(graph: EditedGraph, operator: Operator) -> tuple[int | None, float, float]:
    """What one operator clamps and to what; no tensor for an operator that does not clamp."""
    op = graph.op(operator)
    if op in _CLAMPS:
        return (operator.inputs[0], *_CLAMPS[op])
    if op in {"MAXIMUM", "MINIMUM"}:
        for place, other in ((0, 1), (1, 0)):
            limit = scalar(graph, operator.inputs[other])
            source = operator.inputs[place]
            if limit is not None and graph.shape(source) == graph.shape(operator.outputs[0]):
                return (source, limit, inf) if op == "MAXIMUM" else (source, -inf, limit)
    return (None, -inf, inf)


# -- replacing


def cone(graph: EditedGraph, root: Operator, leaves: Collection[int]) -> list[Operator] | None:
    """The operators that compute the root's output from the leaves and constants, in their order.

    None if they need more than that, or if something else reads what they compute on the way.
    """
    inside = {id(root)}
    pending = [root]
    while pending:
        for index in pending.pop().inputs:
            operator = graph.producer(index)
            if index in leaves or (operator is None and (index < 0 or graph.is_constant(index))):
                continue
            if operator is None or len(operator.outputs) != 1 or len(inside) > _MOST_OPERATORS:
                return None
            if id(operator) not in inside:
                inside.add(id(operator))
                pending.append(operator)
    found = [operator for operator in graph.operators if id(operator) in inside]
    inner = [operator.outputs[0] for operator in found if operator is not root]
    readers = (reader for index in inner for reader in graph.readers(index))
    is_closed = all(id(reader) in inside for reader in readers) and not set(inner).intersection(graph.outputs)
    return found if is_closed else None


def replace(
    graph: EditedGraph, old: list[Operator], op: str, inputs: list[int], chosen: Options | None = None
) -> Change:
    """Put one operator in the place of several, the last of which writes their result."""
    root = old[-1]
    made = graph.insert(op, inputs, root.outputs, before=root, chosen=chosen)
    graph.remove(*old)
    return made_from(made, old)


def made_from(made: Operator, old: list[Operator], **facts: Any) -> Change:
    """Note from which operators a new one was made."""
    made.nodes = nodes_of(old)
    return Change(made.nodes, facts)


def nodes_of(operators: Collection[Operator]) -> tuple[int, ...]:
    """The nodes of the file that operators stand for, each once."""
    return tuple(sorted({node for operator in operators for node in operator.nodes}))


def drop_unread(graph: EditedGraph, operator: Operator) -> None:
    """Take an operator out if nothing reads what it writes."""
    if not any(graph.readers(index) or index in graph.outputs for index in operator.outputs):
        graph.remove(operator)


def target_shape(graph: EditedGraph, tensor: int) -> list[int]:
    """A tensor's shape as RESHAPE takes it: the first size may be open."""
    sizes = list(graph.shape(tensor))
    return [-1, *sizes[1:]] if 0 in open_axes(graph, tensor) else sizes


def insert_reshape(graph: EditedGraph, source: int, result: int, before: Operator) -> Operator:
    """Give a value the shape of another tensor, which holds it then."""
    target = target_shape(graph, result)
    shape = graph.add_constant(np.asarray(target, np.int32), "shape")
    chosen = options("ReshapeOptions", newShape=target)
    return graph.insert("RESHAPE", [source, shape], [result], before=before, chosen=chosen)


def same_shape(graph: EditedGraph, first: int, second: int) -> bool:
    """Whether two values have one shape, open sizes included."""
    return graph.shape(first) == graph.shape(second) and open_axes(graph, first) == open_axes(graph, second)


def add_like(graph: EditedGraph, tensor: int, name: str) -> int:
    """Add a tensor that is declared as another one is, open sizes included."""
    made = graph.add_tensor(graph.shape(tensor), tensor, name)
    graph.tensor(made).shapeSignature = deepcopy(graph.tensor(tensor).shapeSignature)
    return made
