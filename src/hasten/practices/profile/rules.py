"""Rules on a profile: where the time goes, what is delegated, which operators have headroom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from hasten.core.profile import OperatorTime, Profile
    from hasten.practices.practice import Evidence

NAME: Final = "profile"
_KINDS_TOLD: Final = 3


def verdict(known: Evidence) -> Finding:
    """Where the time of the tuned model goes."""
    before, after = known.profiles
    profile = after or before
    if profile is None:
        return not_examined(NAME)
    earlier = before if before is not None and after is not None and before is not after else None
    return Finding(NAME, Standing.GOOD, _as_timed(where_time_goes(profile, earlier), known))


def _as_timed(told: Remark, known: Evidence) -> Remark:
    """The same with the latencies of the tuning, where latencies are told: a page has one for each trial."""
    if told.code != "profile.unseen" or known.best.latency is None or known.base.latency is None:
        return told
    earlier_ms = None if told.facts["earlier_ms"] is None else known.base.median_ms
    return remark(told.code, **{**told.facts, "latency_ms": known.best.median_ms, "earlier_ms": earlier_ms})


def unprofiled_ms(profile: Profile) -> float:
    """A run without profiling, taken from undisturbed runs as the profiled one is; an older release has the latency."""
    return profile.plain_ms or profile.latency_ms


def where_time_goes(profile: Profile, earlier: Profile | None = None) -> Remark:
    """The kinds of operators that take most of a run, or that too little of it is seen."""
    plain_ms = unprofiled_ms(profile)
    if not profile.is_mostly_seen:
        earlier_ms = unprofiled_ms(earlier) if earlier else None
        return remark("profile.unseen", latency_ms=plain_ms, earlier_ms=earlier_ms, seen_ms=profile.seen_ms)
    kinds = [{"op": kind.op, "share": profile.share(kind.ms)} for kind in profile.by_kind()[:_KINDS_TOLD]]
    earlier_ms = earlier.invoke_ms if earlier else None
    return remark("profile.kinds", run_ms=profile.invoke_ms, latency_ms=plain_ms, earlier_ms=earlier_ms, kinds=kinds)


def remarks_on_mapping(profile: Profile) -> list[Remark]:
    """What to know about how kernels were mapped to the nodes of the graph."""
    found = []
    if any(partition.delegated for partition in profile.partitions) and not _delegated_nodes(profile):
        found.append(remark("profile.rewritten"))
    for mapped, code in (("ambiguous", "profile.ambiguous"), ("guess", "profile.guess")):
        if nodes := [operator.index for operator in profile.operators if operator.mapped == mapped]:
            found.append(remark(code, nodes=nodes))
    if any(operator.index < 0 and operator.fused for operator in profile.operators):
        found.append(remark("profile.opaque"))
    return found


def placement(profile: Profile) -> Remark:
    """How many operators delegates run, in how many partitions, and which kinds are left."""
    delegated = [partition for partition in profile.partitions if partition.delegated]
    left: dict[str, int] = {}
    for partition in profile.partitions:
        for op in () if partition.delegated else partition.operators:
            left[op] = left.get(op, 0) + 1
    nodes = _delegated_nodes(profile)
    total = sum(len(partition.nodes) for partition in profile.partitions)
    return remark("profile.placement", delegated=nodes, total=total, partitions=len(delegated), left=left)


def by_headroom(profile: Profile) -> list[OperatorTime]:
    """The operators that have headroom, the most first."""
    return sorted((it for it in profile.operators if it.headroom_ms), key=lambda it: -(it.headroom_ms or 0.0))


def _delegated_nodes(profile: Profile) -> int:
    return sum(len(partition.nodes) for partition in profile.partitions if partition.delegated)
