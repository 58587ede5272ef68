"""Which nodes of two graphs do the same work: by the names of their outputs where a converter kept them, by order and
operator elsewhere. Quantizers rename tensors, and put conversions between the nodes."""

from __future__ import annotations

import enum
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hasten.model.graph import CONVERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hasten.model.graph import Node, Shape, Subgraph

# What two nodes have in common, when they are matched by their order: the operator alone, or its output's shape, too.
_SAME_OPERATOR: Final = 1
_SAME_SHAPE: Final = 3
# Names that are numbered anew by a converter repeat in both graphs at other nodes. Where so many of the pairs are not
# even fed by each other's counterparts, names mean nothing.
_MOST_ODD_PAIRS: Final = 0.2


class Certainty(enum.Enum):
    """How sure it is that two nodes do the same work; the value is its name in JSON."""

    EXACT = "exact"
    """The same name, operator and shape, fed by nodes that match."""
    LIKELY = "likely"
    """By its place in the order and its operator."""
    NONE = "none"
    """The node has no counterpart."""


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """A node of the original and a node of the changed model; either may be missing."""

    before: int | None
    after: int | None
    certainty: Certainty
    op: str = ""
    location: str = ""
    """The name of its output, of the changed model where it has the node."""
    shape: str = ""

    def __post_init__(self) -> None:
        if (self.before is None or self.after is None) != (self.certainty is Certainty.NONE):
            raise ValueError("a match has two nodes, and a node without a counterpart has none")


def match_nodes(before: Subgraph, after: Subgraph) -> list[NodeMatch]:
    """Every node of both graphs once, in the order of the changed graph; nodes that are gone stand before the next one
    that is still there."""
    feeders = Feeders(before), Feeders(after)
    named = _by_name(before, after)
    if sum(_contradicts(pair, named, *feeders) for pair in named.items()) > _MOST_ODD_PAIRS * len(named):
        named = {}
    pairs = {**_by_order(before, after, named), **named}
    # A name is proof only if the node is fed by the right ones, too, which may have been matched by their order.
    exact = {pair[0] for pair in named.items() if _is_fed_alike(pair, pairs, *feeders)}
    return list(_listed(before, after, pairs, exact))


def _by_name(before: Subgraph, after: Subgraph) -> dict[int, int]:
    """Pairs of nodes whose first outputs have the same name, which no other has, and the same shape."""
    first, second = _unique_names(before), _unique_names(after)
    return {
        first[name].index: second[name].index
        for name in first.keys() & second.keys()
        if first[name].label == second[name].label and _shape(before, first[name]) == _shape(after, second[name])
    }


def _unique_names(subgraph: Subgraph) -> dict[str, Node]:
    found: dict[str, Node] = {}
    repeated = set()
    for node in subgraph.nodes:
        name = subgraph.node_location(node)
        if name in found or not name:
            repeated.add(name)
        found[name] = node
    return {name: node for name, node in found.items() if name not in repeated}


def _is_fed_alike(pair: tuple[int, int], pairs: Mapping[int, int], before: Feeders, after: Feeders) -> bool:
    """Whether the data of both come from a pair, or from the same input of their graphs."""
    first, second = before.of(pair[0]), after.of(pair[1])
    return len(first) == len(second) and all(
        b.node is not None and pairs.get(a.node) == b.node if a.node is not None else a == b
        for a, b in zip(first, second, strict=True)
    )


def _contradicts(pair: tuple[int, int], pairs: Mapping[int, int], before: Feeders, after: Feeders) -> bool:
    """Whether the data of both come from nodes that belong to others, or from a node here and an input there."""
    for a, b in zip(before.of(pair[0]), after.of(pair[1]), strict=False):
        if (a.node is None) != (b.node is None):
            return True
        if a.node is not None and pairs.get(a.node, b.node) != b.node:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Feeder:
    """Where data come from: a node, or an input of the graph by its position (-1: a variable of the graph)."""

    node: int | None
    graph_input: int = -1


