"""Flattens concatenations of concatenations, drops those that join what was split, and narrows very wide ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

# XNNPACK takes concatenations of two to five inputs.
MOST_INPUTS: Final = 5


def flatten_concatenations(graph: EditedGraph) -> list[Change]:
    """Concatenations that another one along the same axis can do as well, and those that do nothing."""
    changes = []
    for operator in list(graph.operators):
        if not _is_plain(graph, operator):
            continue
        nodes = operator.nodes
        changed = False
        while _take_in(graph, operator):
            changed = True
        whole = operator.inputs[0] if len(operator.inputs) == 1 else _split_source(graph, operator)
        if whole is not None and _is_same(graph, operator, whole) and graph.take_out(operator, whole):
            changed = True
        if changed:
            changes.append(Change(nodes))
    return changes


def narrow_concatenations(graph: EditedGraph) -> list[Change]:
    """Concatenations of more inputs than XNNPACK takes, as several of fewer."""
    changes = []
    for operator in list(graph.operators):
        is_wide = _is_plain(graph, operator) and len(operator.inputs) > MOST_INPUTS
        if not is_wide or -1 in graph.sizes(operator.outputs[0])[1:]:
            continue
        while len(operator.inputs) > MOST_INPUTS:
            _join_neighbors(graph, operator)
        changes.append(Change(operator.nodes))
    return changes


def _is_plain(graph: EditedGraph, operator: Operator) -> bool:
    """Whether an operator is a concatenation that copies numbers and does no more."""
    if not graph.is_op(operator, "CONCATENATION") or int(graph.option(operator, "fusedActivationFunction")):
        return False
    return graph.are_stored_alike(*operator.inputs, *operator.outputs)


def _axis(graph: EditedGraph, operator: Operator) -> int:
    return int(graph.option(operator, "axis")) % max(1, len(graph.shape(operator.outputs[0])))


def _take_in(graph: EditedGraph, operator: Operator) -> bool:
    """Read what earlier concatenations read, as long as XNNPACK still takes the result."""
    for index in dict.fromkeys(operator.inputs):
        inner = graph.producer(index)
        if inner is None or not graph.is_read_only_by(index, operator) or not _is_plain(graph, inner):
            continue
        inputs: list[int] = []
        for read in operator.inputs:
            inputs += inner.inputs if read == index else [read]
        if _axis(graph, inner) == _axis(graph, operator) and len(inputs) <= MOST_INPUTS:
            graph.set_inputs(operator, inputs)
            graph.remove(inner)
            return True
    return False


def _split_source(graph: EditedGraph, operator: Operator) -> int | None:
    """The tensor whose parts are all of a concatenation's inputs, in their order."""
    splitter = graph.producer(operator.inputs[0])
    if splitter is None or not graph.is_op(splitter, "SPLIT", "SPLIT_V") or splitter.outputs != operator.inputs:
        return None
    source, axis = (1, 0) if graph.is_op(splitter, "SPLIT") else (0, 2)
    values = graph.constant(splitter.inputs[axis])
    rank = len(graph.shape(operator.outputs[0]))
    is_same_axis = values is not None and int(values.reshape(-1)[0]) % max(1, rank) == _axis(graph, operator)
    return int(splitter.inputs[source]) if is_same_axis else None


def _is_same(graph: EditedGraph, operator: Operator, source: int) -> bool:
    result = operator.outputs[0]
    return graph.sizes(source) == graph.sizes(result) and graph.are_stored_alike(source, result)


def _join_neighbors(graph: EditedGraph, operator: Operator) -> None:
    """Let other concatenations join runs of inputs first, and no more of them than there are too many."""
    axis, result = _axis(graph, operator), operator.outputs[0]
    inputs: list[int] = []
    rest, surplus = list(operator.inputs), len(operator.inputs) - MOST_INPUTS
    while rest:
        count = min(MOST_INPUTS, surplus + 1, len(rest))
        run, rest = rest[:count], rest[count:]
        if count > 1:
            shape = list(graph.shape(result))
            shape[axis] = sum(graph.shape(index)[axis] for index in run)
            joined = graph.add_tensor(shape, result)
            graph.insert_copy(operator, run, [joined], before=operator)
            run, surplus = [joined], surplus - count + 1
        inputs += run
    graph.set_inputs(operator, inputs)


CONCATENATIONS = Rewrite("concatenations", flatten_concatenations)
NARROW_CONCATENATIONS = Rewrite("narrow-concatenations", narrow_concatenations, is_form=True)
