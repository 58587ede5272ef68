"""Which tensors of two graphs hold the same values, and which nodes lie between them.

Nodes are paired by `model.matching`. Where a graph has nodes that the other one has not (an activation that was fused,
a constant that was folded, conversions of types), the tensors that correspond are found by their values: the one behind
such a node is taken if it is closer. What lies between tensors that correspond can then be run alone in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.remark import Remark, remark
from hasten.explanation.diff.facts import CONSTANT
from hasten.explanation.inner_tensors import is_comparable, is_readable
from hasten.explanation.tensor_errors import ROUNDING_DB, error_between
from hasten.model.graph import CONVERSIONS, STATE_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.explanation.tensor_errors import ErrorMeter, Reals
    from hasten.model.graph import Node, Subgraph
    from hasten.model.matching import NodeMatch

# Between two tensors that correspond stands an operator and what a converter makes of it; more is another graph.
_MOST_NODES: Final = 12
# Their outputs differ from run to run although their inputs are constants.
_RANDOM: Final = frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"})


class Wiring:
    """Who writes and reads the tensors of a graph, and which tensors follow from constants alone."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.producers = {tensor: node for node in subgraph.nodes for tensor in node.outputs if tensor >= 0}
        self.readers: dict[int, list[Node]] = {}
        self.settled = {tensor.index for tensor in subgraph.tensors if tensor.is_constant}
        for node in subgraph.nodes:
            for tensor in dict.fromkeys(node.inputs):
                self.readers.setdefault(tensor, []).append(node)
            if self.is_plain(node) and all(index in self.settled for index in node.inputs if index >= 0):
                self.settled.update(index for index in node.outputs if index >= 0)

    def is_plain(self, node: Node) -> bool:
        """Whether its outputs follow from its inputs, and from those of earlier runs where it has a state of its
        own."""
        return not (node.op in STATE_OPERATORS or node.op in _RANDOM or node.called_subgraphs or not node.inputs)

    def has_state(self, node: int) -> bool:
        """Whether it keeps something from run to run, as recurrent layers do."""
        return any(self._is_variable(index) for index in self.subgraph.nodes[node].inputs)

    def _is_variable(self, index: int) -> bool:
        return index >= 0 and self.subgraph.tensors[index].is_variable

    def computed(self) -> list[int]:
        """The tensors whose values can be read, in the order in which nodes write them."""
        written = (index for node in self.subgraph.nodes for index in node.outputs if index >= 0)
        return [index for index in written if index not in self.settled and is_readable(self.subgraph.tensors[index])]

    def only_reader(self, tensor: int) -> Node | None:
        """The one node that reads a tensor, if nothing else does."""
        readers = self.readers.get(tensor, [])
        return readers[0] if len(readers) == 1 and tensor not in self.subgraph.outputs else None

    def between(self, outputs: Iterable[int], known: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The nodes that compute these tensors from known ones, in their order, and which known ones they read.

        None where something else is needed: a resource, another graph, an input of the graph that is not known.
        """
        waiting = list(outputs)
        border = set(known) - set(waiting)
        nodes: set[int] = set()
        fed: set[int] = set()
        while waiting:
            node = self.producers.get(waiting.pop())
            if node is None or not self.is_plain(node) or len(nodes) > _MOST_NODES:
                return None
            if node.index in nodes:
                continue
            nodes.add(node.index)
            for index in node.inputs:
                if index in border:
                    fed.add(index)
                elif index >= 0 and index not in self.settled and not self._is_variable(index):
                    waiting.append(index)
        return tuple(sorted(nodes)), tuple(sorted(fed))


@dataclass(frozen=True, slots=True)
class Section:
    """What computes tensors of the second graph that have counterparts, in both graphs."""

    node: int
    """The node of the second graph that it is named after."""
    before: int
    """Its counterpart in the first graph."""
    outputs: tuple[tuple[int, int], ...]
    """Tensors of the first and of the second graph that correspond."""
    nodes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    fed: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """What these nodes read, of the first and of the second graph."""
    has_state: bool = False
    """Whether one of them keeps something from run to run."""
    why: Remark = field(default=Remark(""))
    """Why they cannot be run alone, where they cannot."""


@dataclass(slots=True)
class Pairing:
    """Tensors of two graphs that correspond."""

    wirings: tuple[Wiring, Wiring]
    counterpart: dict[int, int] = field(default_factory=dict)
    """Of tensors of the second graph: the tensor of the first."""
    sections: list[Section] = field(default_factory=list)
    """In execution order of the second graph."""
    conversions: dict[int, int] = field(default_factory=dict)
    """Nodes of the second graph that only change the type of values, and the tensor that their output stands for."""
    known_errors: dict[tuple[int, int], ErrorMeter | None] = field(default_factory=dict)
    """What `error_of` has found."""

    @property
    def inside(self) -> tuple[dict[int, int], dict[int, int]]:
        """Nodes of both graphs without a counterpart, and the node of the second graph in whose section they are."""
        return (
            {node: part.node for part in self.sections for node in part.nodes[0] if node != part.before},
            {node: part.node for part in self.sections for node in part.nodes[1] if node != part.node},
        )


def pair_up(
    wirings: tuple[Wiring, Wiring],
    matches: Sequence[NodeMatch],
    inputs: Mapping[int, int],
    values: tuple[Mapping[int, Reals], Mapping[int, Reals]],
) -> Pairing:
    """Find what corresponds. `inputs` are those of the second graph, with their counterparts; `values` as read."""
    found = Pairing(wirings, dict(inputs))
    partner = {match.after: match.before for match in matches if match.after is not None and match.before is not None}
    gone = {node.index for node in wirings[0].subgraph.nodes} - set(partner.values())
    added = {node.index for node in wirings[1].subgraph.nodes} - set(partner)
    for node in wirings[1].subgraph.nodes:
        if node.index not in partner and node.op in CONVERSIONS and (source := _converted(found, node)) is not None:
            found.conversions[node.index] = found.counterpart[node.outputs[0]] = source
            continue
        index = partner[node.index] if node.index in partner else _replaced(found, node, gone, values)
        if index is None:
            continue
        gone.discard(index)
        added.discard(node.index)
        before = wirings[0].subgraph.nodes[index]
        outputs = _closest(found, (before, node), (gone, added), values)
        found.counterpart.update({after: first for first, after in outputs})
        found.sections.append(_section(found, (index, node.index), outputs))
    return found


def _converted(pairing: Pairing, node: Node) -> int | None:
    """The tensor of the first graph that the output of a conversion stands for."""
    return pairing.counterpart.get(node.inputs[0]) if node.inputs and len(node.outputs) == 1 else None


def _replaced(
    pairing: Pairing, node: Node, gone: set[int], values: tuple[Mapping[int, Reals], Mapping[int, Reals]]
) -> int | None:
    """The node of the first graph in whose place this one stands: another operator, fed by the same tensors."""
    first, second = pairing.wirings
    read = [index for index in node.inputs if index >= 0 and index not in second.settled]
    wanted = [pairing.counterpart.get(index) for index in read]
    for index in sorted(gone) if wanted else ():
        other = first.subgraph.nodes[index]
        fed = [tensor for tensor in other.inputs if tensor >= 0 and tensor not in first.settled]
        outputs = list(zip(other.outputs, node.outputs, strict=False))
        if fed == wanted and outputs and all(error_of(pairing, pair, values) is not None for pair in outputs):
            return index
    return None


def _closest(
    pairing: Pairing,
    nodes: tuple[Node, Node],
    alone: tuple[set[int], set[int]],
    values: tuple[Mapping[int, Reals], Mapping[int, Reals]],
) -> tuple[tuple[int, int], ...]:
    """The outputs of two nodes that correspond, or what is behind them where that is closer."""
    outputs = [
        pair
        for pair in zip(nodes[0].outputs, nodes[1].outputs, strict=False)
        if min(pair) >= 0 and error_of(pairing, pair, values) is not None
    ]
    if len(outputs) != 1:
        return tuple(outputs)
    chains = [_behind(wiring, outputs[0][at], alone[at]) for at, wiring in enumerate(pairing.wirings)]
    # One side at a time: a chain of its own on each side is another computation, not the same one in other pieces.
    choices = [(outputs[0][0], after) for after in chains[1]] + [(before, outputs[0][1]) for before in chains[0][1:]]
    best, best_db = outputs[0], float("-inf")
    for pair in choices:
        error = error_of(pairing, pair, values)
        if error is not None and error.snr_db > best_db:
            best, best_db = pair, error.snr_db
        if best_db >= ROUNDING_DB:
            break
    return (best,)


def _behind(wiring: Wiring, tensor: int, alone: set[int]) -> list[int]:
    """A tensor, and those that nodes without a counterpart make of it and of constants."""
    found = [tensor]
    while (reader := wiring.only_reader(found[-1])) is not None and len(found) < _MOST_NODES:
        others = {index for index in reader.inputs if index >= 0} - {found[-1]} - wiring.settled
        if reader.index not in alone or others or len(reader.outputs) != 1 or not wiring.is_plain(reader):
            break
        found.append(reader.outputs[0])
    return found


def error_of(
    pairing: Pairing, pair: tuple[int, int], values: tuple[Mapping[int, Reals], Mapping[int, Reals]]
) -> ErrorMeter | None:
    """How far the second graph's tensor is off from the first's; None where they cannot be compared."""
    if pair not in pairing.known_errors:
        pairing.known_errors[pair] = _error_of(pairing, pair, (values[0].get(pair[0]), values[1].get(pair[1])))
    return pairing.known_errors[pair]


def _error_of(pairing: Pairing, pair: tuple[int, int], values: tuple[Reals | None, Reals | None]) -> ErrorMeter | None:
    before, after = values
    tensors = [wiring.subgraph.tensors[index] for wiring, index in zip(pairing.wirings, pair, strict=True)]
    same_kind = all(map(is_comparable, tensors)) or tensors[0].dtype == tensors[1].dtype
    if before is None or after is None or not same_kind:
        return None
    if any(one.size != other.size for one, other in zip(before, after, strict=True)):
        return None
    return error_between(before, after)


def _section(pairing: Pairing, nodes: tuple[int, int], outputs: tuple[tuple[int, int], ...]) -> Section:
    """What is between the outputs and the tensors before them that correspond."""
    before, node = nodes
    if not outputs:
        written = pairing.wirings[1].subgraph.nodes[node].outputs
        is_constant = bool(written) and pairing.wirings[1].settled.issuperset(written)
        return Section(node, before, (), why=remark(CONSTANT if is_constant else "diff.no-counterpart"))
    own = {after for _, after in outputs}
    known = {after: first for after, first in pairing.counterpart.items() if after not in own}
    second = pairing.wirings[1].between(own, known)
    first = pairing.wirings[0].between((one for one, _ in outputs), known.values())
    if first is None or second is None or not second[1]:
        return Section(node, before, outputs, why=remark("diff.not-alone"))
    has_state = any(map(pairing.wirings[0].has_state, first[0]))
    return Section(node, before, outputs, (first[0], second[0]), (first[1], second[1]), has_state)
