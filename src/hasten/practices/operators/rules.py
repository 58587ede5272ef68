"""Which operators are worth work, what of the things tried is worth keeping, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_WHEN_CLEAR, Verdict
from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark
from hasten.core.trial import Purpose
from hasten.practices.operators.facts import FAILED, NOT_ALONE, NOT_CONFIRMED, OperatorsFound, Place
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.profile import OperatorTime, Profile
    from hasten.practices.operators.facts import Tried
    from hasten.practices.practice import Evidence

NAME: Final = "operators"
# An operator with less to win than this share of the run is not worth a kernel of one's own.
_WORTH: Final = 0.10
# Places with less than this share of the run to win, and nothing to try, are left out of the table; not what dominates.
_WORTH_A_ROW: Final = 0.01
_DOMINATES: Final = 0.10
_OPEN: Final = (Verdict.FASTER, Verdict.UNDECIDED)


def places_of(profile: Profile, tried: Sequence[Tried]) -> list[Place]:
    """Where time goes and can be won: operators of one kind to which the same rewrites apply count together."""
    rewrites: dict[int, list[str]] = {}
    for one in (one for one in tried if one.is_single):
        for node in one.nodes:
            rewrites.setdefault(node, []).append(one.what)
    groups: dict[tuple[str, tuple[str, ...], bool], list[OperatorTime]] = {}
    for operator in profile.operators:
        names = tuple(rewrites.get(operator.index, ()))
        groups.setdefault((operator.op, names, operator.partition is not None), []).append(operator)
    places = [_place(profile, op, names, delegated, members) for (op, names, delegated), members in groups.items()]
    worth = [
        place
        for place in places
        if place.to_try or place.share >= _DOMINATES or profile.share(place.gain_ms) >= _WORTH_A_ROW
    ]
    return sorted(worth, key=lambda place: -place.gain_ms)


def _place(
    profile: Profile, op: str, names: tuple[str, ...], delegated: bool, members: Sequence[OperatorTime]
) -> Place:
    known = [member.headroom_ms for member in members if member.headroom_ms is not None]
    longest = max(members, key=lambda member: member.ms)
    ms = sum(member.ms for member in members)
    return Place(
        op,
        nodes=tuple(sorted(member.index for member in members if member.index >= 0)),
        location=longest.location,
        ms=ms,
        share=profile.share(ms),
        headroom_ms=sum(known) if known else None,
        bound=longest.bound,
        delegated=delegated,
        to_try=names,
    )


def worth_keeping(tried: Tried) -> bool:
    """Whether outputs are equal and it is proven faster."""
    return tried.is_equal and tried.is_faster


def worth_proving(tried: Tried) -> bool:
    """Whether outputs are equal, and the rounds of a race say faster, or would if there were more of them."""
    return tried.is_equal and tried.comparison is not None and tried.comparison.leaning is Verdict.FASTER


def hides_gains(together: Tried) -> bool:
    """Whether all rewrites together lose, so that one of them may win all the same; or do not run."""
    return together.comparison is None or together.comparison.leaning is Verdict.SLOWER


def has_time_alone(rewrites: int, each_s: float, left_s: float) -> bool:
    """Whether each rewrite and the original get as many rounds in this time as a clear difference needs."""
    return FEWEST_WHEN_CLEAR * each_s * (rewrites + 1) <= left_s


def reason_of(found: Comparison) -> Remark:
    """Why something that was timed is not kept; or that it is faster."""
    facts = {"ratio": found.ratio, "ci95": found.ci95, "rounds": found.rounds}
    return remark(f"operators.{found.verdict.value}", **facts)


def finding_of(found: OperatorsFound) -> Finding:
    """What the study comes to."""
    if found.final is not None and found.latency_ms is not None:
        kept = [one.what for one in found.kept]
        facts = {
            "ratio": found.final.ratio,
            "ci95": found.final.ci95,
            "from_ms": found.latency_ms[0],
            "to_ms": found.latency_ms[1],
            "rewrites": [one.what for one in found.kept if one.is_single] or kept,
            "path": found.path,
            "dropped": list(found.dropped_outputs),
        }
        return Finding(NAME, Standing.TO_DO, remark("operators.rewritten", **facts))
    if found.refused_kernels:
        return Finding(NAME, Standing.TO_DO, kernels_refused(found))
    if undecided := [one.what for one in found.tried if _is_open(one) or (found.interrupted and _is_untimed(one))]:
        return Finding(NAME, Standing.UNDECIDED, remark("operators.undecided-all", rewrites=undecided))
    top = found.places[0] if found.places else None
    share = top.gain_ms / found.invoke_ms if top is not None and found.invoke_ms else 0.0
    single = [one for one in found.tried if one.is_single]
    facts = {
        "tried": len(single),
        "failed": sum(not one.is_equal or one.why.code == FAILED for one in single),
        "only_together": any(one.why.code == NOT_ALONE for one in single),
        "share": share,
    }
    where = {} if top is None else {"op": top.op, "location": top.location}
    return Finding(NAME, Standing.GOOD, remark("operators.nothing-to-gain", **facts, **where))


def _is_open(tried: Tried) -> bool:
    """Whether it may be faster: the race does not tell, or says so and fresh processes did not decide it."""
    if tried.why.code == NOT_CONFIRMED:
        return tried.why.facts.get("verdict") == Verdict.UNDECIDED.value
    return tried.why.code != FAILED and tried.comparison is not None and tried.comparison.verdict in _OPEN


def _is_untimed(tried: Tried) -> bool:
    """Whether its turn had not come yet."""
    return tried.comparison is None and not tried.why.code


def kernels_refused(found: OperatorsFound) -> Remark:
    """That kernels of the user's own are wrong."""
    return remark("operators.kernels-refused", kernels=list(found.refused_kernels))


def verdict(known: Evidence) -> Finding:
    """Whether a single operator of the tuned model has much to win."""
    rewritten = [trial for trial in known.trials if trial.purpose is Purpose.REWRITE and trial.latency is not None]
    gains = {trial.id: known.verdict_on(trial, same) for trial in rewritten if (same := known.on_same_plan(trial))}
    if gains and Verdict.FASTER not in gains.values():
        undecided = Verdict.UNDECIDED in gains.values()
        code = "operators.rewriting-undecided" if undecided else "operators.rewriting-no-gain"
        return Finding(NAME, Standing.UNDECIDED if undecided else Standing.GOOD, remark(code))
    profile = known.profiles[1] or known.profiles[0]
    if profile is None:
        return not_examined(NAME)
    if not profile.tells_operators:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("operators.unseen"))
    judged = [operator for operator in profile.operators if operator.headroom_ms is not None]
    if not judged:
        code = "operators.no-peaks" if profile.peaks is None else "operators.no-headroom"
        return Finding(NAME, Standing.NOT_EXAMINED, remark(code))
    top = max(judged, key=_headroom_ms)
    share = profile.share(_headroom_ms(top))
    facts = {"op": top.op, "location": top.location, "share": share, "headroom_ms": _headroom_ms(top)}
    if share < _WORTH:
        return Finding(NAME, Standing.GOOD, remark("operators.little", **facts))
    return Finding(NAME, Standing.TO_DO, remark("operators.much", **facts, run_ms=profile.invoke_ms))


def _headroom_ms(operator: OperatorTime) -> float:
    return operator.headroom_ms or 0.0
