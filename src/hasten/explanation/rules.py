"""Two profiles, node by node, and the causes of their difference.

Times are those of all rounds together, so that they add up. Intervals go from the lowest to the highest difference of a
round: of six rounds, all lie on one side of the true median in 2 x 0.5**6 = 3 % of the cases only, however far a round
is off that was disturbed (Student's interval would give up at one). Of more rounds, as many are left out at both ends
as that chance allows: one of nine, two of twelve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import Verdict
from hasten.core.remark import Remark, remark
from hasten.explanation.facts import INPUT_CONVERSIONS, Cause, CauseKind, Change, Instructions, NodeRow, Side
from hasten.model.graph import CONVERSIONS
from hasten.model.matching import Certainty, NodeMatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.machine import Machine
    from hasten.core.profile import OperatorTime, Profile

BUILT_IN: Final = "built-in kernel"
SMALLEST_PART: Final = 0.02
"""Below this part of a run's time nobody asks for a cause."""
_MOST_NAMED: Final = 3
# The chance that an interval of rounds lies beside the true median.
_RISK: Final = 0.05
_ENOUGH: Final = 0.9
# Kernels of XNNPACK, by the beginning of their names: what changes types, and what else comes along with a node's own.
_CONVERTING: Final = "Convert"
_COMPANIONS: Final = (_CONVERTING, "Static Reshape")
# (flag as Linux lists it, what people call it)
_X86_INT8: Final = (("avx512_vnni", "AVX-512 VNNI"), ("avx_vnni", "AVX-VNNI"), ("amx_int8", "AMX int8"))
_X86_HALF: Final = (("f16c", "F16C conversions"), ("avx512_fp16", "AVX-512 fp16"), ("avx512_bf16", "AVX-512 bf16"))
_ARM_INT8: Final = (("asimddp", "dot product"), ("i8mm", "i8mm"))
_ARM_HALF: Final = (("asimdhp", "fp16"), ("bf16", "bf16"))


