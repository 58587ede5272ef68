"""How much of a graph a delegate takes: by its rules, or as it was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.placement import XNNPACK, YNNPACK
from hasten.core.remark import Remark, remark
from hasten.measure.profile_mapping import partition_graph
from hasten.model.cost import count_cost, stored_shapes
from hasten.practices.help.model_checks.delegates.gpu import GPU
from hasten.practices.help.model_checks.delegates.hexagon import HEXAGON
from hasten.practices.help.model_checks.delegates.nnapi import NNAPI
from hasten.practices.help.model_checks.delegates.rule import Delegate, Site, known_tensors
from hasten.practices.help.model_checks.delegates.xnnpack import XNNPACK_RULES
from hasten.practices.help.model_checks.facts import DelegateFit, Refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hasten.core.placement import Placement
    from hasten.core.profile import Profile
    from hasten.model.graph import Graph

DELEGATES: Final = (XNNPACK_RULES, GPU, NNAPI, HEXAGON)
_WITHOUT_A_RULE: Final = remark("refused.observed")
_SMALL_PART: Final = remark("refused.small-part")


def fit_by_rules(graph: Graph, delegate: Delegate) -> DelegateFit:
    """What the rules say of the main graph."""
    reasons = _refusals(graph, delegate)
    parts = [nodes for delegated, nodes in partition_graph(graph.main, set(reasons)) if delegated]
    kept = sorted(parts, key=len, reverse=True)[: delegate.most_partitions]
    reasons |= {node: _SMALL_PART for part in parts if part not in kept for node in part}
    return DelegateFit(
        name=delegate.name,
        observed=False,
        total=len(graph.main.nodes),
        taken=len(graph.main.nodes) - len(reasons),
        partitions=len(kept),
        refusals=_gathered(graph, reasons),
        taken_macs=_share_of_macs(graph, set(reasons)),
        wants_integers=delegate.wants_integers and not graph.number_format().computes_in_integers,
    )


def fit_observed(graph: Graph, placement: Placement) -> DelegateFit:
    """What XNNPACK was seen to take of the main graph; its rules give the reasons."""
    ours = [part for part in placement.partitions if part.graph == 0 and part.delegate in (XNNPACK, YNNPACK)]
    taken = {node for part in ours for node in part.nodes}
    known = _refusals(graph, XNNPACK_RULES)
    left = [node.index for node in graph.main.nodes if node.index not in taken]
    reasons = {index: known.get(index, _WITHOUT_A_RULE) for index in left}
    return DelegateFit(
        name=XNNPACK_RULES.name,
        observed=True,
        total=len(graph.main.nodes),
        taken=len(taken),
        partitions=len(ours),
        refusals=_gathered(graph, reasons),
        taken_macs=_share_of_macs(graph, set(reasons)),
    )


def left_share(fit: DelegateFit, profile: Profile | None) -> float | None:
    """The share of a measured run that the refused operators take; None where no operator was timed by itself."""
    if profile is None or not profile.is_mostly_seen:
        return None
    left = {node for refusal in fit.refusals for node in refusal.nodes}
    return profile.share(sum(operator.ms for operator in profile.operators if operator.index in left))


def _refusals(graph: Graph, delegate: Delegate) -> dict[int, Remark]:
    """The nodes that a delegate leaves to the CPU by its rules, each with the reason."""
    known = known_tensors(graph.main)
    reasons = {node.index: delegate.refusal(Site(graph.main, node, known)) for node in graph.main.nodes}
    return {index: why for index, why in reasons.items() if why is not None}


def _gathered(graph: Graph, reasons: Mapping[int, Remark]) -> tuple[Refusal, ...]:
    """Refusals of one kind of operator for one reason as one, most nodes first."""
    groups: dict[tuple[str, str], tuple[Remark, list[int]]] = {}
    for index, why in sorted(reasons.items()):
        label = graph.main.nodes[index].label
        key = (label, f"{why.code} {sorted(why.facts.items())}")
        groups.setdefault(key, (why, []))[1].append(index)
    rows = [Refusal(label, tuple(nodes), why) for (label, _), (why, nodes) in groups.items()]
    return tuple(sorted(rows, key=lambda row: (-len(row.nodes), row.nodes)))


def _share_of_macs(graph: Graph, refused: Collection[int]) -> float | None:
    shapes = stored_shapes(graph.main)
    total = part = 0
    for node in graph.main.nodes:
        macs = count_cost(graph.main, node, shapes).macs or 0
        total += macs
        part += 0 if node.index in refused else macs
    return part / total if total else None
