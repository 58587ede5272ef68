"""Which nodes a recipe is for: all of them, only some, or all but some."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from hasten.model.graph import Graph, Node, Signature, Subgraph

Nodes = Collection[int]
"""Indices of nodes in the signature's subgraph."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Which nodes a caller wants to change: all, only some, or all but some."""

    only: Nodes | None = None
    but: Nodes | None = None


ALL_NODES = NodeChoice()


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes to quantize. `outputs` are the first outputs of those in `subgraph`; None means every node of it."""

    subgraph: int
    outputs: frozenset[int] | None
    others: frozenset[int]
    """Subgraphs besides `subgraph` that are quantized too."""

    @property
    def subgraphs(self) -> frozenset[int]:
        """All subgraphs in which something may be quantized."""
        return self.others | {self.subgraph}


def select(graph: Graph, signature: Signature | None, choice: NodeChoice, *, static: bool) -> Selection:
    """Find the nodes to quantize among those that the signature runs, as an evaluation runs no others.

    Calibration does not see into loops and branches: a static recipe leaves what they call alone.
    """
    subgraph = graph.subgraphs[signature.subgraph if signature else 0]
    only, but = choice.only, choice.but
    if only is not None and but is not None:
        raise UsageError(
            "A choice of nodes has both `only` and `but`.", "Give the nodes to quantize, or those to keep in float."
        )
    chosen: set[int] | None = None
    if only is not None:
        chosen = _indices(subgraph, only)
    elif but is not None:
        chosen = {node.index for node in subgraph.nodes} - _indices(subgraph, but)
    outputs = None if chosen is None else frozenset(_identity(subgraph.nodes[index]) for index in chosen)
    others = graph.run_by(subgraph.index) - {subgraph.index} if not static and only is None else frozenset[int]()
    return Selection(subgraph.index, outputs, others)


def _indices(subgraph: Subgraph, nodes: Nodes) -> set[int]:
    unknown = sorted(index for index in nodes if not 0 <= index < len(subgraph.nodes))
    if unknown:
        raise UsageError(f"There is no node {unknown[0]}.", f"The nodes are numbered 0 to {len(subgraph.nodes) - 1}.")
    return set(nodes)


def _identity(node: Node) -> int:
    """The node's first output: a tensor has one producer, and tensors keep their indices. -1 has no output at all."""
    return next((index for index in node.outputs if index >= 0), -1)
