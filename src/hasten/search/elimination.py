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
from hasten.core.limits import keeps_limit, log_excess
from hasten.core.remark import remark
from hasten.core.trial import NOTHING, Stage, Status, status_of
from hasten.search.candidates import chunks, slower
from hasten.search.plans import simplicity
from hasten.search.round_ratios import MARGIN, all_log_ratios, are_alike, is_better, log_ratios, surely_slower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.goal import Goal
    from hasten.core.limits import Limit
    from hasten.core.remark import Remark
    from hasten.core.trial import Trial
    from hasten.search.candidates import Candidates, Entrant
    from hasten.search.floor_guard import Guard

_QUICK_SECONDS: Final = 0.15
_SECONDS: Final = 0.3
MOST_ROUNDS: Final = 8
# Rounds that were held up do not count; a machine that stays busy must not take all the time for one decision.
_HELD_UP_TOO: Final = 2
BEYOND_LIMIT: Final = "trial.beyond-limit"
# What a round can be held up by (a logarithm): half of a core, or cores that a host has moved apart.
_MAY_BE_HELD_UP: Final = math.log(2.0)


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
        """The best whose accuracy and other limits allow to choose it; None if nothing does yet."""
        return self._best([entrant for entrant in self._allowed() if self.fits(entrant)])

    @property
    def best(self) -> Entrant:
        """What a user would get now: the leader; where nothing keeps the limits, what misses them least."""
        leader = self.leader
        if leader is not None:
            return leader
        allowed = self._allowed()
        least = min((self._excess(entrant) for entrant in allowed), default=0.0)
        return self._best([one for one in allowed if self._excess(one) <= least]) or self.candidates.base

    def settle(self, entrants: Sequence[Entrant], until: float, most_rounds: int = MOST_ROUNDS) -> None:
        """Rounds among these until the leader is sure, or until about that time (of the monotonic clock)."""
        fresh = [entrant for entrant in entrants if entrant.is_racing and not self.candidates.is_timed(entrant)]
        most = self.candidates.most_at_once
        for group in chunks(fresh, lambda one: (one.trial.plan.describe(), one.trial.variant), most):
            # However short the time, there is something to choose from.
            if self.longest_s and not self._has_time(until):
                return
            self._round(group, _QUICK_SECONDS, "first times")
        while True:
            self.judge_promising(entrants, until)
            leader = self.leader
            close = self._close(entrants, leader, most_rounds)
            unsure = leader is not None and self._may_break_a_limit(leader, most_rounds)
            if not (close or unsure) or not self._has_time(until):
                return
            self._round([*([leader] if leader else []), *close[:most]], _SECONDS, f"{len(close)} close")
            if leader is not None and not (leader.is_racing and self.fits(leader)):
                # It has failed, or breaks a limit after all: whoever it pushed out, in whichever stage, is back.
                self._restore()
                entrants = list(self.candidates.entrants.values())

    def decide(self, entrants: Sequence[Entrant], until: float) -> None:
        """Rounds for those whose verdict against the base lacks nothing but rounds."""
        while self._has_time(until):
            compared = [(entrant, entrant.trial.against) for entrant in entrants if entrant.track.failure is None]
            lacking = [entrant for entrant, found in compared if found is not None and _lacks_rounds(found)]
            if not lacking:
                return
            self._round(lacking[: self.candidates.most_at_once], _QUICK_SECONDS, "deciding")

    def judge_promising(self, entrants: Sequence[Entrant], until: float) -> None:
        """Test the best first, and only those that look better than the leader."""
        while True:
            waiting = self.unjudged(entrants)
            if not waiting or (self.judged and time.monotonic() >= until):
                return
            self.judged = True
            self.tell(f"accuracy of {waiting[0].trial.id}")
            self.guard.judge(waiting[0])

    def unjudged(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Those that look better than the leader and whose accuracy is not known yet, the best first."""
        leader = self.leader
        waiting = [one for one in entrants if one.is_racing and not one.trial.floor and self.candidates.is_timed(one)]
        fitting = [one for one in waiting if self.fits(one)]
        if leader is None and not fitting:
            return self._nearer(waiting)
        better = [one for one in fitting if leader is None or self.candidates.gap(one, leader) < -MARGIN]
        return sorted(better, key=self.candidates.order)

    def _nearer(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Where nothing keeps the limits: those that miss them by less than the best that is known to be accurate."""
        mark = self._excess(self.best) - MARGIN
        return sorted((one for one in entrants if self._excess(one) < mark), key=self._excess)

    def look_again(self, until: float) -> None:
        """Another round for those that were refused after a single one and are near the best: nobody times them any
        more, and a round that the machine held up would decide whether their like are tried."""
        best = self.best
        near = [
            one
            for one in self.candidates.entrants.values()
            if one.trial.is_refused and len(one.trial.levels) == 1 and not one.trial.timed_as and self.fits(one)
        ]
        near = [one for one in near if -MARGIN <= self.candidates.gap(one, best) < _MAY_BE_HELD_UP]
        if near and self._has_time(until):
            nearest = sorted(near, key=self.candidates.order)[: self.candidates.most_at_once]
            self._round([best, *nearest], _QUICK_SECONDS, "looking again")

    def promising_refused(self, by: float) -> list[Entrant]:
        """Entrants that are refused for their accuracy and would be better than the best by the share `by`, the best
        first."""
        best, mark = self.best, math.log1p(-by)
        refused = [
            entrant
            for entrant in self.candidates.entrants.values()
            if entrant.trial.is_refused and self.candidates.is_timed(entrant)
        ]
        found = [one for one in refused if self.candidates.gap(one, best) < mark and self.fits(one)]
        return sorted(found, key=self.candidates.order)

    def undecided(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """Those that more rounds might make the choice: neither surely worse than the best nor alike."""
        best = self.best
        others = [one for one in entrants if one is not best and one.is_racing and self.candidates.is_timed(one)]
        found = [one for one in others if self.fits(one) and not self._is_worse(one, best)]
        return [one for one in found if not are_alike(*self.candidates.levels_for(one, best)[:2])]

    def best_of(self, entrants: Sequence[Entrant]) -> Entrant | None:
        """The best of these that may be chosen and break no limit, be it after others had pushed it out."""
        return self._best([one for one in self._allowed(self._contenders()) if one in entrants and self.fits(one)])

    @property
    def challenger(self) -> Entrant | None:
        """The best of those that may be chosen and look better than the best without having shown it."""
        best = self.best
        waiting = [one for one in self.undecided(list(self.candidates.entrants.values())) if one.trial.may_be_chosen]
        better = [one for one in waiting if self.candidates.gap(one, best) < -MARGIN]
        return min(better, key=self.candidates.order, default=None)

    def _close(self, entrants: Sequence[Entrant], leader: Entrant | None, most_rounds: int) -> list[Entrant]:
        """Those that more rounds could still make the choice, the best first; what is clearly worse drops out."""
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
            if not self.fits(entrant):
                continue
            if self._is_worse(entrant, leader):
                ratio = math.exp(self.candidates.gap(entrant, leader))
                by = self.candidates.decisive(entrant, leader)
                self.candidates.drop(entrant, slower(ratio, leader, by))
                continue
            mine, best, _ = self.candidates.levels_for(entrant, leader)
            met, quiet = len(all_log_ratios(best, mine)), len(log_ratios(best, mine))
            if quiet < most_rounds and met < _HELD_UP_TOO * most_rounds and not are_alike(mine, best):
                found.append(entrant)
        return sorted(found, key=self.candidates.order)

    def _is_worse(self, entrant: Entrant, leader: Entrant) -> bool:
        return surely_slower(*self.candidates.levels_for(entrant, leader))

    def _may_break_a_limit(self, leader: Entrant, most_rounds: int) -> bool:
        """Whether the leader's limits are undecided for lack of rounds."""
        return len(leader.trial.levels) < most_rounds and None in self.limits_kept(leader).values()

    def revive(self, until: float) -> None:
        """After the leader has failed: who had dropped out because of it is in the race again."""
        self._restore()
        self.settle(list(self.candidates.entrants.values()), until)

    def _restore(self) -> None:
        """Put those back into the race that had dropped out for being worse than another."""
        for entrant in self._contenders():
            if not entrant.is_racing:
                self.candidates.update(entrant, status=status_of(entrant.trial.floor), why=NOTHING)

    def _contenders(self) -> list[Entrant]:
        """Who is in the race, and who had only dropped out for being worse than another."""
        return [one for one in self.candidates.entrants.values() if one.is_racing or _was_pushed_out(one.trial)]

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

    def _allowed(self, entrants: Sequence[Entrant] | None = None) -> list[Entrant]:
        """Who may be chosen, the simplest first: of all in the race, or of these."""
        racing = [one for one in self.candidates.entrants.values() if one.is_racing] if entrants is None else entrants
        found = [one for one in racing if one.trial.may_be_chosen and self.candidates.is_timed(one)]
        base = self.candidates.base.trial.plan
        return sorted(found, key=lambda entrant: simplicity(entrant.trial.variant, entrant.trial.plan, base))

    def _best(self, entrants: Sequence[Entrant]) -> Entrant | None:
        """The one to prefer. They come from the simplest on: a less simple one has to be better."""
        best: Entrant | None = None
        for entrant in entrants:
            if best is None or is_better(*self.candidates.levels_for(entrant, best)):
                best = entrant
        return best

    def fits(self, entrant: Entrant) -> bool:
        """Whether it breaks no limit; one on the goal itself only says how good the best must be."""
        return all(kept is not False for goal, kept in self.limits_kept(entrant).items() if goal is not self._goal)

    def has_fitting(self, *, judging: bool) -> bool:
        """Whether somebody who could be the choice breaks no limit, be it after others had pushed it out; where there
        are data and time to judge by, whoever was not judged yet counts, too."""
        timed = [one for one in self._contenders() if self.candidates.is_timed(one) and self.fits(one)]
        return any(one.trial.may_be_chosen or (judging and not one.trial.floor) for one in timed)

    def limits_kept(self, entrant: Entrant) -> dict[Goal, bool | None]:
        """Whether it keeps each limit; None where that is undecided."""
        return {goal: keeps_limit(goal, asked, entrant.trial.amount(goal)) for goal, asked in self.limit.asked.items()}

    def explain_limits(self) -> None:
        """Save which limit keeps an entrant from being the choice, where nothing else does."""
        for entrant in self.candidates.entrants.values():
            why = self._beyond(entrant)
            known = entrant.trial.why
            if known != why and known.code in ("", BEYOND_LIMIT) and entrant.trial.latency is not None:
                self.candidates.update(entrant, why=why)

    def _beyond(self, entrant: Entrant) -> Remark:
        for goal, asked in self.limit.asked.items():
            amount = entrant.trial.amount(goal)
            if amount is not None and goal is not self._goal and keeps_limit(goal, asked, amount) is False:
                return remark(BEYOND_LIMIT, limit=goal.value, asked=asked, value=amount.value)
        return NOTHING

    @property
    def _goal(self) -> Goal:
        return self.candidates.goal

    def _excess(self, entrant: Entrant) -> float:
        """How far it is beyond the limits that it breaks, as a sum of logarithms."""
        broken = [goal for goal, kept in self.limits_kept(entrant).items() if kept is False and goal is not self._goal]
        amounts = [(goal, entrant.trial.amount(goal)) for goal in broken]
        return sum(log_excess(goal, self.limit.asked[goal], found) for goal, found in amounts if found is not None)


def _was_pushed_out(trial: Trial) -> bool:
    dropped = trial.status is Status.DROPPED and trial.stage is not Stage.FINAL
    return dropped and bool(trial.levels) and not trial.is_refused


def _lacks_rounds(found: Comparison) -> bool:
    few = found.rounds < FEWEST_ROUNDS and found.ratio < BEYOND_LOAD
    return few and found.verdict is Verdict.UNDECIDED and not found.is_withheld
