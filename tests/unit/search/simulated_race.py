"""A race without processes, whose truth is known: costs by goal, accuracy and size of each candidate."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hasten.core.comparison import compare_rounds
from hasten.core.costs import amount_of
from hasten.core.floor import FloorState
from hasten.core.goal import MEASURED, Amount, Goal
from hasten.core.levels import latency_of
from hasten.core.limits import Limit
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Status, Trial
from hasten.measure.rounds import Candidate, Track
from hasten.search.candidates import Candidates, Entrant
from hasten.search.elimination import MOST_ROUNDS, Elimination
from hasten.search.round_ratios import all_log_ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.statistics import Interval
    from hasten.search.floor_guard import Guard

FAR = math.inf
NO_LIMIT = Limit()
KEPT = {"floor": FloorState.KEPT, "status": Status.KEPT}
BROKEN = {"floor": FloorState.BROKEN, "status": Status.BROKEN}


@dataclass
class Truth:
    """A candidate as it really is."""

    name: str
    ms: float
    drop: float = 0.0
    size: int = 100
    energy: float = 1.0
    """Millijoules of a run."""
    throughput: float = 1.0
    """Milliseconds between two results of all runners together."""
    start: float = 1.0
    """Milliseconds to the first result."""
    plan: Plan = Plan()

    def cost(self, goal: Goal) -> float:
        """What a search for this goal makes small."""
        costs = {
            Goal.LATENCY: self.ms,
            Goal.SIZE: float(self.size),
            Goal.ENERGY: self.energy,
            Goal.THROUGHPUT: self.throughput,
            Goal.START: self.start,
        }
        return costs[goal]


class SimulatedCandidates(Candidates):
    """Rounds that take no time: a level is the truth, a mood of the round that touches all, and noise of its own."""

    def __init__(self, truths: Sequence[Truth], noise: float, seed: int, goal: Goal = Goal.LATENCY) -> None:
        self.goal = goal
        self.truths = {truth.name: truth for truth in truths}
        self.entrants = {}
        self.source, self.others = np.random.default_rng(seed), np.random.default_rng(seed + 1_000_000)
        self.noise, self.number, self.processes = noise, 0, 0
        self.base = self.entrant(ORIGINAL)

    def entrant(self, name: str) -> Entrant:
        truth = self.truths[name]
        candidate = Candidate(name, Path(name), Model(name, truth.size, ""), truth.plan)
        entrant = Entrant(Trial(name, truth.plan, size_bytes=truth.size), candidate, Track(candidate))
        self.entrants[entrant.trial.id] = entrant
        return entrant

    @property
    def elapsed_s(self) -> float:
        return float(self.number)

    def update(self, entrant: Entrant, **changes: Any) -> None:
        entrant.trial = replace(entrant.trial, **changes)

    def run_round(self, entrants: Sequence[Entrant], seconds_each: float) -> None:
        self.number += 1
        moods = {goal: float(self._source(goal).normal(0, 0.1)) for goal in (Goal.LATENCY, *MEASURED)}
        for entrant in [self.base, *(entrant for entrant in entrants if entrant is not self.base)]:
            self.processes += 1
            drawn = {goal: self._level(entrant, goal, mood) for goal, mood in moods.items()}
            levels = {**entrant.trial.levels, self.number: drawn[Goal.LATENCY]}
            costs = {goal.value: {**entrant.trial.levels_of(goal), self.number: drawn[goal]} for goal in MEASURED}
            entrant.trial = replace(entrant.trial, levels=levels, costs=costs)
            self._place(entrant)
        for entrant in entrants:
            ratios = all_log_ratios(self.base.trial.levels, entrant.trial.levels)
            entrant.trial = replace(entrant.trial, against=compare_rounds(ratios))

    def _level(self, entrant: Entrant, goal: Goal, mood: float) -> float:
        truth = self.truths[entrant.trial.variant].cost(goal)
        return math.log(truth) + mood + float(self._source(goal).normal(0, self.noise))

    def _source(self, goal: Goal) -> np.random.Generator:
        return self.source if goal is Goal.LATENCY else self.others

    def _place(self, entrant: Entrant) -> None:
        """Figures next to the base's, as if every round had the usual mood."""
        amounts: dict[str, Amount] = {}
        latency: Interval | None = None
        for goal in (Goal.LATENCY, *MEASURED):
            base = self.base.trial.levels_of(goal)
            anchor = math.log(self.truths[ORIGINAL].cost(goal)) if base else 0.0
            levels = {
                number: level - base[number] + anchor
                for number, level in entrant.trial.levels_of(goal).items()
                if number in base
            }
            cost = latency_of(levels, levels, fmean(levels.values())) if levels else None
            if goal is Goal.LATENCY:
                latency = cost
            elif cost is not None:
                amounts[goal.value] = amount_of(goal, cost)
        entrant.trial = replace(entrant.trial, latency=latency, amounts=amounts)


@dataclass
class TrueGuard:
    """Knows what each candidate loses, and remembers who asked."""

    candidates: SimulatedCandidates
    max_drop: float = 0.01
    judged: list[str] = dataclasses.field(default_factory=list)

    def look_up(self, entrant: Entrant) -> bool:
        return bool(entrant.trial.floor)

    def judge(self, entrant: Entrant) -> None:
        self.judged.append(entrant.trial.variant)
        kept = self.candidates.truths[entrant.trial.variant].drop <= self.max_drop
        self.candidates.update(entrant, **(KEPT if kept else BROKEN))


def raced(
    truths: Sequence[Truth],
    noise: float = 0.01,
    seed: int = 0,
    limit: Limit = NO_LIMIT,
    goal: Goal = Goal.LATENCY,
    *,
    most_rounds: int = MOST_ROUNDS,
) -> tuple[Elimination, TrueGuard]:
    """A race to its end, or to so many rounds; the original is the first of the truths."""
    entrants = SimulatedCandidates(truths, noise, seed, goal)
    guard = TrueGuard(entrants)
    elimination = Elimination(entrants, cast("Guard", guard), limit, lambda text: None)
    entrants.update(entrants.base, **KEPT)
    entered = [entrants.entrant(truth.name) for truth in truths if truth.name != ORIGINAL]
    elimination.settle([entrants.base, *entered], FAR, most_rounds)
    return elimination, guard