@dataclass(frozen=True, slots=True)
class _Timing:
    """What one of the two models spent on its node."""

    ms: float
    kernels: tuple[str, ...] = ()
    """Of the delegate; none where the engine's own kernel ran."""
    delegated: bool = True
    conversion_ms: float = 0.0
    """The part of `ms` in kernels that only change the type of numbers."""
    headroom_ms: float | None = None
    host: int | None = None
    """The node whose kernel did its work as well; negative for a delegate that does not report its operators."""

    @property
    def kernel(self) -> str:
        """Where it ran, in words."""
        if self.host is not None:
            return f"inside #{self.host}" if self.host >= 0 else "inside the delegate"
        return " + ".join(self.kernels) or BUILT_IN

    @property
    def main_kernel(self) -> str:
        """The kernel that does the work: companions are counted apart, or belong to it; all hosts are alike."""
        if self.host is not None:
            return "inside another node's kernel" if self.host >= 0 else self.kernel
        own = (kernel for kernel in self.kernels if not kernel.startswith(_COMPANIONS))
        return next(own, self.kernels[0] if self.kernels else BUILT_IN)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Matching nodes with their times; None where a node is missing or was not timed."""

    match: NodeMatch
    before: _Timing | None
    after: _Timing | None

    @property
    def timings(self) -> list[_Timing]:
        return [timing for timing in (self.before, self.after) if timing is not None]

    @property
    def stands_for_delegate(self) -> bool:
        """Whether it is no node, but a whole partition."""
        return any(node is not None and node < 0 for node in (self.match.before, self.match.after))

    @property
    def is_opaque(self) -> bool:
        """Whether it stands for a whole delegate, or has no time of its own because it ran in one."""
        untimed = len(self.timings) < 2 and self.match.certainty is not Certainty.NONE
        inside = any(timing.host is not None and timing.host < 0 for timing in self.timings)
        return self.stands_for_delegate or inside or untimed

    @property
    def converts(self) -> bool:
        """Whether a matched node brought kernels along that change types."""
        return self.match.certainty is not Certainty.NONE and any(timing.conversion_ms > 0 for timing in self.timings)


@dataclass(frozen=True, slots=True)
class _Round:
    """Milliseconds by node, and the part of them in converting kernels, of both models in one round."""

    before: Mapping[int, tuple[float, float]]
    after: Mapping[int, tuple[float, float]]

    def change(self, match: NodeMatch) -> tuple[float, float]:
        """The difference without conversions, and that of the conversions."""
        before = self.before.get(match.before, (0.0, 0.0)) if match.before is not None else (0.0, 0.0)
        after = self.after.get(match.after, (0.0, 0.0)) if match.after is not None else (0.0, 0.0)
        converting = after[1] - before[1]
        return after[0] - before[0] - converting, converting


class SideBySide:
    """Profiles of both models by matching nodes: one of all rounds together, and a pair for each round."""

    def __init__(
        self, matches: Sequence[NodeMatch], whole: tuple[Profile, Profile], rounds: Sequence[tuple[Profile, Profile]]
    ) -> None:
        self._profiles, self._round_profiles = whole, rounds
        self._whole = _Round(*(_by_node(profile) for profile in whole))
        self._rounds = [_Round(_by_node(before), _by_node(after)) for before, after in rounds]
        before, after = (_timings(profile) for profile in whole)
        self._pairs = [
            _Pair(match, _at(before, match.before), _at(after, match.after)) for match in _complete(matches, whole)
        ]

    def rows(self) -> list[NodeRow]:
        """A row for each pair, in the order of the changed model; nodes that are gone stand where they were."""
        return [self._row(pair) for pair in self._pairs]

    def fates(self) -> list[tuple[Cause, list[NodeMatch]]]:
        """Nodes with the same fate together, and what it came to. Together they stand out from noise where one by one
        they do not."""
        groups: dict[tuple[CauseKind, str, str, str], list[_Pair]] = {}
        for pair in self._pairs:
            if pair.timings:
                groups.setdefault(_fate(pair), []).append(pair)
        return [(self._cause(fate, pairs), [pair.match for pair in pairs]) for fate, pairs in groups.items()]

    def causes(self) -> list[Cause]:
        """The causes of all nodes, most costly first."""
        found = [cause for cause, _ in self.fates()]
        if (converting := self._conversions()) is not None:
            found.append(converting)
        return sorted(found, key=lambda cause: -cause.change_ms.estimate)

    def outside(self) -> Change:
        """What the difference of the runs has beyond that of their operators."""
        rounds, profiles = [self._whole, *self._rounds], [self._profiles, *self._round_profiles]
        return _change(
            after.invoke_ms - before.invoke_ms - sum(_whole_change(one, pair.match) for pair in self._pairs)
            for one, (before, after) in zip(rounds, profiles, strict=True)
        )

    def side(self, position: int) -> Side:
        """One model as a whole."""
        profile = self._profiles[position]
        delegated = [partition for partition in profile.partitions if partition.delegated]
        left = [partition for partition in profile.partitions if not partition.delegated]
        headrooms = [operator.headroom_ms or 0.0 for operator in profile.operators]
        return Side(
            model=profile.model,
            latency_ms=profile.latency_ms,
            invoke_ms=profile.invoke_ms,
            nodes=sum(len(partition.nodes) for partition in profile.partitions),
            delegated_nodes=sum(len(partition.nodes) for partition in delegated),
            delegated_partitions=len(delegated),
            left=tuple(
                f"#{index} {op}" for part in left for index, op in zip(part.nodes, part.operators, strict=False)
            ),
            headroom_ms=sum(headrooms) if profile.peaks is not None else None,
        )

    def _row(self, pair: _Pair) -> NodeRow:
        before, after = pair.before, pair.after
        return NodeRow(
            *(pair.match.before, pair.match.after, pair.match.certainty),
            *(pair.match.op, pair.match.location, pair.match.shape),
            ms_before=before.ms if before else None,
            ms_after=after.ms if after else None,
            change_ms=self._changed([pair.match], _whole_change),
            kernel_before=before.kernel if before else None,
            kernel_after=after.kernel if after else None,
            headroom_ms_before=before.headroom_ms if before else None,
            headroom_ms_after=after.headroom_ms if after else None,
        )

    def _changed(self, matches: Sequence[NodeMatch], part: Callable[[_Round, NodeMatch], float]) -> Change:
        return _change(sum(part(one, match) for match in matches) for one in (self._whole, *self._rounds))

    def _cause(self, fate: tuple[CauseKind, str, str, str], pairs: Sequence[_Pair]) -> Cause:
        whole = fate[0] in (CauseKind.ADDED, CauseKind.REMOVED)
        before = [pair.before for pair in pairs if pair.before is not None]
        after = [pair.after for pair in pairs if pair.after is not None]
        return Cause(
            *fate,
            sum(1 for pair in pairs if not pair.stands_for_delegate),
            sum(timing.ms - (0.0 if whole else timing.conversion_ms) for timing in before),
            sum(timing.ms - (0.0 if whole else timing.conversion_ms) for timing in after),
            self._changed([pair.match for pair in pairs], _whole_change if whole else _working_change),
        )

    def _conversions(self) -> Cause | None:
        """Types changed on the way into matched nodes, by kernels that they brought along."""
        inside = [pair for pair in self._pairs if pair.converts]
        if not inside:
            return None
        return Cause(
            CauseKind.CONVERSIONS,
            INPUT_CONVERSIONS,
            "",
            _CONVERTING,
            len(inside),
            sum(pair.before.conversion_ms for pair in inside if pair.before is not None),
            sum(pair.after.conversion_ms for pair in inside if pair.after is not None),
            self._changed([pair.match for pair in inside], _converting_change),
        )


def _whole_change(one: _Round, match: NodeMatch) -> float:
    return sum(one.change(match))


def _working_change(one: _Round, match: NodeMatch) -> float:
    return one.change(match)[0]


def _converting_change(one: _Round, match: NodeMatch) -> float:
    return one.change(match)[1]


def _change(differences: Iterable[float]) -> Change:
    """The difference of all rounds together, which comes first, and the range of the rounds; one says nothing of it."""
    whole, *rounds = differences
    if len(rounds) < 2:
        return Change(whole)
    ordered, left_out = sorted(rounds), _left_out(len(rounds))
    return Change(whole, min(whole, ordered[left_out]), max(whole, ordered[-1 - left_out]))


def _left_out(rounds: int) -> int:
    """How many of the lowest and of the highest differences an interval of the median leaves out (the sign test)."""
    found, beside = 0, 1 + rounds
    while 2 * beside / 2**rounds <= _RISK:
        found += 1
        beside += math.comb(rounds, found + 1)
    return found


def _complete(matches: Sequence[NodeMatch], profiles: tuple[Profile, Profile]) -> list[NodeMatch]:
    """The matches, and one for each whole partition that the engine does not look into (it has no node)."""
    before, after = (
        {_key(operator, at): operator.op for at, operator in enumerate(profile.operators) if operator.index < 0}
        for profile in profiles
    )
    if len(before) == len(after):
        pairs = zip(before, after, after.values(), strict=True)
        return [*matches, *(NodeMatch(first, second, Certainty.LIKELY, op) for first, second, op in pairs)]
    gone = [NodeMatch(key, None, Certainty.NONE, op) for key, op in before.items()]
    return [*matches, *gone, *(NodeMatch(None, key, Certainty.NONE, op) for key, op in after.items())]


def _key(operator: OperatorTime, position: int) -> int:
    """The node; a negative number for an operator that stands for a whole partition."""
    return operator.index if operator.index >= 0 else -1 - position


def _by_node(profile: Profile) -> dict[int, tuple[float, float]]:
    return {
        _key(operator, at): (operator.ms, _conversion_ms(operator)) for at, operator in enumerate(profile.operators)
    }


def _timings(profile: Profile) -> dict[int, _Timing]:
    """What a model spent on each node; one whose work another node's kernel did has no time of its own."""
    hosted = {
        int(label.partition(" ")[0]): _Timing(0.0, host=operator.index)
        for operator in profile.operators
        for label in operator.fused
    }
    own = {
        _key(operator, at): _Timing(
            operator.ms,
            operator.kernels,
            operator.partition is not None,
            _conversion_ms(operator),
            operator.headroom_ms,
        )
        for at, operator in enumerate(profile.operators)
    }
    return {**hosted, **own}


