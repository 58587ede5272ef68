"""Decisions from profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark

if TYPE_CHECKING:
    from hasten.practices.practice import Evidence

NAME: Final = "profile"
MOSTLY_SEEN: Final = 0.5
"""With less of the run found in operators, nothing can be said of where the rest goes."""
_KINDS_TOLD: Final = 3


def verdict(known: Evidence) -> Finding:
    """Where the time of the tuned model goes."""
    before, after = known.profiles
    profile = after or before
    if profile is None:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("profile.not-examined"))
    earlier_ms = before.latency_ms if before is not None and after is not None and before is not after else None
    facts = {"latency_ms": profile.latency_ms, "earlier_ms": earlier_ms}
    if profile.seen < MOSTLY_SEEN:
        seen_ms = sum(operator.ms for operator in profile.operators)
        return Finding(NAME, Standing.GOOD, remark("profile.unseen", **facts, seen_ms=seen_ms))
    kinds = [{"op": op, "share": ms / profile.invoke_ms} for op, _, ms, _ in profile.by_kind()[:_KINDS_TOLD]]
    return Finding(NAME, Standing.GOOD, remark("profile.kinds", **facts, kinds=kinds))
