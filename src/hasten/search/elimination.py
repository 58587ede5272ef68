"""Elimination of candidates: quick rounds first, what is clearly slower drops out, close ones get the remaining time.

Only a candidate that keeps the floor can push others out: the fastest ones are tested first, and each of them only
while it looks faster than the best that is known to be accurate.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_ROUNDS, Verdict
from hasten.core.contention import BEYOND_LOAD
from hasten.core.remark import remark
from hasten.core.trial import NOTHING, Stage, Status, status_of
from hasten.search.candidates import MOST_AT_ONCE, SLOWER, chunks
from hasten.search.plans import simplicity
from hasten.search.round_ratios import MARGIN, are_alike, best_of, log_ratios, surely_slower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.limits import Limit
    from hasten.search.candidates import Candidates, Entrant
    from hasten.search.floor_guard import Guard

_QUICK_SECONDS: Final = 0.15
_SECONDS: Final = 0.3
MOST_ROUNDS: Final = 8


@dataclass(slots=True)
class Elimination:
    """Decides which entrants stay in the race, and which one leads it."""

    candidates: Candidates
    guard: Guard
    limit: Limit
    tell: Callable[[str], None]
    longest_s: float = 0.0
    """What a round took; 0 before the first."""
    judged: bool = False

    @property
    def leader(self) -> Entrant | None:
        """The best whose accuracy and size allow to choose it; None if nothing does yet."""
        return self._best([entrant for entrant in self._allowed() if self.fits(entrant)])

    @property
    def best(self) -> Entrant:
        """What a user would get now: the leader; where no size fits, the smallest whose accuracy does."""
        leader = self.leader
        if leader is not None:
            return leader
        allowed = self._allowed()
        smallest = min((entrant.trial.size_bytes for entrant in allowed), default=0)
        return (
            self._best([entrant for entrant in allowed if entrant.trial.size_bytes == smallest]) or self.candidates.base
        )

    def settle(self, entrants: Sequence[Entrant], until: float, most_rounds: int = MOST_ROUNDS) -> None:
        """Rounds among these until the leader is sure, or until about that time (of the monotonic clock)."""
        fresh = [entrant for entrant in entrants if entrant.is_racing and not self.candidates.is_timed(entrant)]
        for group in chunks(fresh, key=lambda entrant: (entrant.trial.plan.describe(), entrant.trial.variant)):
            # However short the time, there is something to choose from.
            if self.longest_s and not self._has_time(until):
                return
            self._round(group, _QUICK_SECONDS, "first times")
        while True:
            self.judge_promising(entrants, until)
            leader = self.leader
            close = self._close(entrants, leader, most_rounds)
            if not close or not self._has_time(until):
                return
            self._round([*([leader] if leader else []), *close[:MOST_AT_ONCE]], _SECONDS, f"{len(close)} close")

    def decide(self, entrants: Sequence[Entrant], until: float) -> None:
        """Rounds for those whose verdict against the base lacks nothing but rounds."""
        while self._has_time(until):
            compared = [(entrant, entrant.trial.against) for entrant in entrants if entrant.track.failure is None]
            lacking = [entrant for entrant, found in compared if found is not None and _lacks_rounds(found)]
            if not lacking:
                return
            self._round(lacking[:MOST_AT_ONCE], _QUICK_SECONDS, "deciding")

    def judge_promising(self, entrants: Sequence[Entrant], until: float) -> None:
        """Test the fastest first, and only those that look faster than the leader."""
        while True:
            leader = self.leader
            mark = math.inf if leader is None else self.candidates.relative(leader) - MARGIN
            waiting = [
                entrant for entrant in entrants if entrant.is_racing and not entrant.trial.floor and self.fits(entrant)
            ]
            waiting = [
                entrant
                for entrant in waiting
                if self.candidates.is_timed(entrant) and self.candidates.relative(entrant) < mark
            ]
            if not waiting or (self.judged and time.monotonic() >= until):
                return
            self.judged = True
            fastest = min(waiting, key=self.candidates.relative)
            self.tell(f"accuracy of {fastest.trial.id}")
            self.guard.judge(fastest)

    def promising_refused(self, by: float) -> list[Entrant]:
        """Entrants that are refused for their accuracy and would be faster than the best by the share `by`, the fastest
        first."""
        mark = self.candidates.relative(self.best) + math.log1p(-by)
        refused = [
            entrant
            for entrant in self.candidates.entrants.values()
            if entrant.trial.is_refused and self.candidates.is_timed(entrant)
        ]
        found = [entrant for entrant in refused if self.candidates.relative(entrant) < mark and self.fits(entrant)]
        return sorted(found, key=self.candidates.relative)

    def _close(self, entrants: Sequence[Entrant], leader: Entrant | None, most_rounds: int) -> list[Entrant]:
        """Those that more rounds could still make the choice, the fastest first; what is clearly slower drops out."""
        found = []
        for entrant in entrants:
            if (
                entrant is leader
                or entrant is self.candidates.base
                or not entrant.is_racing
                or not self.candidates.is_timed(entrant)
            ):
                continue
            if leader is None:
                found += [entrant] if len(entrant.trial.levels) < 2 else []
                continue
            if surely_slower(entrant.trial.levels, leader.trial.levels, self.candidates.base.trial.levels):
                ratio = math.exp(self.candidates.relative(entrant) - self.candidates.relative(leader))
                self.candidates.drop(entrant, remark(SLOWER, ratio=ratio, than=leader.trial.id))
                continue
            met = log_ratios(leader.trial.levels, entrant.trial.levels)
            if len(met) < most_rounds and not are_alike(entrant.trial.levels, leader.trial.levels):
                found.append(entrant)
        return sorted(found, key=self.candidates.relative)

    def revive(self, until: float) -> None:
        """After the leader has failed: who had dropped out because of it is in the race again."""
        entrants = list(self.candidates.entrants.values())
        for entrant in entrants:
            if (
                entrant.trial.status is Status.DROPPED
                and entrant.trial.stage is not Stage.FINAL
                and entrant.trial.levels
            ):
                self.candidates.update(entrant, status=status_of(entrant.trial.floor), why=NOTHING)
        self.settle(entrants, until)

    def _round(self, entrants: Sequence[Entrant], seconds: float, what: str) -> None:
        begin = time.monotonic()
        self.tell(
            f"{what}: {', '.join(entrant.trial.id for entrant in entrants[:2])}{' …' if len(entrants) > 2 else ''}"
        )
        self.candidates.run_round(entrants, seconds)
        for entrant in entrants:
            self.guard.look_up(entrant)
        self.longest_s = max(self.longest_s, time.monotonic() - begin)

    def _has_time(self, until: float) -> bool:
        return time.monotonic() + self.longest_s / 2 < until

    def _allowed(self) -> list[Entrant]:
        entrants = [
            entrant
            for entrant in self.candidates.entrants.values()
            if entrant.trial.may_be_chosen and self.candidates.is_timed(entrant)
        ]
        base = self.candidates.base.trial.plan
        in_race = [entrant for entrant in entrants if entrant.is_racing]
        return sorted(in_race, key=lambda entrant: simplicity(entrant.trial.variant, entrant.trial.plan, base))

    def _best(self, entrants: Sequence[Entrant]) -> Entrant | None:
        if not entrants:
            return None
        return entrants[best_of([entrant.trial.levels for entrant in entrants], self.candidates.base.trial.levels)]

    def fits(self, entrant: Entrant) -> bool:
        """Whether it keeps the size asked for."""
        return self.limit.size_bytes is None or entrant.trial.size_bytes <= self.limit.size_bytes


def _lacks_rounds(found: Comparison) -> bool:
    few = found.rounds < FEWEST_ROUNDS and found.ratio < BEYOND_LOAD
    return few and found.verdict is Verdict.UNDECIDED and not found.contention
