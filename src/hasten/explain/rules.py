"""Two profiles, node beside node, and what the difference comes from.

Times are those of all rounds together, so that they add up. Intervals go from the lowest to the highest difference of a
round: of six rounds, all lie on one side of the true median in 2 x 0.5**6 = 3 % of the cases only, however far a round
is off that was disturbed (Student's interval would give up at one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.statistics import Interval
from hasten.explain.facts import Cause, CauseKind, NodeRow, Side, Timing
from hasten.model.matching import Certainty, NodeMatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hasten.core.profile import OperatorTime, Profile

CONVERSIONS: Final = frozenset({"QUANTIZE", "DEQUANTIZE", "CAST"})
"""Operators that only change the type of numbers."""
BUILT_IN: Final = "built-in kernel"
_CONVERTING_KERNEL: Final = "Convert"
_UNTOLD: Final = "inside the delegate"


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
        self._matches = _complete(matches, whole)
        self._whole = _Round(*(_by_node(profile) for profile in whole))
        self._rounds = [_Round(_by_node(before), _by_node(after)) for before, after in rounds]

    def rows(self) -> list[NodeRow]:
        """A row for each pair, in the order of the changed model; nodes that are gone stand where they were."""
        before, after = (_Timings(profile) for profile in self._profiles)
        return [
            NodeRow(match, before.of(match.before), after.of(match.after), self._change([match], _whole_change))
            for match in self._matches
        ]

    def fates(self, rows: Sequence[NodeRow]) -> list[tuple[Cause, list[NodeRow]]]:
        """Nodes with the same fate together, and what it came to. Together they stand out from noise where one by one
        they do not."""
        groups: dict[tuple[CauseKind, str, str, str], list[NodeRow]] = {}
        for row in rows:
            if row.before is not None or row.after is not None:
                groups.setdefault(_fate(row), []).append(row)
        return [(self._cause(fate, members), members) for fate, members in groups.items()]

    def causes(self, rows: Sequence[NodeRow]) -> list[Cause]:
        """The causes of all nodes, most costly first."""
        found = [cause for cause, _ in self.fates(rows)]
        if (converting := self._conversions(rows)) is not None:
            found.append(converting)
        return sorted(found, key=lambda cause: -cause.change_ms.estimate)

    def outside(self) -> Interval:
        """What the difference of the runs has beyond that of their operators."""
        changes = [
            after.invoke_ms - before.invoke_ms - sum(_whole_change(one, match) for match in self._matches)
            for one, (before, after) in zip(
                [self._whole, *self._rounds], [self._profiles, *self._round_profiles], strict=True
            )
        ]
        return _interval(*changes)

    def side(self, position: int) -> Side:
        """What is to be said of one model as a whole."""
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

    def _change(self, matches: Sequence[NodeMatch], part: Callable[[_Round, NodeMatch], float]) -> Interval:
        return _interval(*(sum(part(one, match) for match in matches) for one in (self._whole, *self._rounds)))

    def _cause(self, fate: tuple[CauseKind, str, str, str], rows: Sequence[NodeRow]) -> Cause:
        kind, op, kernel_before, kernel_after = fate
        whole = kind in (CauseKind.ADDED, CauseKind.REMOVED)
        before = [row.before for row in rows if row.before is not None]
        after = [row.after for row in rows if row.after is not None]
        nodes = sum(1 for row in rows if not _stands_for_delegate(row))
        return Cause(
            kind,
            op,
            kernel_before,
            kernel_after,
            nodes,
            sum(timing.ms - (0.0 if whole else timing.conversion_ms) for timing in before),
            sum(timing.ms - (0.0 if whole else timing.conversion_ms) for timing in after),
            self._change([row.match for row in rows], _whole_change if whole else _working_change),
        )

    def _conversions(self, rows: Sequence[NodeRow]) -> Cause | None:
        """Types changed on the way into matched nodes, by kernels that they brought along."""
        inside = [row for row in rows if row.match.certainty is not Certainty.NONE and _converts(row)]
        if not inside:
            return None
        before = [row.before for row in inside if row.before is not None]
        after = [row.after for row in inside if row.after is not None]
        return Cause(
            CauseKind.CONVERSIONS,
            "inputs of layers",
            "",
            _CONVERTING_KERNEL,
            len(inside),
            sum(timing.conversion_ms for timing in before),
            sum(timing.conversion_ms for timing in after),
            self._change([row.match for row in inside], _converting_change),
        )


class _Timings:
    """What one model spent on each node."""

    def __init__(self, profile: Profile) -> None:
        self._operators = {_key(operator, at): operator for at, operator in enumerate(profile.operators)}
        self._hosts = {
            int(label.split(" ", 1)[0]): operator for operator in profile.operators for label in operator.fused
        }

    def of(self, node: int | None) -> Timing | None:
        if node is None:
            return None
        operator = self._operators.get(node)
        if operator is None:
            return self._hosted(node)
        kernel = " + ".join(operator.kernels) or BUILT_IN
        delegated = operator.partition is not None
        return Timing(operator.ms, kernel, delegated, _conversion_ms(operator), operator.headroom_ms)

    def _hosted(self, node: int) -> Timing | None:
        host = self._hosts.get(node)
        if host is None:
            return None
        inside = f"inside #{host.index}" if host.index >= 0 else _UNTOLD
        return Timing(0.0, inside, delegated=True)


def _whole_change(one: _Round, match: NodeMatch) -> float:
    return sum(one.change(match))


def _working_change(one: _Round, match: NodeMatch) -> float:
    return one.change(match)[0]


def _converting_change(one: _Round, match: NodeMatch) -> float:
    return one.change(match)[1]


def _interval(whole: float, *rounds: float) -> Interval:
    """The difference of all rounds together, and the range of the rounds'; one round alone says nothing of it."""
    if len(rounds) < 2:
        return Interval(whole, -math.inf, math.inf)
    return Interval(whole, min(whole, *rounds), max(whole, *rounds))


