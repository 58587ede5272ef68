"""How much of a model the requested back end really runs, by the placement that was observed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.core.placement import XNNPACK, YNNPACK
from hasten.model.cost import count_cost, stored_shapes

if TYPE_CHECKING:
    from typing import Any

    from hasten.core.placement import Partition
    from hasten.core.plan import Plan
    from hasten.model.graph import Graph
    from hasten.targets.client import LoadReport

YNNPACK_OPTION: Final = ("cpu.enable_ynnpack", "true")


def something_else_ran(plan: Plan, load: LoadReport) -> Failure | None:
    """The failure to say so, if what was asked for took nothing and something else ran in its place."""
    placement = load.placement
    if placement is None and YNNPACK_OPTION in plan.options:
        return Failure("load", "accelerator", f"This model needs LiteRT's {load.api} interface, which has no YNNPACK.")
    if placement is None or not _is_delegated(plan) or not placement.partitions or _ours(plan, load):
        return None
    if plan.runs_on_cpu and YNNPACK_OPTION not in plan.options:
        return None  # that XNNPACK takes nothing is its good right: the built-in kernels are the CPU's as well
    others = Counter[str]()
    for partition in placement.partitions:
        others[partition.delegate] += len(partition.nodes)
    seen = ", ".join(f"{name} ({count} operators)" for name, count in others.most_common())
    return Failure(
        "load",
        "accelerator",
        f"Another back end took the model's operators: {seen}.",
        "hasten did not time it: the time would be that of the other one.",
    )


def placement_fields(graph: Graph, plan: Plan, load: LoadReport) -> dict[str, Any]:
    """How much of the model the plan's own back end runs, as fields of its row."""
    total = sum(len(subgraph.nodes) for subgraph in graph.subgraphs)
    if not _is_delegated(plan):
        return {"placed_ops": total, "total_ops": total, "partitions": 1, "placed_macs": 1.0, "placed_bytes": 1.0}
    if load.placement is None:
        whole = not plan.runs_on_cpu and load.without_cpu
        return {"total_ops": total, "placed_ops": total if whole else None}
    ours = _ours(plan, load)
    graphs = _seen_graphs(graph, load)
    total = sum(len(graph.subgraphs[index].nodes) for index in graphs)
    if plan.accelerator == "npu" and not plan.delegate:
        # The vendor's compiler rewrote the graph: its nodes are not the file's, only their number can be told.
        left = load.placement.on_cpu
        share = 1.0 if left == 0 else None
        placed = max(0, total - left)
        return {
            "total_ops": total,
            "placed_ops": placed,
            "partitions": len(ours),
            "placed_macs": share,
            "placed_bytes": share,
        }
    taken = {(partition.graph, node) for partition in ours for node in partition.nodes}
    nodes = [(index, node) for index in graphs for node in graph.subgraphs[index].nodes]
    refused = Counter(node.label for index, node in nodes if (index, node.index) not in taken)
    return {
        "total_ops": total,
        "placed_ops": total - refused.total(),
        "partitions": len(ours),
        "refused": tuple(f"{op} x{count}" for op, count in refused.most_common()),
        "placed_macs": _share(graph, graphs, taken, "macs"),
        "placed_bytes": _share(graph, graphs, taken, "bytes_written"),
    }


def _is_delegated(plan: Plan) -> bool:
    return not plan.runs_on_cpu or plan.kernel == "delegate"


def _ours(plan: Plan, load: LoadReport) -> list[Partition]:
    if load.placement is None:
        return []
    if plan.runs_on_cpu:
        wanted = {YNNPACK} if YNNPACK_OPTION in plan.options else {XNNPACK, YNNPACK}
        return [partition for partition in load.placement.partitions if partition.delegate in wanted]
    return [partition for partition in load.placement.on_accelerator if not _is_foreign(plan, partition.delegate)]


def _is_foreign(plan: Plan, delegate: str) -> bool:
    """Whether the delegate is another accelerator's, by its name. A delegate library may call its own what it likes."""
    if plan.delegate:
        return False
    name = delegate.lower()
    of_gpu = "gpu" in name or name.startswith("litert_")
    return of_gpu if plan.accelerator == "npu" else "dispatch" in name or "npu" in name


def _seen_graphs(graph: Graph, load: LoadReport) -> list[int]:
    """The subgraphs that the engine prepared: the bodies of loops and all signatures, as a rule all of them."""
    assert load.placement is not None
    seen = {partition.graph for partition in load.placement.partitions} | {index for index, _ in load.placement.left}
    return [index for index in sorted(seen) if index < len(graph.subgraphs)]


def _share(graph: Graph, graphs: list[int], taken: set[tuple[int, int]], what: str) -> float | None:
    """The share of a cost that is taken; loops count as if they ran once."""
    total = part = 0
    for index in graphs:
        subgraph = graph.subgraphs[index]
        shapes = stored_shapes(subgraph)
        for node in subgraph.nodes:
            cost = getattr(count_cost(subgraph, node, shapes), what) or 0
            total += cost
            part += cost if (index, node.index) in taken else 0
    return part / total if total else None
