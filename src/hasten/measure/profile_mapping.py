"""Events of the engine's profiler as operators of the graph: which nodes ran where, as which kernels, for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hasten.core.placement import XNNPACK
from hasten.core.profile import OperatorTime, PartitionTime
from hasten.model.alignment import align
from hasten.model.kernels import kind_of_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from hasten.core.block import RawEvent
    from hasten.core.placement import Placement
    from hasten.model.graph import Node, Subgraph

_KERNELS, _ENGINE, _OPAQUE = "kernels", "engine", "opaque"


@dataclass(frozen=True, slots=True)
class Timed:
    """An event with its position in the engine's list and its mean time over the quiet runs."""

    position: int
    event: RawEvent
    ms: float


def map_events(
    subgraph: Subgraph, events: Sequence[Timed], placement: Placement | None
) -> tuple[list[OperatorTime], list[PartitionTime]]:
    """Operators in execution order, and the partitions that they run in.

    Which nodes a partition has is taken from what was seen placed, or worked out again where that was not seen.
    """
    own = {timed.event.index for timed in events if is_own(timed, subgraph)}
    inside, outside = _delegated_nodes(subgraph, own, placement)
    operators: list[OperatorTime] = []
    partitions: list[PartitionTime] = []
    for number, (kind, group) in enumerate(_units(subgraph, events)):
        if kind == _ENGINE:
            nodes = tuple(timed.event.index for timed in group)
            found = [_operator(subgraph, subgraph.nodes[t.event.index], (), [t], None, "engine") for t in group]
        else:
            nodes = _next_nodes(kind, inside, outside)
            if kind == _KERNELS and nodes:
                found = _mapped(subgraph, nodes, group, number)
            else:
                found = [_opaque(subgraph, nodes, group, number)]
        operators.extend(found)
        labels = tuple(subgraph.nodes[index].label for index in nodes)
        partitions.append(PartitionTime(number, kind != _ENGINE, nodes, labels, sum(o.ms for o in found)))
    for nodes in [*inside, *(outside if outside is not inside else ())]:  # delegates that were not even timed
        operators.append(_opaque(subgraph, nodes, [], len(partitions)))
        labels = tuple(subgraph.nodes[index].label for index in nodes)
        partitions.append(PartitionTime(len(partitions), delegated=True, nodes=nodes, operators=labels, ms=0.0))
    return operators, partitions


def map_rewritten(events: Sequence[Timed]) -> tuple[list[OperatorTime], list[PartitionTime]]:
    """Events of a graph that a vendor's compiler rewrote: its nodes are not the file's, so only names can be told."""
    operators = []
    for number, timed in enumerate(events):
        delegated = timed.event.kind == "kernel" or timed.event.tag == "DELEGATE"
        name = kind_of_kernel(timed.event.tag) if timed.event.kind == "kernel" else timed.event.tag
        operators.append(
            OperatorTime(
                index=-1,
                op=name,
                kernels=(timed.event.tag,),
                location="",
                shapes="",
                ms=timed.ms,
                share=0.0,
                partition=number if delegated else None,
                mapped="partition" if delegated else "engine",
                events=(timed.position,),
            )
        )
    partitions = [PartitionTime(i, o.partition is not None, (), (o.op,), o.ms) for i, o in enumerate(operators)]
    return operators, partitions


def is_own(timed: Timed, subgraph: Subgraph) -> bool:
    """Whether it is an operator that the engine's own kernel ran."""
    # The engine numbers the nodes that stand for a whole delegated partition after those of the file.
    return timed.event.kind == "operator" and timed.event.index < len(subgraph.nodes)


def _units(subgraph: Subgraph, events: Sequence[Timed]) -> Iterator[tuple[str, list[Timed]]]:
    """What runs together, in its order: kernels of one partition (their indices rise), the engine's own operators in a
    row, or one call of a delegate that does not say what happens inside."""
    group: list[Timed] = []
    before = ""
    for timed in events:
        kind = _KERNELS if timed.event.kind == "kernel" else _ENGINE if is_own(timed, subgraph) else _OPAQUE
        begins_another = kind == _OPAQUE or (kind == _KERNELS and group and timed.event.index <= group[-1].event.index)
        if group and (kind != before or begins_another):
            yield before, group
            group = []
        group.append(timed)
        before = kind
    if group:
        yield before, group


