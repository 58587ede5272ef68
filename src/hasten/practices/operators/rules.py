"""Which operators are worth optimizing, by the headroom that a profile shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from hasten.core.profile import OperatorTime
    from hasten.practices.practice import Evidence

NAME: Final = "operators"
# An operator with less to win than this share of the run is not worth a kernel of one's own.
_WORTH: Final = 0.10


def verdict(known: Evidence) -> Finding:
    """Whether a single operator of the tuned model has much to win."""
    profile = known.profiles[1] or known.profiles[0]
    if profile is None:
        return not_examined(NAME)
    if not profile.is_mostly_seen:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("operators.unseen"))
    judged = [operator for operator in profile.operators if operator.headroom_ms is not None]
    if not judged:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("operators.no-headroom"))
    top = max(judged, key=_headroom_ms)
    share = profile.share(_headroom_ms(top))
    facts = {"op": top.op, "location": top.location, "share": share, "headroom_ms": _headroom_ms(top)}
    if share < _WORTH:
        return Finding(NAME, Standing.GOOD, remark("operators.little", **facts))
    return Finding(NAME, Standing.TO_DO, remark("operators.much", **facts, run_ms=profile.invoke_ms))


def _headroom_ms(operator: OperatorTime) -> float:
    return operator.headroom_ms or 0.0
