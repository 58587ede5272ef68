"""Drops operators that give back what they get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.rewrites.patterns import NONE, activation, each, integers, scalar
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

# The constant that changes nothing, by operator.
_NEUTRAL: Final = {"MUL": 1.0, "DIV": 1.0, "ADD": 0.0, "SUB": 0.0}
# These change nothing if the shape, the type and the scale stay what they are.
_BY_KIND: Final = frozenset(
    {
        "BROADCAST_TO",
        "CAST",
        "CONCATENATION",
        "MEAN",
        "PAD",
        "PADV2",
        "QUANTIZE",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "SLICE",
        "SPLIT",
        "STRIDED_SLICE",
        "SUM",
        "TILE",
    }
)


def drop_identities(graph: EditedGraph) -> list[Change]:
    """Arithmetic by a neutral constant; paddings, slices, tiles, resizes and reductions that keep the shape."""
    changes = []
    for operator in each(graph):
        source = _same_as(graph, operator)
        if source is not None and graph.kind(source) == graph.kind(operator.outputs[0]):
            nodes = operator.nodes
            if graph.take_out(operator, source):
                changes.append(Change(nodes))
    return changes


def _same_as(graph: EditedGraph, operator: Operator) -> int | None:
    """The input that an operator gives back, if the two are of one kind; None if it may compute something."""
    op = graph.op(operator)
    if len(operator.outputs) != 1 or activation(graph, operator) != NONE:
        return None
    if op in _NEUTRAL:
        places = ((0, 1), (1, 0)) if op in {"MUL", "ADD"} else ((0, 1),)
        found = (place for place, other in places if scalar(graph, operator.inputs[other]) == _NEUTRAL[op])
        place = next(found, None)
        return None if place is None else operator.inputs[place]
    if op not in _BY_KIND:
        return None
    source: int = operator.inputs[1 if op == "SPLIT" else 0]
    if not graph.is_fixed(source) or (op == "CONCATENATION" and len(operator.inputs) > 1):
        return None
    if op == "STRIDED_SLICE" and set(integers(graph, operator.inputs[3]) or (0,)) != {1}:
        return None
    return source


IDENTITIES = Rewrite("identities", drop_identities)
