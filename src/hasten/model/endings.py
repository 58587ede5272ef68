"""What a model's output is made by: a probability comes out of a sigmoid, whatever is done to its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.explain_causes import CONVERSIONS

if TYPE_CHECKING:
    from hasten.model.graph import Graph, Subgraph

_PASSED_ON: Final = (*CONVERSIONS, "RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def maker_of(graph: Graph, output: str) -> str:
    """The operator that an output's values come from, beyond conversions and other shapes; empty where none does."""
    for subgraph in graph.subgraphs:
        for index in subgraph.outputs:
            if subgraph.tensors[index].name == output:
                return _maker(subgraph, index)
    return ""


def _maker(subgraph: Subgraph, tensor: int) -> str:
    makers = {index: node for node in subgraph.nodes for index in node.outputs}
    for _ in subgraph.nodes:  # a damaged graph may be a circle
        node = makers.get(tensor)
        if node is None or node.op not in _PASSED_ON:
            return "" if node is None else node.op
        tensor = node.inputs[0]
    return ""
