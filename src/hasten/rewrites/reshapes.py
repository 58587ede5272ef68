"""Merges chains of RESHAPE, SQUEEZE and EXPAND_DIMS into one RESHAPE, and drops those that change nothing.

All three leave every element where it is in memory. XNNPACK takes a RESHAPE wherever its shape is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator
    from hasten.model.graph import Shape

RESHAPE_KINDS: Final = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})


def merge_reshapes(graph: EditedGraph) -> list[Change]:
    """Chains of operators that only change a shape, and single ones that are no plain RESHAPE."""
    changes = []
    for operator in list(graph.operators):
        if not _keeps_elements(graph, operator):
            continue
        nodes = operator.nodes
        changed = _skip_those_before(graph, operator)
        source, result = operator.inputs[0], operator.outputs[0]
        if graph.sizes(source) == graph.sizes(result) and graph.take_out(operator, source):
            changed = True
        elif not graph.is_op(operator, "RESHAPE"):
            write_reshape(graph, operator, graph.sizes(result))
            changed = True
        if changed:
            changes.append(Change(nodes))
    return changes


def write_reshape(graph: EditedGraph, operator: Operator, sizes: Shape) -> None:
    """Make a RESHAPE to these sizes of an operator; one of them may be open (-1)."""
    shape = graph.add_constant(np.array(sizes, np.int32), f"{graph.name(operator.outputs[0])}/shape")
    chosen = options("ReshapeOptions", newShape=[int(size) for size in sizes])
    graph.turn_into(operator, "RESHAPE", [operator.inputs[0], shape], chosen=chosen)


def can_be_written(sizes: Shape) -> bool:
    """Whether a RESHAPE can name these sizes: it works out one open dimension, and no empty tensor.

    A shape of no dimensions would be a constant of no bytes, which a file cannot hold.
    """
    return bool(sizes) and sizes.count(-1) <= 1 and 0 not in sizes and all(size >= -1 for size in sizes)


def _keeps_elements(graph: EditedGraph, operator: Operator) -> bool:
    """Whether an operator only changes a shape, to one that is known but for one dimension."""
    if not graph.is_op(operator, *RESHAPE_KINDS):
        return False
    source, result = operator.inputs[0], operator.outputs[0]
    if graph.is_constant(source) or not graph.has_known_rank(source) or not graph.has_known_rank(result):
        return False
    if graph.is_op(operator, "RESHAPE") and not is_to_known_shape(graph, operator):
        return False
    are_known = all(can_be_written(graph.sizes(tensor)) for tensor in (source, result))
    return are_known and graph.are_stored_alike(source, result)


def is_to_known_shape(graph: EditedGraph, operator: Operator) -> bool:
    """Whether a RESHAPE has its shape in the file."""
    return len(operator.inputs) == 1 or graph.constant(operator.inputs[1]) is not None


def _skip_those_before(graph: EditedGraph, operator: Operator) -> bool:
    """Read what earlier operators of the chain read, if nobody else needs their results."""
    changed = False
    while True:
        source = operator.inputs[0]
        before = graph.producer(source)
        if not graph.is_read_only_by(source, operator) or not graph.is_op(before, *RESHAPE_KINDS):
            return changed
        if before is None or not _keeps_elements(graph, before):
            return changed
        graph.set_input(operator, 0, before.inputs[0])
        if not graph.is_op(operator, "RESHAPE"):
            write_reshape(graph, operator, graph.sizes(operator.outputs[0]))
        graph.remove(before)
        changed = True


RESHAPES = Rewrite("reshapes", merge_reshapes)
