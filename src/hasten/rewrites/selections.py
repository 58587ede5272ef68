"""SELECT by a comparison of its own two values as MAXIMUM or MINIMUM; on request any SELECT as arithmetic with a mask.

GPU delegates take comparisons only if a CAST reads them, and some take no SELECT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    add_like,
    cone,
    each,
    float_constant,
    is_float,
    made_from,
    open_axes,
    replace,
    same_shape,
    scalar,
)
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

_GREATER: Final = frozenset({"GREATER", "GREATER_EQUAL"})
_LESS: Final = frozenset({"LESS", "LESS_EQUAL"})


def recover_extremes(graph: EditedGraph) -> list[Change]:
    """The greater or the lesser of two values, chosen by comparing them."""
    changes = []
    for operator in each(graph, "SELECT", "SELECT_V2"):
        condition, yes, no = operator.inputs
        compared = graph.producer(condition)
        if compared is None or graph.op(compared) not in _GREATER | _LESS or not is_float(graph, yes, no):
            continue
        is_straight = list(compared.inputs) == [yes, no]
        chain = cone(graph, operator, [yes, no])
        if chain is None or not (is_straight or list(compared.inputs) == [no, yes]):
            continue
        op = "MAXIMUM" if (graph.op(compared) in _GREATER) == is_straight else "MINIMUM"
        changes.append(replace(graph, chain, op, [yes, no], options("MaximumMinimumOptions")))
    return changes


def mask_instead(graph: EditedGraph) -> list[Change]:
    """mask·yes + (1 - mask)·no, which is exact for finite values but for the sign of zeros: one product is zero."""
    changes = []
    for operator in each(graph, "SELECT", "SELECT_V2"):
        condition, yes, no = operator.inputs
        result = operator.outputs[0]
        # SELECT with a condition of one axis chooses whole rows.
        is_aligned = graph.is_op(operator, "SELECT_V2") or same_shape(graph, condition, result)
        fits = is_aligned and not open_axes(graph, result) - {0} and _is_finite(graph, yes) and _is_finite(graph, no)
        is_choice = yes != no and graph.dtype(condition) == "bool" and {scalar(graph, yes), scalar(graph, no)} != {0}
        if fits and is_choice and is_float(graph, yes, no, result):
            changes.append(_masked(graph, operator))
    return changes


def _is_finite(graph: EditedGraph, tensor: int) -> bool:
    """Whether a constant has no infinite values, which a mask would turn into NaN."""
    values = float_constant(graph, tensor)
    return values is None or bool(np.isfinite(values).all())


def _masked(graph: EditedGraph, operator: Operator) -> Change:
    condition, yes, no = operator.inputs
    (result,) = operator.outputs
    name = graph.name(result)
    types = (ELEMENT_TYPES.index("bool"), ELEMENT_TYPES.index("float32"))
    mask = add_like(graph, condition, f"{name}/mask")
    graph.tensor(mask).type = types[1]
    cast = options("CastOptions", inDataType=types[0], outDataType=types[1])
    made = graph.insert("CAST", [condition], [mask], before=operator, chosen=cast)
    parts = []
    for value in (yes, no):
        other = no if value == yes else yes
        # A part that is zero is left out if the other one has the shape of the result.
        if scalar(graph, value) == 0 and _product_shape(graph, mask, other) == graph.shape(result):
            continue
        factor = mask if value == yes else _complement(graph, mask, operator)
        parts.append(graph.add_tensor(_product_shape(graph, mask, value), result, f"{name}/part"))
        made = graph.insert("MUL", [factor, value], [parts[-1]], before=operator, chosen=options("MulOptions"))
    if len(parts) == 2:
        made = graph.insert("ADD", parts, [result], before=operator, chosen=options("AddOptions"))
    else:
        graph.set_output(made, 0, result)
    graph.remove(operator)
    return made_from(made, [operator])


def _product_shape(graph: EditedGraph, first: int, second: int) -> tuple[int, ...]:
    return np.broadcast_shapes(graph.shape(first), graph.shape(second))


def _complement(graph: EditedGraph, mask: int, before: Operator) -> int:
    """One minus a mask."""
    one = graph.add_constant(np.ones((), np.float32), "one")
    made = add_like(graph, mask, f"{graph.name(mask)}/not")
    graph.insert("SUB", [one, mask], [made], before=before, chosen=options("SubOptions"))
    return made


EXTREMES = Rewrite("extremes", recover_extremes)
MASKS = Rewrite("masks", mask_instead, ROUNDING, is_form=True)
