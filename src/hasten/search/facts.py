"""The result of a tuning, complete or as far as it is known, and what the best was on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import record
from hasten.core.comparison import Verdict
from hasten.core.costs import decisive
from hasten.core.doubts import gathered
from hasten.core.goal import MEASURED, Amount, Goal
from hasten.core.pareto import pareto_front
from hasten.core.trial import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.finding import Finding
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.trial import Step, Trial


# A best that is known a little better than before is no news.
_NEWS: Final = 0.01


@record
class BestSoFar:
    """What a user would have got at a time of the search."""

    trial: str
    """The id of the trial."""
    goal: Goal
    amount: Amount
    elapsed_s: float
    confirmed: bool = False
    """Whether fresh processes have confirmed it against the original."""

    def is_news(self, before: BestSoFar) -> bool:
        """Whether it is another one, or its figure has moved."""
        if (self.trial, self.confirmed) != (before.trial, before.confirmed):
            return True
        return abs(self.amount.value - before.amount.value) > _NEWS * before.amount.value


@dataclass(frozen=True, slots=True)
class TuneFound:
    """The best model and plan, against the original; the verdicts, and what was tried on the way."""

    model: str
    original: Trial
    best: Trial
    path: str
    """The chosen model's file."""
    findings: tuple[Finding, ...]
    front: tuple[Trial, ...]
    steps: tuple[Step, ...]
    final: Comparison | None
    """The cost of the best against the original's, in fresh processes."""
    trials: int
    seconds: float
    interrupted: bool = False
    unreachable: tuple[Remark, ...] = ()
    """Limits that nothing keeps, or nothing that there was time for, each with the nearest."""
    notes: tuple[Remark, ...] = ()
    folder: str = ""
    files: tuple[str, ...] = ()
    command: str = ""
    max_drop: float = 0.0
    floor: Mapping[str, Any] = field(default_factory=dict)
    """What the largest drop means for this metric, as `Floor.as_data` tells; empty where nothing was judged."""
    goal: Goal = Goal.LATENCY
    timed: Comparison | None = None
    """The latency of the best against the original's in the same processes, where the goal is another."""
    raced: Comparison | None = None
    """The cost of the best against the original's in the race, where the goal is not the latency."""
    untried: tuple[Remark, ...] = ()
    """What was left untried, and why."""
    kernels: tuple[str, ...] = ()
    """Libraries with kernels that the best needs."""

    @property
    def plan(self) -> Plan:
        """The plan that runs the best."""
        return replace(self.best.plan, kernels=(*self.best.plan.kernels, *self.kernels))

    @property
    def keeps_original(self) -> bool:
        """Whether nothing changes."""
        return self.best.id == self.original.id

    @property
    def is_confirmed(self) -> bool:
        """Whether fresh processes have shown that the best is better."""
        return self.final is not None and self.final.verdict is Verdict.FASTER

    @property
    def against(self) -> Comparison | None:
        """The cost of the best against the original's, by fresh processes or else by the race; None where the original
        stays."""
        raced = self.best.against if self.goal is Goal.LATENCY else self.raced
        return None if self.keeps_original else self.final or raced

    @property
    def decisive(self) -> Goal:
        """The goal that `against` compares by: two files that are equally large are compared by latency."""
        return decisive(self.goal, self.original.size_bytes, self.best.size_bytes)

    @property
    def against_latency(self) -> Comparison | None:
        """The same of the latency, whatever the goal."""
        if self.goal is Goal.LATENCY or self.keeps_original:
            return self.against
        return self.timed or self.best.against

    @property
    def speedup(self) -> tuple[float, float, float]:
        """How many times faster, with its interval; 1 where the original stays, or before anything was compared."""
        known = self.against_latency
        if known is None:
            return 1.0, 1.0, 1.0
        low, high = known.ci95
        return 1 / known.ratio, 1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf

    @property
    def doubts(self) -> tuple[Remark, ...]:
        """Reasons to doubt the latencies that the verdict compares, each once."""
        return gathered((*self.best.doubts, *self.original.doubts))


def front_of(trials: Sequence[Trial], goals: Sequence[Goal] = ()) -> tuple[Trial, ...]:
    """Those that nothing beats in latency, accuracy and size at once, and in these goals as well; the best in the first
    of them comes first. Only what may be chosen."""
    known = [
        trial
        for trial in trials
        if trial.may_be_chosen and trial.latency is not None and trial.status is not Status.FAILED
    ]
    measured = (goal for goal in goals if goal in MEASURED)
    respects = tuple(dict.fromkeys((*goals[:1], *measured, Goal.LATENCY, Goal.SIZE)))

    def costs(trial: Trial) -> tuple[float, ...]:
        # What was lost against the original stands for accuracy: it is paired, and has one sign.
        return (*(_cost(trial, goal) for goal in respects), trial.lost or 0.0)

    return tuple(pareto_front(known, costs))


def _cost(trial: Trial, goal: Goal) -> float:
    """The goal's figure as smaller is better; what is not known beats nothing."""
    amount = trial.amount(goal)
    if amount is None:
        return math.inf
    return -amount.value if goal.more_is_better else amount.value
