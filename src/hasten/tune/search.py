"""The search: plans on the original first, then variants on the plans that paid, then what lies between them.

Nothing is assumed to be fast: the order only decides what is timed first. There is a best so far at any time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.quantization import BUT, SLOW
from hasten.core.quantization import FAILED as NOT_MADE
from hasten.core.statistics import Interval
from hasten.core.tuning import BROKEN, DROPPED, FAILED, ORIGINAL
from hasten.tune.contest import MOST_ROUNDS, Contest
from hasten.tune.field import Field
from hasten.tune.folder import environment_data
from hasten.tune.guard import Guard
from hasten.tune.plans import alike_in_speed, first_recipes, numbers_of, plans_to_try
from hasten.variants.recipes import recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan
    from hasten.measure.rounds import Progress
    from hasten.targets.client import RunnerClient
    from hasten.tune.field import Lane
    from hasten.tune.folder import TuneFolder
    from hasten.tune.settings import TuneSettings
    from hasten.tune.workshop import Workshop

# A plan that takes so many times as long with the original is not tried with variants.
_FAR_PLAN: Final = math.log(2.0)
_FAR_KERNELS: Final = math.log(1.5)
_NEAR_PLAN: Final = math.log(1.15)
_PLAN_ROUNDS: Final = 4
# Enough to see which variants are worth a closer look, before time goes to those that are alike.
_FIRST_ROUNDS: Final = 2
# The first run of an accelerator may be slow for good reasons, any single one by chance, but not five by so much.
_FAR_RUN: Final = 10.0
_PROBED_RUNS: Final = 5
_HOPELESS_MS: Final = 500.0
_PLAN_SHARE: Final = 0.3
_BEST_VARIANTS: Final = 2
# A recipe that breaks the floor is worth a mix if it would win so much; a mix takes its time.
_WORTH_A_MIX: Final = 0.05
_MIX_SECONDS: Final = 45.0
_MIX_TIMING: Final = 10.0
# Profiles of both models, a variant made by them, and rounds that show what it is worth.
_SLOW_NODES_SECONDS: Final = 20.0


class _OutOfTime(Exception):
    """The time for a mix is spent; what it has found is in its folder."""


@dataclass(slots=True)
class Search:
    """Everything between the first process and the confirmation of the winner."""

    workshop: Workshop
    settings: TuneSettings
    folder: TuneFolder
    version: str
    begin: float
    until: float
    """When (of the monotonic clock) the search ends, so that the proof has its time."""
    progress: Progress
    machine: Machine = field(init=False)
    contest: Contest = field(init=False)
    stage: str = "starting"

    def open(self) -> None:
        """Look at the machine, time the original once, and evaluate it: from here on there is an answer."""
        self.tell("the original")
        try:
            self.machine = self.workshop.target.machine()
        except RunnerFailed as failed:
            raise failed.failure.error(self.workshop.candidate.plan) from failed
        self.folder.keep("environment", "", environment_data(self.machine, self.version))
        base = self.workshop.candidate_of(ORIGINAL, self.workshop.candidate.plan)
        lanes = Field(self.workshop.target, self.folder, base, self.begin)
        lanes.base.trial = replace(lanes.base.trial, zipped_bytes=self.workshop.zipped_bytes_of(ORIGINAL))
        guard = Guard(self.workshop, lanes, self.settings.max_drop, self.settings.has_data)
        self.contest = Contest(lanes, guard, self.settings.limit, self.tell)
        if not lanes.base.trial.levels:
            lanes.run_round([], 0.15)
            failure = lanes.base.track.result()
            if isinstance(failure, Failure):
                raise failure.error(base.plan)
        guard.open()

    @property
    def lanes(self) -> Field:
        """The field of the race."""
        return self.contest.field

    @property
    def best(self) -> Lane:
        """The best so far."""
        return self.contest.best

    def tell(self, text: str) -> None:
        """What is under way, with the best so far."""
        share = (time.monotonic() - self.begin) / self.settings.budget_s
        best = f"; best so far: {self.best.trial.id}" if hasattr(self, "contest") else ""
        self.progress(min(share, 0.99), f"{self.stage}: {text}{best}")

    def race_plans(self) -> None:
        """Each way to run the original: threads, kernels, accelerators."""
        self.stage = "plans"
        plans = plans_to_try(self.machine, self.workshop.candidate.plan)
        lanes = [self._enter(ORIGINAL, plan) for plan in plans]
        for lane in lanes:
            if lane.trial.plan.accelerator != "cpu" and not lane.trial.levels and lane.is_racing:
                self._probe(lane)
        until = min(self.until, self.begin + _PLAN_SHARE * self.settings.budget_s)
        self.contest.settle(lanes, until, _PLAN_ROUNDS)

    def _probe(self, lane: Lane) -> None:
        """A look at an accelerator before it enters: one that takes seconds a run would hold up a whole round."""
        self.tell(f"a look at the {lane.trial.plan.accelerator}")
        usual_ms = self.lanes.base.trial.median_ms
        try:
            with self.workshop.target.start(lane.trial.plan) as runner:
                load = runner.load(lane.candidate.path, lane.candidate.workload)
                if load.first_run_ms < _FAR_RUN * usual_ms:
                    return
                run_ms = _quickest_ms(runner, _FAR_RUN * usual_ms)
        except RunnerFailed as failed:
            self.lanes.update(lane, status=FAILED, why=failed.failure.message)
            return
        if run_ms > _FAR_RUN * usual_ms:
            why = f"a run takes {run_ms / usual_ms:.3g} times as long as {self.lanes.base.trial.id}"
            self.lanes.update(lane, status=DROPPED, latency=Interval(run_ms, -math.inf, math.inf), why=why)

    def race_variants(self) -> None:
        """Variants on the plans that paid; where one that would win breaks the floor, its like; then other threads."""
        if self.workshop.already:
            return
        self.stage = "variants"
        plans = self._plans_for_variants()
        lanes = [self._enter(ORIGINAL, plan) for plan in plans]
        for name in first_recipes(self.settings.recipes):
            if time.monotonic() >= self.until:
                break
            lanes += self._made(name, plans)
        self.contest.settle(lanes, self.until, _FIRST_ROUNDS)
        lanes += self._without_slow_nodes()
        self.contest.settle(lanes, self.until)
        lanes += self.kin(self.until)
        self.contest.settle(lanes, self.until)
        lanes += self._crosses()
        self.contest.settle([lane for lane in self.lanes.lanes.values() if lane.is_racing], self.until, MOST_ROUNDS)

    def mix(self) -> None:
        """Mixed precision, where a broken recipe promises more than the best and there is time for it."""
        self.stage = "mixed precision"
        wanted = [lane for lane in self.contest.promising_broken(_WORTH_A_MIX) if lane.trial.variant in self._recipes]
        left = self.until - time.monotonic()
        if not wanted or not self.settings.mix or not self.settings.has_data or left < _MIX_SECONDS:
            return
        lane = wanted[0]
        until = self.until - left / 4

        def tell(share: float, text: str) -> None:
            if time.monotonic() > until:
                raise _OutOfTime
            self.tell(text.partition(";")[0])

        try:
            row = self.workshop.mix(lane.trial.variant, lane.trial.plan, _MIX_TIMING, tell)
        except _OutOfTime:
            self.workshop.note(f"no time was left for a mix of {lane.trial.variant} with float: --resume goes on")
            return
        if row is not None:
            self.contest.settle([self.best, self._enter(row.recipe, lane.trial.plan)], self.until)

    @property
    def _recipes(self) -> tuple[str, ...]:
        return self.settings.recipes

    def _enter(self, variant: str, plan: Plan) -> Lane:
        candidate = self.workshop.candidate_of(variant, plan)
        return self.lanes.enter(variant, candidate, self.workshop.zipped_bytes_of(variant))

    def _made(
        self, name: str, plans: Sequence[Plan], recipe: str = "", float_nodes: tuple[int, ...] = ()
    ) -> list[Lane]:
        """The lanes of a variant; none where it cannot be made."""
        self.tell(f"making {name}")
        try:
            row = self.workshop.make(name, recipe, float_nodes)
        except UsageError as error:  # what makes variants is not installed: plans are worth a tuning, too
            self.workshop.note(f"no variants: {error.message} {error.hint}".strip())
            return []
        if row.floor == NOT_MADE or not row.path:
            return []
        return [self._enter(name, plan) for plan in plans]

    def _plans_for_variants(self) -> list[Plan]:
        """The best thread count, and what else came near the best with the original."""
        timed = [lane for lane in self.lanes.lanes.values() if lane.trial.variant == ORIGINAL and lane.trial.levels]
        relative = {lane.trial.plan: self.lanes.relative(lane) for lane in timed if lane.trial.latency is not None}
        best, home = min(relative.values()), numbers_of(self.lanes.base.trial.plan)
        families: dict[str, Plan] = {}
        for plan in sorted(relative, key=lambda plan: relative[plan]):
            families.setdefault(numbers_of(plan), plan)
        return [
            plan
            for family, plan in families.items()
            if family == home or relative[plan] < best + (_FAR_PLAN if plan.kernel == "delegate" else _FAR_KERNELS)
        ]

    def kin(self, until: float) -> list[Lane]:
        """Recipes that run as fast as one that would win, had it kept the floor: their numbers differ."""
        found: list[Lane] = []
        for lane in self.contest.promising_broken(0.0):
            for name in alike_in_speed(lane.trial.variant) if lane.trial.variant in self._recipes else []:
                if name in self._recipes and time.monotonic() < until:
                    found += self._made(name, [lane.trial.plan])
        return found

    def _without_slow_nodes(self) -> list[Lane]:
        """The fastest int8 variant on the CPU once more, with those nodes float that integers slow down here."""
        int8 = [name for name in self._recipes if recipe_from_name(name).activations == "int8"]
        lanes = [lane for lane in self.lanes.lanes.values() if lane.trial.variant in int8 and lane.trial.levels]
        lanes = [lane for lane in lanes if lane.trial.plan.accelerator == "cpu" and lane.trial.floor != BROKEN]
        if not lanes:
            return []
        fastest = min(lanes, key=self.lanes.relative).trial
        prefix = f"{fastest.variant}{BUT}{SLOW}"
        known = next((name for name in self.folder.variants if name.startswith(prefix)), "")
        if known:
            return self._made(known, [fastest.plan], fastest.variant, self.folder.variants[known].float_nodes)
        if self.until - time.monotonic() < _SLOW_NODES_SECONDS:
            return []
        self.tell(f"which operators {fastest.variant} slows down")
        nodes = self.workshop.slow_nodes(fastest.variant, fastest.plan)
        return self._made(f"{prefix}{len(nodes)}", [fastest.plan], fastest.variant, nodes) if nodes else []

    def _crosses(self) -> list[Lane]:
        """The best variants with the plans that came close to the best one's with the original."""
        kept = [lane for lane in self.lanes.lanes.values() if lane.is_racing and lane.trial.variant != ORIGINAL]
        kept = sorted((lane for lane in kept if lane.trial.levels), key=self.lanes.relative)
        variants = list(dict.fromkeys(lane.trial.variant for lane in kept))[:_BEST_VARIANTS]
        originals = [lane for lane in self.lanes.lanes.values() if lane.trial.variant == ORIGINAL and lane.trial.levels]
        best = min(self.lanes.relative(lane) for lane in originals)
        near = [lane.trial.plan for lane in originals if self.lanes.relative(lane) < best + _NEAR_PLAN]
        return [self._enter(variant, plan) for variant in variants for plan in near]


def _quickest_ms(runner: RunnerClient, enough_ms: float) -> float:
    """The quickest of a few runs; fewer where one is quick enough, or so slow that chance cannot be the reason."""
    best = math.inf
    for _ in range(_PROBED_RUNS):
        run_ms = min(runner.block(0.0, 1).nanoseconds) / 1e6
        best = min(best, run_ms)
        if best <= enough_ms or run_ms > max(_HOPELESS_MS, 10 * enough_ms):
            break
    return best
