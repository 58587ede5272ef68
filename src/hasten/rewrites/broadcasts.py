"""Drops BROADCAST_TO and TILE before operators that broadcast by themselves; writes BROADCAST_TO as TILE on request.

GPU delegates take no BROADCAST_TO (LiteRT issue 9191), and one operator that they refuse can keep a model off the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import drop_unread, each, insert_reshape, made_from, nodes_of
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

_BROADCASTING: Final = frozenset(
    {
        "ADD",
        "SUB",
        "MUL",
        "DIV",
        "MAXIMUM",
        "MINIMUM",
        "SQUARED_DIFFERENCE",
        "LESS",
        "LESS_EQUAL",
        "GREATER",
        "GREATER_EQUAL",
        "EQUAL",
        "NOT_EQUAL",
        "LOGICAL_AND",
        "LOGICAL_OR",
    }
)
# Kernels, those of GPUs above all, know broadcasting for as many.
_MOST_AXES: Final = 4


def drop_broadcasts(graph: EditedGraph) -> list[Change]:
    """Copies along axes of size 1 that the operator after them would make, too."""
    changes = []
    for operator in each(graph, "BROADCAST_TO", "TILE"):
        source, copied = operator.inputs[0], operator.outputs[0]
        is_plain = graph.are_stored_alike(source, copied) and _is_broadcast(graph, operator)
        if not graph.is_fixed(source) or not graph.is_fixed(copied) or not is_plain:
            continue
        readers = [reader for reader in graph.readers(copied) if _broadcasts(graph, reader, copied, source)]
        for reader in readers:
            for place in (place for place, index in enumerate(reader.inputs) if index == copied):
                graph.set_input(reader, place, source)
        if readers:
            drop_unread(graph, operator)
            changes.append(Change(nodes_of([operator, *readers])))
    return changes


def _is_broadcast(graph: EditedGraph, operator: Operator) -> bool:
    """Whether only axes of size 1 are copied."""
    old, new = graph.shape(operator.inputs[0]), graph.shape(operator.outputs[0])
    aligned = (1,) * (len(new) - len(old)) + old
    return all(before in {1, after} for before, after in zip(aligned, new, strict=True))


def _broadcasts(graph: EditedGraph, reader: Operator, copied: int, source: int) -> bool:
    """Whether an operator gives the same shape without the copies."""
    if graph.op(reader) not in _BROADCASTING:
        return False
    shapes = [graph.shape(source if index == copied else index) for index in reader.inputs]
    if not all(map(graph.is_fixed, reader.inputs)) or max(map(len, shapes)) > _MOST_AXES:
        return False
    return np.broadcast_shapes(*shapes) == graph.shape(reader.outputs[0])


def tile_instead(graph: EditedGraph) -> list[Change]:
    """BROADCAST_TO as RESHAPE to as many axes and TILE."""
    changes = []
    for operator in each(graph, "BROADCAST_TO"):
        source, result = operator.inputs[0], operator.outputs[0]
        old, new = graph.shape(source), graph.shape(result)
        if not graph.is_fixed(source) or not graph.is_fixed(result) or not new or graph.dtype(source) == "bool":
            continue
        aligned = (1,) * (len(new) - len(old)) + old
        value = source
        if aligned != old:
            value = graph.add_tensor(aligned, source, f"{graph.name(result)}/axes")
            insert_reshape(graph, source, value, before=operator)
        times = graph.add_constant(
            np.asarray([b // max(a, 1) for a, b in zip(aligned, new, strict=True)], np.int32), "times"
        )
        made = graph.insert("TILE", [value, times], [result], before=operator, chosen=options("TileOptions"))
        graph.remove(operator)
        changes.append(made_from(made, [operator]))
    return changes


BROADCASTS = Rewrite("broadcasts", drop_broadcasts)
BROADCASTS_AS_TILES = Rewrite("broadcasts-as-tiles", tile_instead, is_form=True)