def _at(timings: Mapping[int, _Timing], node: int | None) -> _Timing | None:
    return None if node is None else timings.get(node)


def _conversion_ms(operator: OperatorTime) -> float:
    if operator.op in CONVERSIONS or len(operator.kernels) != len(operator.kernel_ms):
        return 0.0
    pairs = zip(operator.kernels, operator.kernel_ms, strict=True)
    return sum(ms for kernel, ms in pairs if kernel.startswith(_CONVERTING))


def _fate(pair: _Pair) -> tuple[CauseKind, str, str, str]:
    before, after, op = pair.before, pair.after, pair.match.op
    if pair.is_opaque:
        return CauseKind.OPAQUE, "operators", "", ""
    kernels = before.main_kernel if before else "", after.main_kernel if after else ""
    if pair.match.certainty is Certainty.NONE:
        gone = pair.match.after is None
        kind = CauseKind.CONVERSIONS if op in CONVERSIONS else CauseKind.REMOVED if gone else CauseKind.ADDED
        return kind, op, *kernels
    if before is not None and after is not None and before.delegated != after.delegated:
        kind = CauseKind.LEFT_DELEGATE if before.delegated else CauseKind.ENTERED_DELEGATE
        return kind, op, *kernels
    return CauseKind.KERNEL, op, *kernels


