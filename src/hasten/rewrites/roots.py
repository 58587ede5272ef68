"""Replaces POW with small constant exponents, and divisions by square roots: XNNPACK takes SQRT and RSQRT, not POW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import activation, add_like, each, is_float, made_from, replace, same_shape, scalar
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

# Operators of one input by exponent, with the table of their options.
_UNARY: Final = {2.0: ("SQUARE", "SquareOptions"), 0.5: ("SQRT", ""), -0.5: ("RSQRT", "")}


def simplify_roots(graph: EditedGraph) -> list[Change]:
    """POW by 2, 3, 1/2, -1/2 and -1; a division by a SQRT that nothing else reads."""
    changes = []
    for operator in each(graph, "POW", "DIV"):
        if is_float(graph, *operator.inputs, *operator.outputs):
            changes += _power(graph, operator) if graph.op(operator) == "POW" else _quotient(graph, operator)
    return changes


def _power(graph: EditedGraph, operator: Operator) -> list[Change]:
    x, result = operator.inputs[0], operator.outputs[0]
    exponent = scalar(graph, operator.inputs[1])
    if exponent is None or not same_shape(graph, x, result):
        return []
    if exponent in _UNARY:
        op, table = _UNARY[exponent]
        return [replace(graph, [operator], op, [x], options(table) if table else None)]
    if exponent == 3:
        square = add_like(graph, x, graph.name(result) + "/square")
        graph.insert("SQUARE", [x], [square], before=operator, chosen=options("SquareOptions"))
        return [replace(graph, [operator], "MUL", [x, square], options("MulOptions"))]
    if exponent == -1:
        one = graph.add_constant(np.ones((), np.float32), "one")
        return [replace(graph, [operator], "DIV", [one, x], options("DivOptions"))]
    return []


def _quotient(graph: EditedGraph, operator: Operator) -> list[Change]:
    dividend, divisor = operator.inputs
    root = graph.producer(divisor)
    is_alone = graph.is_read_only_by(divisor, operator) and dividend != divisor
    if root is None or not graph.is_op(root, "SQRT") or not is_alone:
        return []
    (x,) = root.inputs
    result = operator.outputs[0]
    fused = activation(graph, operator)
    if scalar(graph, dividend) == 1 and fused == 0 and same_shape(graph, x, result):
        return [replace(graph, [root, operator], "RSQRT", [x])]
    inverse = add_like(graph, x, graph.name(result) + "/rsqrt")
    graph.insert("RSQRT", [x], [inverse], before=operator)
    chosen = options("MulOptions", fusedActivationFunction=fused)
    made = graph.insert("MUL", [dividend, inverse], [result], before=operator, chosen=chosen)
    graph.remove(root, operator)
    return [made_from(made, [root, operator])]


ROOTS = Rewrite("roots", simplify_roots, ROUNDING)
