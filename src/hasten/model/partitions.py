"""Which nodes a delegate runs together: LiteRT's partitioning of a graph, worked out again from the nodes it took.

LiteRT gathers every node of one kind (taken or left) that is ready, until none is; then it turns to the other kind.
Each gathering of taken nodes is one partition. The engine does not tell which nodes are in which, so it is derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from hasten.model.graph import Subgraph


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that run together, in execution order."""

    delegated: bool
    nodes: tuple[int, ...]


def partition_graph(subgraph: Subgraph, left_to_engine: AbstractSet[int]) -> list[Partition]:
    """The partitions in the order in which they run, given the nodes that the engine runs with its own kernels."""
    computed = {tensor for node in subgraph.nodes for tensor in node.outputs if tensor >= 0}
    waiting = [node.index for node in subgraph.nodes]
    partitions: list[Partition] = []
    while waiting:
        taken, kind = _gather(subgraph, waiting, computed, left_to_engine)
        if not taken:  # nodes that wait for each other; the engine would not have run them
            break
        partitions.append(Partition(kind, tuple(taken)))
        waiting = [index for index in waiting if index not in taken]
    return partitions


def _gather(
    subgraph: Subgraph, waiting: list[int], computed: set[int], left_to_engine: AbstractSet[int]
) -> tuple[dict[int, None], bool]:
    """Every ready node of the kind that the first ready node has. Takes their outputs out of `computed`."""
    taken: dict[int, None] = {}  # in the order in which they were gathered
    kind: bool | None = None
    found = True
    while found:
        found = False
        for index in waiting:
            node = subgraph.nodes[index]
            if index in taken or any(tensor in computed for tensor in node.inputs):
                continue
            if kind is None:
                kind = index not in left_to_engine
            if kind == (index not in left_to_engine):
                taken[index] = None
                computed.difference_update(node.outputs)
                found = True
    return taken, bool(kind)