def _clear(causes: Iterable[Cause], sign: int) -> list[Cause]:
    """Causes whose interval shows a cost (sign 1) or a saving (-1), the largest first."""
    found = [cause for cause in causes if cause.change_ms.is_clear and sign * cause.change_ms.estimate > 0]
    return sorted(found, key=lambda cause: -abs(cause.change_ms.estimate))


def verdict_of(comparison: Comparison, causes: Sequence[Cause] | None, before_ms: float) -> Remark:
    """What happened and why. Only causes that the rounds agree on are named; without any (None), only the speed."""
    leaning = comparison.leaning
    facts: dict[str, Any] = {
        "ratio": comparison.ratio,
        "pairs": comparison.rounds if comparison.lacks_rounds else None,
        "main": None,
        "other": [],
    }
    if causes is not None:
        smallest = before_ms * SMALLEST_PART
        lost, won = _telling(_clear(causes, 1), smallest), _telling(_clear(causes, -1), smallest)
        main, other = (won, lost) if leaning is Verdict.FASTER or not lost else (lost, won)
        if leaning is Verdict.SLOWER:
            main, other = lost, won
        facts |= {"main": [to_data(cause) for cause in main], "other": [to_data(cause) for cause in other]}
    return Remark(f"explain.{leaning.value}", facts)


def hints_of(causes: Sequence[Cause], before_ms: float) -> tuple[Remark, ...]:
    """What to try against operators that clearly lost by leaving the delegate, when the model itself was changed."""
    left = [cause for cause in _clear(causes, 1) if cause.kind is CauseKind.LEFT_DELEGATE]
    lost = [cause.op for cause in left if cause.change_ms.estimate >= SMALLEST_PART * before_ms]
    return (remark("explain.keep-in-delegate", operators=list(dict.fromkeys(lost))),) if lost else ()


def instructions_of(machine: Machine) -> Instructions:
    """What the machine's CPU has for eight bits and half precision. Hints are no measurement."""
    flags = set(machine.instructions)
    arm = machine.architecture.lower().startswith(("arm", "aarch"))
    int8, half = (_ARM_INT8, _ARM_HALF) if arm else (_X86_INT8, _X86_HALF)
    known = [*int8, *half]
    without_int8 = not any(flag in flags for flag, _ in int8)
    return Instructions(
        cpu=machine.cpu or "unknown",
        has=tuple(name for flag, name in known if flag in flags),
        lacks=tuple(name for flag, name in known if flag not in flags) if flags else (),
        hint=remark("explain.no-int8-dot-product") if without_int8 and flags else Remark(""),
    )


def _telling(causes: list[Cause], smallest_ms: float) -> list[Cause]:
    """The largest ones, until they make up nearly all of it."""
    total = sum(cause.change_ms.estimate for cause in causes)
    named: list[Cause] = []
    for cause in causes:
        so_far = sum(one.change_ms.estimate for one in named)
        enough = abs(so_far) >= _ENOUGH * abs(total)
        if len(named) == _MOST_NAMED or enough or abs(cause.change_ms.estimate) < smallest_ms:
            break
        named.append(cause)
    return named