def _complete(matches: Sequence[NodeMatch], last: tuple[Profile, Profile]) -> list[NodeMatch]:
    """The matches, and a row for each whole partition that the engine does not look into (it has no node)."""
    before, after = (
        {_key(operator, at): operator.op for at, operator in enumerate(profile.operators) if operator.index < 0}
        for profile in last
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


def _conversion_ms(operator: OperatorTime) -> float:
    if operator.op in CONVERSIONS or len(operator.kernels) != len(operator.kernel_ms):
        return 0.0
    return sum(
        ms for tag, ms in zip(operator.kernels, operator.kernel_ms, strict=True) if tag.startswith(_CONVERTING_KERNEL)
    )


def _converts(row: NodeRow) -> bool:
    return any(timing is not None and timing.conversion_ms > 0 for timing in (row.before, row.after))


def _fate(row: NodeRow) -> tuple[CauseKind, str, str, str]:
    before, after, op = row.before, row.after, row.match.op
    if _is_opaque(row):
        return CauseKind.OPAQUE, "operators", "", ""
    kernels = _plain(before), _plain(after)
    if row.match.certainty is Certainty.NONE:
        gone = row.match.after is None
        kind = CauseKind.CONVERSIONS if op in CONVERSIONS else CauseKind.REMOVED if gone else CauseKind.ADDED
        return kind, op, *kernels
    if before is not None and after is not None and before.delegated != after.delegated:
        kind = CauseKind.LEFT_DELEGATE if before.delegated else CauseKind.ENTERED_DELEGATE
        return kind, op, *kernels
    return CauseKind.KERNEL, op, *kernels


def _is_opaque(row: NodeRow) -> bool:
    """Whether it stands for a whole delegate, or has no time of its own because it ran in one."""
    if _stands_for_delegate(row):
        return True
    untimed = row.before is None or row.after is None
    inside = any(timing is not None and timing.kernel == _UNTOLD for timing in (row.before, row.after))
    return inside or (untimed and row.match.certainty is not Certainty.NONE)


def _stands_for_delegate(row: NodeRow) -> bool:
    return any(node is not None and node < 0 for node in (row.match.before, row.match.after))


def _plain(timing: Timing | None) -> str:
    """The kernel that does the work: companions are counted apart, or belong to it; hosts of any number are alike."""
    if timing is None:
        return ""
    if timing.kernel.startswith("inside #"):
        return "inside another node's kernel"
    parts = timing.kernel.split(" + ")
    return next((part for part in parts if not part.startswith((_CONVERTING_KERNEL, "Static Reshape"))), parts[0])


def losses(causes: Iterable[Cause]) -> list[Cause]:
    """Causes that surely cost time, most costly first."""
    return sorted((c for c in causes if c.is_clear and c.change_ms.estimate > 0), key=lambda c: -c.change_ms.estimate)


def gains(causes: Iterable[Cause]) -> list[Cause]:
    """Causes that surely save time, most saving first."""
    return sorted((c for c in causes if c.is_clear and c.change_ms.estimate < 0), key=lambda c: c.change_ms.estimate)
