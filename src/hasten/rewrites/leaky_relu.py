"""Recovers LEAKY_RELU, x or α·x below zero, from its spellings; each product is the same, so it is exact."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    NONE,
    activation,
    clamped,
    cone,
    each,
    is_float,
    polynomial,
    replace,
    same_shape,
    scalar,
)
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.edit.graph import EditedGraph, Operator


def recover_leaky_relu(graph: EditedGraph) -> list[Change]:
    """MAXIMUM(x, α·x), RELU(x) - α·RELU(-x), RELU(x) + α·MINIMUM(x, 0), SELECT by sign, PRELU with one slope."""
    changes = []
    for root in each(graph, "MAXIMUM", "MINIMUM", "ADD", "SUB", "SELECT", "SELECT_V2", "PRELU"):
        result = root.outputs[0]
        for x, slope in _spellings(graph, root):
            chain = cone(graph, root, [x])
            # XNNPACK refuses a slope of zero, and a negative one would change the sign of zeros.
            if slope > 0 and chain is not None and is_float(graph, x, result) and same_shape(graph, x, result):
                changes.append(replace(graph, chain, "LEAKY_RELU", [x], options("LeakyReluOptions", alpha=slope)))
                break
    return changes


def _spellings(graph: EditedGraph, root: Operator) -> Iterator[tuple[int, float]]:
    """What x and the slope are, in each way in which the operator can be read."""
    op = graph.op(root)
    if op in {"MAXIMUM", "MINIMUM"}:
        yield from _of_extreme(graph, root)
    elif op in {"ADD", "SUB"} and activation(graph, root) == NONE:
        yield from _of_sum(graph, root)
    elif op in {"SELECT", "SELECT_V2"}:
        yield from _of_choice(graph, root)
    elif op == "PRELU":
        slope = scalar(graph, root.inputs[1])
        if slope is not None:
            yield root.inputs[0], slope


def _of_extreme(graph: EditedGraph, root: Operator) -> Iterator[tuple[int, float]]:
    for x, other in (root.inputs, root.inputs[::-1]):
        slope = _multiple(graph, other, x)
        # Above zero x must win, and below zero its multiple.
        if slope is not None and (slope <= 1 if graph.op(root) == "MAXIMUM" else slope >= 1):
            yield x, slope


def _of_sum(graph: EditedGraph, root: Operator) -> Iterator[tuple[int, float]]:
    """The part above zero and a multiple of the part below it, which is MINIMUM(x, 0), or less RELU(-x)."""
    sign = -1.0 if graph.op(root) == "SUB" else 1.0
    orders = [root.inputs] if sign < 0 else [root.inputs, root.inputs[::-1]]
    for positive, other in orders:
        above = clamped(graph, positive)
        if above.is_fused or (above.low, above.high) != (0.0, inf):
            continue
        for part, factor in _multiples(graph, other):
            below = clamped(graph, part)
            if below.is_fused:
                continue
            if (below.low, below.high) == (-inf, 0.0) and below.tensor == above.tensor:
                yield above.tensor, sign * factor
            if (below.low, below.high) == (0.0, inf) and _multiple(graph, below.tensor, above.tensor) == -1:
                yield above.tensor, -sign * factor


def _of_choice(graph: EditedGraph, root: Operator) -> Iterator[tuple[int, float]]:
    condition, yes, no = root.inputs
    asked = graph.producer(condition)
    if asked is None or graph.op(asked) not in {"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"}:
        return
    x, limit = asked.inputs
    is_greater = graph.op(asked).startswith("GREATER")
    if scalar(graph, x) is not None:
        x, limit, is_greater = limit, x, not is_greater
    kept, scaled = (yes, no) if is_greater else (no, yes)
    slope = _multiple(graph, scaled, x)
    # At zero both branches are zero, so that it does not matter which one is taken.
    if scalar(graph, limit) == 0 and kept == x and slope is not None:
        yield x, slope


def _multiple(graph: EditedGraph, tensor: int, x: int) -> float | None:
    """The factor by which a value is a multiple of another, where one operator makes it: a second one would round."""
    return next((factor for part, factor in _multiples(graph, tensor) if part == x), None)


def _multiples(graph: EditedGraph, tensor: int) -> Iterator[tuple[int, float]]:
    operator = graph.producer(tensor)
    if operator is None or not graph.is_op(operator, "MUL", "NEG"):
        return
    for x in operator.inputs:
        found = None if graph.is_constant(x) else polynomial(graph, tensor, [x])
        if found is not None and found.keys() == {(x,)}:
            yield x, found[(x,)]


LEAKY_RELU = Rewrite("leaky-relu", recover_leaky_relu)
