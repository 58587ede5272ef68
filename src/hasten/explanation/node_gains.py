"""What each node gains by a variant's integers: both models profiled in turns, and what conversions would cost.

A node that goes back to float amid integers needs its inputs and outputs converted. What that costs is taken from the
conversions that the variant has already, by the number of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.explanation.rules import BUILT_IN, SideBySide
from hasten.explanation.run import profile_in_turns
from hasten.measure.rounds import FailedCandidate
from hasten.model.graph import CONVERSIONS
from hasten.model.matching import match_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hasten.explanation.facts import NodeRow
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.run import Turns
    from hasten.measure.rounds import Progress
    from hasten.model.graph import Subgraph
    from hasten.targets.base import Target

SECONDS = 6.0
# A loss of this part of a run is worth further rounds, until it is sure or turns out to be none.
_WORTH = 0.01
# Of nodes that lose less, the weakest are left out of further sets, one after the other. On a model of 60 µs a profile
# in three calls one of them slow that is not, and conversions next to it make the model 4 % slower.
_LEFT_OUT = 2


@dataclass(frozen=True, slots=True)
class NodeGain:
    """What a node of the original takes less in the variant, against what leaving it float would add."""

    node: int
    op: str
    saved_ms: float
    """Negative where the variant is slower here."""
    is_sure: bool
    """Whether the rounds agree on the sign, be it for all nodes of its kind together."""
    conversions_ms: float
    kernel_before: str
    kernel_after: str

    @property
    def gain_ms(self) -> float:
        """What the run would take more if this node were float."""
        return self.saved_ms + self.conversions_ms

    @property
    def is_outside(self) -> bool:
        """Whether a delegate runs this node in the original and not in the variant."""
        return self.kernel_after == BUILT_IN != self.kernel_before

    @property
    def is_loss(self) -> bool:
        """Whether leaving it float should make the variant faster."""
        return self.is_sure and self.gain_ms < 0


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of a variant's nodes, by the original's numbers, and the time of a run of the original."""

    nodes: dict[int, NodeGain]
    invoke_ms: float

    @property
    def losses(self) -> tuple[int, ...]:
        """The nodes that are better left float."""
        return tuple(sorted(node for node, gain in self.nodes.items() if gain.is_loss))

    @property
    def loss_sets(self) -> tuple[tuple[int, ...], ...]:
        """Sets of nodes to leave float, of which a race has to find the best, the surest first: those that lose a part
        of a run that is worth it; those that leave the delegate; those that seem to lose; then with those that lose
        less, all of them in the end."""
        weak = [node for node in self.losses if self.nodes[node].gain_ms > -_WORTH * self.invoke_ms]
        weak.sort(key=lambda node: self.nodes[node].gain_ms, reverse=True)
        counts = (len(weak), *range(min(_LEFT_OUT, len(weak)), -1, -1))
        surest, *further = [tuple(node for node in self.losses if node not in weak[:count]) for count in counts]
        return tuple(dict.fromkeys(nodes for nodes in (surest, self._outside, self._likely, *further) if nodes))

    @property
    def _outside(self) -> tuple[int, ...]:
        """The nodes that lose as the delegate has no kernel for their integers, whatever conversions seem to cost:
        those at the ends of a model, by which that is guessed, can take ten times as long as those inside of it."""
        return tuple(sorted(node for node, gain in self.nodes.items() if gain.is_outside and gain.saved_ms < 0))

    @property
    def _likely(self) -> tuple[int, ...]:
        """The nodes that seem to lose a part of a run that is worth it, be it not sure on a noisy machine."""
        return tuple(sorted(node for node, gain in self.nodes.items() if gain.gain_ms < -_WORTH * self.invoke_ms))

    @property
    def leaves_open(self) -> bool:
        """Whether a node is likely a loss that somebody would notice, and not sure to be one."""
        return any(not self.nodes[node].is_sure for node in self._likely)

    def shares(self) -> dict[int, float]:
        """What each node has to give, as a part of the original's time."""
        return {node: max(0.0, gain.gain_ms) / self.invoke_ms for node, gain in self.nodes.items()}


def measure_gains(
    target: Target, original: Subject, variant: Subject, progress: Progress, seconds: float = SECONDS
) -> Gains | None:
    """Profile both in turns for about so long, start-up of their processes apart, and longer where that leaves open
    what a node loses; None where one cannot be profiled."""

    def gains(turns: Turns) -> Gains:
        return _gains_of(turns, original.subgraph, variant.subgraph)

    turns = profile_in_turns(
        target, (original, variant), seconds, None, progress, lambda turns: gains(turns).leaves_open
    )
    return None if isinstance(turns, FailedCandidate) else gains(turns)


def _gains_of(turns: Turns, original: Subgraph, variant: Subgraph) -> Gains:
    sides = SideBySide(match_nodes(original, variant), turns.whole, turns.rounds)
    slower = {
        match.before
        for cause, matches in sides.fates()
        if cause.change_ms.is_clear and cause.change_ms.estimate > 0
        for match in matches
    }
    return Gains(gains_from_rows(sides.rows(), original, variant, slower), turns.whole[0].invoke_ms)


def gains_from_rows(
    rows: Sequence[NodeRow], original: Subgraph, variant: Subgraph, slower: Collection[int | None] = ()
) -> dict[int, NodeGain]:
    """The gain of each node that both models have and that was timed in both.

    `slower` are nodes of the original that clearly lost together with others of the same kind: where a node of theirs
    is slower too, that is no accident.
    """
    each_ms = _conversion_ms_a_value(rows, variant)
    found = {}
    for row in rows:
        node = row.before
        if node is None or node < 0 or row.ms_before is None or row.ms_after is None:
            continue
        change = row.change_ms
        found[node] = NodeGain(
            node,
            row.op,
            -change.estimate,
            change.is_clear or (change.estimate > 0 and node in slower),
            each_ms * _values_around(original, node),
            row.kernel_before or "",
            row.kernel_after or "",
        )
    return found


def _conversion_ms_a_value(rows: Sequence[NodeRow], variant: Subgraph) -> float:
    spent, values = 0.0, 0
    for row in rows:
        node = row.after
        if row.op in CONVERSIONS and row.ms_after is not None and node is not None and node >= 0:
            spent += row.ms_after
            values += sum(variant.tensors[index].elements or 0 for index in variant.nodes[node].outputs)
    return spent / values if values else 0.0


def _values_around(subgraph: Subgraph, node: int) -> int:
    """How many values flow into a node and out of it, without its weights."""
    entry = subgraph.nodes[node]
    flowing = [index for index in (*entry.inputs, *entry.outputs) if index >= 0]
    return sum(subgraph.tensors[i].elements or 0 for i in flowing if not subgraph.tensors[i].is_weight)
