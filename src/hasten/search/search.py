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
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import NOTHING, ORIGINAL, FloorState, Purpose, Trial
from hasten.core.version import VERSION
from hasten.search.contest import MOST_ROUNDS, Contest
from hasten.search.field import Field
from hasten.search.folder import environment_data
from hasten.search.guard import Guard
from hasten.search.mixing import Mixer
from hasten.search.plans import alike_in_speed, first_recipes, numbers_of, plans_to_try
from hasten.search.workshop import Order
from hasten.variants.recipes import recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan
    from hasten.measure.rounds import Candidate, Progress
    from hasten.search.field import Lane
    from hasten.search.folder import SearchFolder
    from hasten.search.settings import SearchSettings
    from hasten.search.workshop import Workshop
    from hasten.targets.client import RunnerClient

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
# Profiles of both models, a variant made by them, and rounds that show what it is worth.
_SLOW_NODES_SECONDS: Final = 20.0


@dataclass(slots=True)
class Search:
    """Everything between the first process and the confirmation of the winner."""

    workshop: Workshop
    budget_s: float
    until: float
    """When (of the monotonic clock) the search ends, so that the proof has its time."""
    progress: Progress
    begin: float = field(default_factory=time.monotonic)
    machine: Machine = field(init=False)
    contest: Contest = field(init=False)
    stage: str = "starting"

    @property
    def settings(self) -> SearchSettings:
        """What is asked for."""
        return self.workshop.settings

    @property
    def folder(self) -> SearchFolder:
        """Where everything is kept."""
        return self.workshop.folder

    @property
    def has_data(self) -> bool:
        """Whether there is data to judge by."""
        return not self.workshop.data.dataset.is_random

    def open(self) -> None:
        """Look at the machine, time the original once, and evaluate it: from here on there is an answer."""
        self.tell("the original")
        self.machine = self.workshop.target.machine()
        self.folder.keep("environment", "", environment_data(self.machine, VERSION))
        plan = self.workshop.candidate.plan
        lanes = Field(self.workshop.target, self.folder, self._entrant(ORIGINAL, plan), self.begin)
        guard = Guard(self.workshop, lanes, self.has_data)
        self.contest = Contest(lanes, guard, self.settings.limit, self.tell)
        if not lanes.base.trial.levels:
            lanes.run_round([], 0.15)
            failure = lanes.base.track.result()
            if isinstance(failure, Failure):
                raise RunnerFailed(failure)
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
        share = (time.monotonic() - self.begin) / self.budget_s
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
        until = min(self.until, self.begin + _PLAN_SHARE * self.budget_s)
        self.contest.settle(lanes, until, _PLAN_ROUNDS)

    def _probe(self, lane: Lane) -> None:
        """A look at an accelerator before it enters: one that takes seconds a run would hold up a whole round."""
        self.tell(f"trying the {lane.trial.plan.accelerator}")
        usual_ms = self.lanes.base.trial.median_ms
        try:
            with self.workshop.target.start(lane.trial.plan) as runner:
                load = runner.load(lane.candidate.path, lane.candidate.workload)
                if load.first_run_ms < _FAR_RUN * usual_ms:
                    return
                run_ms = _quickest_ms(runner, _FAR_RUN * usual_ms)
        except RunnerFailed as failed:
            self.lanes.fail(lane, failed.failure.message)
            return
        if run_ms > _FAR_RUN * usual_ms:
            why = remark("trial.slower", ratio=run_ms / usual_ms, than=self.lanes.base.trial.id)
            self.lanes.drop(lane, why, latency=Interval(run_ms, -math.inf, math.inf))

    def race_variants(self) -> None:
        """Variants on the plans that paid; where one that would win breaks the floor, its like; then other threads."""
        if self.workshop.already != NOTHING:
            return
        self.stage = "variants"
        plans = self._plans_for_variants()
        lanes = [self._enter(ORIGINAL, plan) for plan in plans]
        for name in first_recipes(self.settings.recipes):
            if time.monotonic() >= self.until:
                break
            lanes += self._made(Order(name), plans)
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
        if not wanted or not self.settings.mix or not self.has_data or left < _MIX_SECONDS:
            return
        plan = wanted[0].trial.plan
        mixer = self._mixer(plan, self.until - left / 4)
        found = self._mixes_of(mixer, self.workshop.variant(wanted[0].trial.variant))
        if found:
            self.contest.settle([self.best, *(self._enter_judged(mix, plan) for mix in found)], self.until)
        elif mixer.is_out_of_time:
            self.folder.note(remark("search.mix-out-of-time", variant=wanted[0].trial.variant))

    def mix_further(self, trial: Trial, until: float) -> list[Lane]:
        """A mix that keeps more nodes in float than one that has broken the floor on the other half of the data."""
        mix = self._mixer(trial.plan, until).further(self.workshop.variant(trial.variant)) if trial.is_step else None
        return [self._enter_judged(mix, trial.plan)] if mix is not None and mix.path else []

    def _mixer(self, plan: Plan, until: float) -> Mixer:
        def attempt(order: Order) -> Trial:
            known = self.workshop.known(order)
            if known is not None and known.plan != plan:  # judged elsewhere, if at all
                self.folder.variants[known.variant] = replace(known, floor=FloorState.NOT_JUDGED)
            return self.workshop.attempt(order, plan)

        return Mixer(self.workshop, plan, attempt, until)

    def _mixes_of(self, mixer: Mixer, variant: Trial) -> list[Trial]:
        """Mixes of a broken variant that keep the floor: without the nodes that integers slow down here if that is
        enough, else with as many more nodes in float as it takes."""
        lane = self.lanes.lane_of(variant.variant, mixer.plan)
        broken = [replace(variant, drop=None if lane is None else lane.trial.drop)]
        if recipe_from_name(variant.recipe).is_static_int8:
            nodes = self.workshop.slow_nodes(variant, mixer.plan)
            if nodes and not mixer.is_out_of_time:
                slow = mixer.attempt(Order(variant.recipe, nodes, Purpose.SLOW_NODES, variant.variant))
                if slow.floor is FloorState.KEPT:
                    return [slow]
                broken = [slow, *broken] if slow.floor is FloorState.BROKEN else broken
        for trial in broken:
            mix = mixer.search(trial)
            if mix is not None and mix.path:
                return [mix]
        return []

    @property
    def _recipes(self) -> tuple[str, ...]:
        return self.settings.recipes

    def _entrant(self, variant: str, plan: Plan) -> tuple[Trial, Candidate]:
        """A variant with a plan, of which nothing is known yet."""
        made = self.workshop.variant(variant)
        fresh = Trial(
            made.variant,
            plan,
            recipe=made.recipe,
            purpose=made.purpose,
            parent=made.parent,
            float_nodes=made.float_nodes,
            size_bytes=made.size_bytes,
            zipped_bytes=made.zipped_bytes,
        )
        return fresh, self.workshop.candidate_of(made, plan, fresh.id)

    def _enter(self, variant: str, plan: Plan) -> Lane:
        return self.lanes.enter(*self._entrant(variant, plan))

    def _enter_judged(self, variant: Trial, plan: Plan) -> Lane:
        """The lane of a variant that was judged on this plan when it was made."""
        lane = self._enter(variant.variant, plan)
        self.contest.guard.take(variant, lane)
        return lane

    def _made(self, order: Order, plans: Sequence[Plan]) -> list[Lane]:
        """The lanes of a variant; none where it cannot be made."""
        try:
            made = self.workshop.make(order)
        except UsageError as error:  # what makes variants is not installed: plans are worth a tuning, too
            self.folder.note(remark("search.no-variants", message=error.message, hint=error.hint))
            return []
        if made.floor is FloorState.FAILED or not made.path:
            return []
        return [self._enter(made.variant, plan) for plan in plans]

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
                    found += self._made(Order(name), [lane.trial.plan])
        return found

    def _without_slow_nodes(self) -> list[Lane]:
        """The fastest int8 variant on the CPU once more, with those nodes float that integers slow down here."""
        int8 = [name for name in self._recipes if recipe_from_name(name).is_static_int8]
        lanes = [lane for lane in self.lanes.lanes.values() if lane.trial.variant in int8 and lane.trial.levels]
        lanes = [lane for lane in lanes if lane.trial.plan.runs_on_cpu and lane.trial.floor is not FloorState.BROKEN]
        if not lanes:
            return []
        fastest = min(lanes, key=self.lanes.relative).trial
        order = Order(fastest.recipe, purpose=Purpose.SLOW_NODES, parent=fastest.variant)
        for known in self.folder.variants.values():
            if (known.parent, known.purpose) == (order.parent, order.purpose):
                return self._made(replace(order, float_nodes=known.float_nodes), [fastest.plan])
        if self.until - time.monotonic() < _SLOW_NODES_SECONDS:
            return []
        nodes = self.workshop.slow_nodes(self.workshop.variant(fastest.variant), fastest.plan)
        return self._made(replace(order, float_nodes=nodes), [fastest.plan]) if nodes else []

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
