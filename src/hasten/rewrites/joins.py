"""Writes PACK as RESHAPE and CONCATENATION, TILE as CONCATENATION, and PADV2 of zeros as PAD: XNNPACK takes those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.model.edit.graph import options
from hasten.rewrites.concatenations import MOST_INPUTS
from hasten.rewrites.patterns import VALUE_TYPES, each, insert_reshape, integers, made_from, open_axes, replace, scalar
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator


def join_instead(graph: EditedGraph) -> list[Change]:
    """PACK and TILE by copies of whole values, and PADV2."""
    changes = []
    for operator in each(graph, "PACK", "TILE", "PADV2"):
        if graph.dtype(operator.outputs[0]) not in VALUE_TYPES:
            continue
        if graph.is_op(operator, "PADV2"):
            changes += _pad(graph, operator)
        else:
            changes += _pack(graph, operator) if graph.is_op(operator, "PACK") else _tile(graph, operator)
    return changes


def _pad(graph: EditedGraph, operator: Operator) -> list[Change]:
    x, widths, value = operator.inputs
    if scalar(graph, value) != 0:
        return []
    return [replace(graph, [operator], "PAD", [x, widths], options("PadOptions"))]


def _pack(graph: EditedGraph, operator: Operator) -> list[Change]:
    (result,) = operator.outputs
    shape = graph.shape(result)
    axis = int(graph.option(operator, "axis")) % len(shape)
    opened = open_axes(graph, result)
    if not 2 <= len(operator.inputs) <= MOST_INPUTS or axis in opened or opened - {0}:
        return []
    flat = (*shape[:axis], 1, *shape[axis + 1 :])
    values = []
    for place, source in enumerate(operator.inputs):
        values.append(graph.add_tensor(flat, result, f"{graph.name(result)}/part_{place}"))
        insert_reshape(graph, source, values[-1], before=operator)
    return [_joined(graph, operator, values, axis)]


def _tile(graph: EditedGraph, operator: Operator) -> list[Change]:
    source, times = operator.inputs[0], integers(graph, operator.inputs[1])
    copied = [axis for axis, count in enumerate(times or ()) if count > 1]
    if times is None or len(copied) != 1 or times[copied[0]] > MOST_INPUTS or 0 in times:
        return []
    return [_joined(graph, operator, [source] * times[copied[0]], copied[0])]


def _joined(graph: EditedGraph, operator: Operator, values: list[int], axis: int) -> Change:
    (result,) = operator.outputs
    chosen = options("ConcatenationOptions", axis=axis)
    version = 1 if graph.dtype(result) == "float32" else 2
    made = graph.insert("CONCATENATION", values, [result], before=operator, chosen=chosen, version=version)
    graph.remove(operator)
    return made_from(made, [operator])


JOINS = Rewrite("joins", join_instead, is_form=True)