class Feeders:
    """Where the data of a graph's nodes come from, beyond any conversions and without constants."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._producers = {tensor: node for node in subgraph.nodes for tensor in node.outputs if tensor >= 0}
        self._inputs = {tensor: position for position, tensor in enumerate(subgraph.inputs)}

    def of(self, node: int) -> list[Feeder]:
        """The feeders of a node, in the order of its inputs."""
        sources = (self._source(index) for index in self._subgraph.nodes[node].inputs if index >= 0)
        return [self._feeder(source) for source in sources if not self._subgraph.tensors[source].is_constant]

    def _feeder(self, tensor: int) -> Feeder:
        producer = self._producers.get(tensor)
        return Feeder(None, self._inputs.get(tensor, -1)) if producer is None else Feeder(producer.index)

    def _source(self, tensor: int) -> int:
        """The tensor that a conversion, or a chain of them, was made from. Bounded: a damaged graph may be a circle."""
        for _ in self._subgraph.nodes:
            node = self._producers.get(tensor)
            if node is None or node.op not in CONVERSIONS or not node.inputs or node.inputs[0] < 0:
                break
            tensor = node.inputs[0]
        return tensor


def _by_order(before: Subgraph, after: Subgraph, named: Mapping[int, int]) -> dict[int, int]:
    """Pairs among the nodes without one, between neighbors that have one: the longest common run of operators."""
    found: dict[int, int] = {}
    taken = set(named.values())
    anchors = [(-1, -1), *_in_order(named), (len(before.nodes), len(after.nodes))]
    for (low, low_after), (high, high_after) in pairwise(anchors):
        free = [node for node in before.nodes[low + 1 : high] if node.index not in named]
        free_after = [node for node in after.nodes[low_after + 1 : high_after] if node.index not in taken]
        found.update(_common_run(before, free, after, free_after))
    return found


def _in_order(named: Mapping[int, int]) -> list[tuple[int, int]]:
    """The largest set of pairs in which both sides rise (patience sorting)."""
    tails: list[int] = []
    chains: list[list[tuple[int, int]]] = []
    for first in sorted(named):
        second = named[first]
        place = bisect_left(tails, second)
        chain = [*(chains[place - 1] if place else []), (first, second)]
        tails[place : place + 1] = [second]
        chains[place : place + 1] = [chain]
    return chains[-1] if chains else []


def _common_run(before: Subgraph, first: list[Node], after: Subgraph, second: list[Node]) -> dict[int, int]:
    """The alignment of two runs of nodes that shares most: operators, and shapes where operators are the same."""
    if not first or not second:
        return {}
    alike = [[_alike(before, a, after, b) for b in second] for a in first]
    score = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in reversed(range(len(first))):
        for j in reversed(range(len(second))):
            matched = score[i + 1][j + 1] + alike[i][j] if alike[i][j] else 0
            score[i][j] = max(matched, score[i + 1][j], score[i][j + 1])
    pairs = {}
    i = j = 0
    while i < len(first) and j < len(second):
        if alike[i][j] and score[i][j] == score[i + 1][j + 1] + alike[i][j]:
            pairs[first[i].index] = second[j].index
            i, j = i + 1, j + 1
        elif score[i][j] == score[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _alike(before: Subgraph, first: Node, after: Subgraph, second: Node) -> int:
    if first.label != second.label:
        return 0
    return _SAME_SHAPE if _shape(before, first) == _shape(after, second) else _SAME_OPERATOR


def _listed(before: Subgraph, after: Subgraph, pairs: Mapping[int, int], exact: set[int]) -> Iterator[NodeMatch]:
    partner = {second: first for first, second in pairs.items()}
    gone = [node for node in before.nodes if node.index not in pairs]
    for node in after.nodes:
        first = partner.get(node.index)
        while gone and first is not None and gone[0].index < first:
            yield _gone(before, gone.pop(0))
        certainty = Certainty.NONE if first is None else Certainty.EXACT if first in exact else Certainty.LIKELY
        yield NodeMatch(first, node.index, certainty, *_description(after, node))
    for node in gone:
        yield _gone(before, node)


def _gone(before: Subgraph, node: Node) -> NodeMatch:
    return NodeMatch(node.index, None, Certainty.NONE, *_description(before, node))


def _description(subgraph: Subgraph, node: Node) -> tuple[str, str, str]:
    return node.label, subgraph.node_location(node), "x".join(map(str, _shape(subgraph, node)))


def _shape(subgraph: Subgraph, node: Node) -> Shape:
    return next((subgraph.tensors[index].shape for index in node.outputs if index >= 0), ())
