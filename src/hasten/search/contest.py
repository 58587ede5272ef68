"""The race itself: quick rounds first, what is clearly slower drops out, and the time goes to close candidates.

Only a candidate that keeps the floor can push others out: the fastest ones are tested first, and each of them only
while it looks faster than the best that is known to be accurate.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.remark import remark
from hasten.core.trial import NOTHING, FloorState, Stage, Status
from hasten.search.field import MOST_AT_ONCE, chunks
from hasten.search.plans import simplicity
from hasten.search.racing import MARGIN, are_alike, best_of, log_ratios, surely_slower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.limits import Limit
    from hasten.search.field import Field, Lane
    from hasten.search.guard import Guard

_QUICK_SECONDS: Final = 0.15
_SECONDS: Final = 0.3
MOST_ROUNDS: Final = 8


@dataclass(slots=True)
class Contest:
    """Decides who stays in the race, and who leads it."""

    field: Field
    guard: Guard
    limit: Limit
    tell: Callable[[str], None]
    longest_s: float = 0.0
    """What a round took; 0 before the first."""
    judged: bool = False

    @property
    def leader(self) -> Lane | None:
        """The best that keeps the floor and the size asked for; None if nothing does yet."""
        return self._best([lane for lane in self._kept() if self.fits(lane)])

    @property
    def best(self) -> Lane:
        """What a user would get now: the leader; where no size fits, the smallest that keeps the floor."""
        leader = self.leader
        if leader is not None:
            return leader
        kept = self._kept()
        smallest = min((lane.trial.size_bytes for lane in kept), default=0)
        return self._best([lane for lane in kept if lane.trial.size_bytes == smallest]) or self.field.base

    def settle(self, lanes: Sequence[Lane], until: float, most_rounds: int = MOST_ROUNDS) -> None:
        """Rounds among these until the leader is sure, or until about that time (of the monotonic clock)."""
        fresh = [lane for lane in lanes if lane.is_racing and not lane.trial.levels and lane is not self.field.base]
        for group in chunks(fresh, key=lambda lane: (lane.trial.plan.describe(), lane.trial.variant)):
            # However short the time, there is something to choose from.
            if self.longest_s and not self._has_time(until):
                return
            self._round(group, _QUICK_SECONDS, "first times")
        while True:
            self.judge_promising(lanes, until)
            leader = self.leader
            close = self._close(lanes, leader, most_rounds)
            if not close or not self._has_time(until):
                return
            self._round([*([leader] if leader else []), *close[:MOST_AT_ONCE]], _SECONDS, f"{len(close)} close")

    def judge_promising(self, lanes: Sequence[Lane], until: float) -> None:
        """Test the fastest first, and only those that look faster than the leader."""
        while True:
            leader = self.leader
            mark = math.inf if leader is None else self.field.relative(leader) - MARGIN
            waiting = [lane for lane in lanes if lane.is_racing and not lane.trial.floor and self.fits(lane)]
            waiting = [lane for lane in waiting if lane.trial.levels and self.field.relative(lane) < mark]
            if not waiting or (self.judged and time.monotonic() >= until):
                return
            self.judged = True
            fastest = min(waiting, key=self.field.relative)
            self.tell(f"accuracy of {fastest.trial.id}")
            self.guard.judge(fastest)

    def promising_broken(self, by: float) -> list[Lane]:
        """Lanes that break the floor and would be faster than the best by so much (a share), the fastest first."""
        mark = self.field.relative(self.best) + math.log1p(-by)
        broken = [
            lane for lane in self.field.lanes.values() if lane.trial.floor is FloorState.BROKEN and lane.trial.levels
        ]
        found = [lane for lane in broken if self.field.relative(lane) < mark and self.fits(lane)]
        return sorted(found, key=self.field.relative)

    def _close(self, lanes: Sequence[Lane], leader: Lane | None, most_rounds: int) -> list[Lane]:
        """Those that more rounds could still make the choice, the fastest first; what is clearly slower drops out."""
        found = []
        for lane in lanes:
            if lane is leader or lane is self.field.base or not lane.is_racing or not lane.trial.levels:
                continue
            if leader is None:
                found += [lane] if len(lane.trial.levels) < 2 else []
                continue
            if surely_slower(lane.trial.levels, leader.trial.levels, self.field.base.trial.levels):
                ratio = math.exp(self.field.relative(lane) - self.field.relative(leader))
                self.field.drop(lane, remark("trial.slower", ratio=ratio, than=leader.trial.id))
                continue
            met = log_ratios(leader.trial.levels, lane.trial.levels)
            if len(met) < most_rounds and not are_alike(lane.trial.levels, leader.trial.levels):
                found.append(lane)
        return sorted(found, key=self.field.relative)

    def revive(self, until: float) -> None:
        """After the leader has failed: who had dropped out because of it is in the race again."""
        lanes = list(self.field.lanes.values())
        for lane in lanes:
            if lane.trial.status is Status.DROPPED and lane.trial.stage is not Stage.FINAL and lane.trial.levels:
                status = Status.KEPT if lane.trial.floor is FloorState.KEPT else Status.TIMED
                self.field.update(lane, status=status, why=NOTHING)
        self.settle(lanes, until)

    def _round(self, lanes: Sequence[Lane], seconds: float, what: str) -> None:
        begin = time.monotonic()
        self.tell(f"{what}: {', '.join(lane.trial.id for lane in lanes[:2])}{' …' if len(lanes) > 2 else ''}")
        self.field.run_round(lanes, seconds)
        for lane in lanes:
            self.guard.look_up(lane)
        self.longest_s = max(self.longest_s, time.monotonic() - begin)

    def _has_time(self, until: float) -> bool:
        return time.monotonic() + self.longest_s / 2 < until

    def _kept(self) -> list[Lane]:
        lanes = [
            lane for lane in self.field.lanes.values() if lane.trial.floor is FloorState.KEPT and lane.trial.levels
        ]
        base = self.field.base.trial.plan
        in_race = [lane for lane in lanes if lane.is_racing]
        return sorted(in_race, key=lambda lane: simplicity(lane.trial.variant, lane.trial.plan, base))

    def _best(self, lanes: Sequence[Lane]) -> Lane | None:
        if not lanes:
            return None
        return lanes[best_of([lane.trial.levels for lane in lanes], self.field.base.trial.levels)]

    def fits(self, lane: Lane) -> bool:
        """Whether it keeps the size asked for."""
        return self.limit.size_bytes is None or lane.trial.size_bytes <= self.limit.size_bytes