def _delegated_nodes(
    subgraph: Subgraph, own: set[int], placement: Placement | None
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Nodes of the partitions that report kernels, and of those that do not, each in the order in which they run."""
    if placement is not None and {partition.graph for partition in placement.partitions} == {0}:
        inside = [p.nodes for p in placement.partitions if p.delegate == XNNPACK]
        return inside, [p.nodes for p in placement.partitions if p.delegate != XNNPACK]
    derived = [nodes for delegated, nodes in partition_graph(subgraph, own) if delegated]
    return derived, derived


def partition_graph(subgraph: Subgraph, left_to_engine: AbstractSet[int]) -> list[tuple[bool, tuple[int, ...]]]:
    """LiteRT's partitions in the order in which they run, worked out again from the nodes that the engine runs with its
    own kernels: whether a delegate runs it, and its nodes.

    LiteRT gathers every node of one kind (taken or left) that is ready, until none is; then it turns to the other kind.
    Each gathering of taken nodes is one partition. Nodes that touch variables keep their order.
    """
    computed = {tensor for node in subgraph.nodes for tensor in node.outputs if tensor >= 0}
    handles = {tensor.index for tensor in subgraph.tensors if tensor.dtype in ("resource", "variant")}
    touching = [node.index for node in subgraph.nodes if not handles.isdisjoint((*node.inputs, *node.outputs))]
    after = dict(zip(touching[1:], touching, strict=False))
    waiting = [node.index for node in subgraph.nodes]
    partitions: list[tuple[bool, tuple[int, ...]]] = []
    while waiting:
        taken, delegated = _gather(subgraph, waiting, computed, left_to_engine, after)
        if not taken:  # nodes that wait for each other; the engine would not have run them
            break
        partitions.append((delegated, tuple(taken)))
        waiting = [index for index in waiting if index not in taken]
    return partitions


def _gather(
    subgraph: Subgraph,
    waiting: list[int],
    computed: set[int],
    left_to_engine: AbstractSet[int],
    after: Mapping[int, int],
) -> tuple[dict[int, None], bool]:
    """Every ready node of the kind that the first ready node has. Takes their outputs out of `computed`.

    `after` gives nodes another one that must have been gathered before.
    """
    queue = set(waiting)
    taken: dict[int, None] = {}  # in the order in which they were gathered
    kind: bool | None = None
    found = True
    while found:
        found = False
        for index in waiting:
            node = subgraph.nodes[index]
            if index in taken or any(tensor in computed for tensor in node.inputs) or after.get(index) in queue:
                continue
            if kind is None:
                kind = index not in left_to_engine
            if kind == (index not in left_to_engine):
                taken[index] = None
                queue.discard(index)
                computed.difference_update(node.outputs)
                found = True
    return taken, bool(kind)


def _next_nodes(kind: str, inside: list[tuple[int, ...]], outside: list[tuple[int, ...]]) -> tuple[int, ...]:
    queue = inside if kind == _KERNELS else outside
    return queue.pop(0) if queue else ()


def _mapped(subgraph: Subgraph, indices: Sequence[int], kernels: list[Timed], number: int) -> list[OperatorTime]:
    """The partition's nodes with the kernels that they ran as; nodes without one are fused into a neighbor."""
    nodes = [subgraph.nodes[index] for index in indices]
    assignments = align([node.op for node in nodes], [timed.event.tag for timed in kernels])
    owned: dict[int, list[int]] = {}
    for kernel, assignment in enumerate(assignments):
        owned.setdefault(assignment.node, []).append(kernel)
    found: list[OperatorTime] = []
    fused_ahead: list[str] = []
    for position, node in enumerate(nodes):
        mine = owned.get(position)
        if mine is None and found:
            found[-1] = replace(found[-1], fused=(*found[-1].fused, f"{node.index} {node.label}"))
        elif mine is None:
            fused_ahead.append(f"{node.index} {node.label}")
        else:
            certainties = {assignments[kernel].certainty for kernel in mine}
            mapped = next(word for word in ("guess", "ambiguous", "exact") if word in certainties)
            own = [kernels[kernel] for kernel in mine]
            tags = tuple(timed.event.tag for timed in own)
            found.append(replace(_operator(subgraph, node, tags, own, number, mapped), fused=tuple(fused_ahead)))
            fused_ahead = []
    return found


def _opaque(subgraph: Subgraph, nodes: Sequence[int], calls: list[Timed], number: int) -> OperatorTime:
    """A partition that cannot be looked into: one row for all of it."""
    tags = tuple(timed.event.tag for timed in calls) or ("not reported",)
    return OperatorTime(
        index=-1,
        op="DELEGATE",
        kernels=tags,
        location=subgraph.node_location(subgraph.nodes[nodes[-1]]) if nodes else "",
        shapes=_shapes_text(subgraph, subgraph.nodes[nodes[-1]]) if nodes else "",
        ms=sum(timed.ms for timed in calls),
        share=0.0,
        partition=number,
        mapped="partition",
        events=tuple(timed.position for timed in calls),
        fused=tuple(f"{index} {subgraph.nodes[index].label}" for index in nodes),
    )


def _operator(
    subgraph: Subgraph, node: Node, kernels: tuple[str, ...], timed: list[Timed], partition: int | None, mapped: str
) -> OperatorTime:
    return OperatorTime(
        index=node.index,
        op=node.label,
        kernels=kernels,
        location=subgraph.node_location(node),
        shapes=_shapes_text(subgraph, node),
        ms=sum(entry.ms for entry in timed),
        share=0.0,
        partition=partition,
        mapped=mapped,
        events=tuple(entry.position for entry in timed),
        kernel_ms=tuple(entry.ms for entry in timed) if kernels else (),
    )


def _shapes_text(subgraph: Subgraph, node: Node) -> str:
    """Inputs that change from run to run, and the first output: what a person needs to find the layer."""
    inputs = [
        subgraph.tensors[index] for index in node.inputs if index >= 0 and not subgraph.tensors[index].is_constant
    ]
    outputs = [subgraph.tensors[index] for index in node.outputs if index >= 0]
    left = ", ".join("x".join(map(str, tensor.shape)) for tensor in inputs)
    right = "x".join(map(str, outputs[0].shape)) if outputs else ""
    return f"{left} → {right}"
