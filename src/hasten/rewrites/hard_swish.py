"""Recovers HARD_SWISH, x · clamp(x/6 + 1/2, 0, 1), from the many operators that exporters make of it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    clamped,
    cone,
    each,
    is_float,
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
    from hasten.rewrites.patterns import Clamped

# The last of the operators that clamp: one that multiplies may do it by a fused activation.
_GATES: Final = ("RELU6", "RELU_0_TO_1", "MINIMUM", "MAXIMUM", "ADD", "SUB", "MUL", "DIV")


def recover_hard_swish(graph: EditedGraph) -> list[Change]:
    """A clamped a·x + b, times x and a factor, where the factor brings the clamp to 0…1, a to 1/6 and b to 1/2."""
    changes = []
    for operator in each(graph, *_GATES):
        found = clamped(graph, operator.outputs[0])
        if found.low == 0 and 0 < found.high < inf:
            changes += _from_clamp(graph, operator, found)
    return changes


def _from_clamp(graph: EditedGraph, gate: Operator, found: Clamped) -> list[Change]:
    gated = gate.outputs[0]
    for x in values_above(graph, found.tensor):
        if x == found.tensor and found.is_fused:
            continue
        inner = polynomial(graph, found.tensor, [x], past_activation=found.is_fused)
        if not same_polynomial(inner, {(x,): found.high / 6, (): found.high / 2}):
            continue
        for root in operators_below(graph, gated):
            whole = polynomial(graph, root.outputs[0], [x, gated])
            chain = cone(graph, root, [x]) if same_polynomial(whole, {(x, gated): 1 / found.high}) else None
            if chain is not None and is_float(graph, x) and same_shape(graph, x, root.outputs[0]):
                return [replace(graph, chain, "HARD_SWISH", [x], options("HardSwishOptions"))]
    return []


HARD_SWISH = Rewrite("hard-swish", recover_hard_swish, ROUNDING)
