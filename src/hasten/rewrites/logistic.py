"""Recovers LOGISTIC from formulas by EXP and TANH, and with it SiLU as x · LOGISTIC(x): XNNPACK takes both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    add_like,
    cone,
    each,
    is_float,
    made_from,
    operators_below,
    polynomial,
    replace,
    same_polynomial,
    same_shape,
    values_above,
)
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator


def recover_logistic(graph: EditedGraph) -> list[Change]:
    """1 / (1 + exp(-x)), y / (1 + exp(-x)), (1 + tanh(x/2)) / 2, and x/2 · (1 + tanh(x/2))."""
    changes = []
    for operator in each(graph, "EXP"):
        changes += _from_exponential(graph, operator)
    for operator in each(graph, "TANH"):
        changes += _from_tanh(graph, operator)
    return changes


def _from_exponential(graph: EditedGraph, exponential: Operator) -> list[Change]:
    argument, value = exponential.inputs[0], exponential.outputs[0]
    for x in values_above(graph, argument):
        if not same_polynomial(polynomial(graph, argument, [x]), {(x,): -1.0}):
            continue
        for below in operators_below(graph, value):
            if same_polynomial(polynomial(graph, below.outputs[0], [value]), {(): 1.0, (value,): 1.0}):
                return _divided(graph, x, below.outputs[0])
    return []


def _divided(graph: EditedGraph, x: int, divisor: int) -> list[Change]:
    """The division by 1 + exp(-x): of one, which leaves LOGISTIC, or of anything else, which leaves a factor of it."""
    root = graph.only_reader(divisor)
    if root is None or not graph.is_op(root, "DIV") or root.inputs[1] != divisor or root.inputs[0] == divisor:
        return []
    dividend, result = root.inputs[0], root.outputs[0]
    chain = cone(graph, root, [x, dividend])
    if chain is None or not is_float(graph, x, dividend, result) or not same_shape(graph, x, divisor):
        return []
    is_one = same_polynomial(polynomial(graph, dividend, []), {(): 1.0})
    if is_one and graph.option(root, "fusedActivationFunction") == 0 and same_shape(graph, x, result):
        return [replace(graph, chain, "LOGISTIC", [x])]
    gate = add_like(graph, x, graph.name(result) + "/logistic")
    graph.insert("LOGISTIC", [x], [gate], before=root)
    fused = graph.option(root, "fusedActivationFunction")
    chosen = options("MulOptions", fusedActivationFunction=fused)
    made = graph.insert("MUL", [dividend, gate], [result], before=root, chosen=chosen)
    graph.remove(*chain)
    return [made_from(made, chain)]


def _from_tanh(graph: EditedGraph, tanh: Operator) -> list[Change]:
    argument, value = tanh.inputs[0], tanh.outputs[0]
    for x in values_above(graph, argument):
        if not same_polynomial(polynomial(graph, argument, [x]), {(x,): 0.5}):
            continue
        for root in operators_below(graph, value):
            whole = polynomial(graph, root.outputs[0], [x, value])
            chain = cone(graph, root, [x])
            if chain is None or not is_float(graph, x) or not same_shape(graph, x, root.outputs[0]):
                continue
            if same_polynomial(whole, {(x,): 0.5, (x, value): 0.5}):
                return [_silu(graph, x, chain)]
            if same_polynomial(whole, {(): 0.5, (value,): 0.5}):
                return [replace(graph, chain, "LOGISTIC", [x])]
    return []


def _silu(graph: EditedGraph, x: int, chain: list[Operator]) -> Change:
    root = chain[-1]
    gate = add_like(graph, x, graph.name(root.outputs[0]) + "/logistic")
    graph.insert("LOGISTIC", [x], [gate], before=root)
    made = graph.insert("MUL", [x, gate], root.outputs, before=root, chosen=options("MulOptions"))
    graph.remove(*chain)
    return made_from(made, chain)


LOGISTIC = Rewrite("logistic", recover_logistic, ROUNDING)
