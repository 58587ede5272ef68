"""Writes operators that a delegate refuses by others that it takes: RELU_0_TO_1, and one value as both operands.

GPU delegates of LiteRT 2.1.5 and later refuse RELU_0_TO_1 (issue 8598) and a tensor that is read twice (issue 9192).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import NONE, activation, add_like, each, is_float, made_from, replace
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph


def clamp_by_two(graph: EditedGraph) -> list[Change]:
    """RELU_0_TO_1 as RELU and MINIMUM with one."""
    changes = []
    for operator in each(graph, "RELU_0_TO_1"):
        x, result = operator.inputs[0], operator.outputs[0]
        if not is_float(graph, x, result):
            continue
        positive = add_like(graph, x, f"{graph.name(result)}/relu")
        one = graph.add_constant(np.ones((), np.float32), "one")
        graph.insert("RELU", [x], [positive], before=operator)
        chosen = options("MaximumMinimumOptions")
        made = graph.insert("MINIMUM", [positive, one], [result], before=operator, chosen=chosen)
        graph.remove(operator)
        changes.append(made_from(made, [operator]))
    return changes


def read_once(graph: EditedGraph) -> list[Change]:
    """x·x as SQUARE, and x + x as 2·x."""
    changes = []
    for operator in each(graph, "MUL", "ADD"):
        x, other = operator.inputs
        if x != other or graph.is_constant(x) or not is_float(graph, x, operator.outputs[0]):
            continue
        if graph.is_op(operator, "ADD"):
            two = graph.add_constant(np.full((), 2, np.float32), "two")
            chosen = options("MulOptions", fusedActivationFunction=activation(graph, operator))
            changes.append(replace(graph, [operator], "MUL", [x, two], chosen))
        elif activation(graph, operator) == NONE:
            changes.append(replace(graph, [operator], "SQUARE", [x], options("SquareOptions")))
    return changes


UNIT_CLAMPS = Rewrite("unit-clamps", clamp_by_two, is_form=True)
READ_ONCE = Rewrite("read-once", read_once, is_form=True)
