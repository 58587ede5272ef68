"""Drops operators that no output needs, and merges those that compute the same from the same inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hasten.model.edit.graph import EditedGraph

# Each run of them gives other numbers, or changes what others read.
_NEVER_EQUAL = frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR"})


def drop_dead_code(graph: EditedGraph) -> list[Change]:
    """Operators whose results nobody reads."""
    dead = graph.unneeded()
    graph.remove(*dead)
    return [Change(operator.nodes) for operator in dead]


def merge_duplicates(graph: EditedGraph) -> list[Change]:
    """Of operators with the same inputs and options, the later ones."""
    first: dict[Hashable, Any] = {}
    changes = []
    for operator in list(graph.operators):
        if len(operator.outputs) != 1 or graph.has_effects(operator) or graph.op(operator) in _NEVER_EQUAL:
            continue
        known = first.setdefault(_identity(graph, operator), operator)
        if known is not operator and graph.take_out(operator, known.outputs[0]):
            changes.append(Change((*known.nodes, *operator.nodes)))
    return changes


def _identity(graph: EditedGraph, operator: Any) -> Hashable:
    chosen = operator.builtinOptions or operator.builtinOptions2
    fields = "" if chosen is None else repr(sorted((key, _plain(value)) for key, value in vars(chosen).items()))
    result = operator.outputs[0]
    return (int(operator.opcodeIndex), tuple(operator.inputs), type(chosen).__name__, fields, graph.kind(result))


def _plain(value: Any) -> str:
    return repr(value.tolist() if hasattr(value, "tolist") else value)


DEAD_CODE = Rewrite("dead-code", drop_dead_code)
DUPLICATES = Rewrite("duplicates", merge_duplicates)
