"""The search: plans on the original, variants of the kinds that win most often, then what lies between them.

Nothing is assumed to be fast: the order only decides what is timed first, so that a short search has a good answer.
There is a best entrant at any time.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.contention import is_contended
from hasten.core.errors import UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.remark import Remark, remark
from hasten.core.samples import MANY_DISTURBED
from hasten.core.statistics import Interval
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Trial
from hasten.core.version import VERSION
from hasten.explanation.node_gains import SECONDS as PROFILE_SECONDS
from hasten.rewrites.registry import REWRITES
from hasten.search.candidates import NO_ANSWER, Candidates, slower
from hasten.search.elimination import MOST_ROUNDS, Elimination
from hasten.search.facts import BestSoFar
from hasten.search.floor_guard import Guard
from hasten.search.folder import environment_data
from hasten.search.plans import alike_in_speed, cached_plans, first_recipes, numbers_of, plans_to_try
from hasten.search.round_ratios import MARGIN
from hasten.search.variant_store import VariantRequest
from hasten.targets.base import with_connection
from hasten.variants.recipes import recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan
    from hasten.measure.rounds import Candidate, Progress
    from hasten.search.candidates import Entrant
    from hasten.search.folder import SearchFolder
    from hasten.search.settings import SearchSettings
    from hasten.search.variant_store import VariantStore
    from hasten.targets.client import LoadReport, RunnerClient
    from hasten.variants.recipes import Kernels

# A plan slower than the best by this factor (a logarithm) with the original is not tried with variants.
_FAR_PLAN: Final = math.log(2.0)
_FAR_KERNELS: Final = math.log(1.5)
_NEAR_PLAN: Final = math.log(1.15)
# More threads that are slower than the best number by less than this may be slow for a while only: a host that had
# moved its virtual cores apart made two threads of small models take 1.0 to 1.1 times as long as one, and half later.
_MORE_THREADS: Final = math.log(1.3)
# Enough to see which variants are worth a closer look, before time goes to those that are alike.
FIRST_ROUNDS: Final = 2
# The first run of an accelerator may be slow for good reasons, a single one by chance, but not five by this factor.
_FAR_RUN: Final = 10.0
_PROBED_RUNS: Final = 5
_HOPELESS_MS: Final = 500.0
# How long an accelerator may take to compile a model, or to run it once, before the rest of the budget is at stake.
_SHORTEST_PROBE_S: Final = 10.0
_PROBE_SHARE: Final = 0.1
_PLAN_SHARE: Final = 0.3
_DECIDING_SHARE: Final = 0.1
# Kinds of recipes that are raced before anything else is tried: the others rarely win.
_FIRST_KINDS: Final = 3
BEST_VARIANTS: Final = 2
# Profiles of both models, a variant made by them, and rounds that show what it is worth. Where little time is left,
# profiles are short: fewer nodes are then sure to be slow, and what they cost is measured all the same.
_SLOW_NODES_SECONDS: Final = 5.0
_PROFILE_SHARE: Final = 0.15
_CACHE: Final = "cache"


@dataclass(slots=True)
class Search:
    """Everything between the first process and the confirmation of the winner."""

    store: VariantStore
    budget_s: float
    until: float
    """When (of the monotonic clock) the search ends, so that the proof has its time."""
    progress: Progress
    begin: float = field(default_factory=time.monotonic)
    machine: Machine = field(init=False)
    elimination: Elimination = field(init=False)
    stage: str = "starting"
    skipped: list[Remark] = field(default_factory=list)
    """What was not begun, and why."""
    on_best: Callable[[], None] = lambda: None
    """Called when another trial has become the best."""
    _told: BestSoFar | None = None
    _raced_on: list[Plan] = field(default_factory=list)
    """The plans that the first kinds of variants were raced on."""

    @property
    def settings(self) -> SearchSettings:
        """What is asked for."""
        return self.store.settings

    @property
    def folder(self) -> SearchFolder:
        """Where everything is kept."""
        return self.store.folder

    @property
    def has_data(self) -> bool:
        """Whether there is data to judge by."""
        return not self.store.data.dataset.is_random

    def open(self) -> None:
        """Look at the machine, time the original once, and evaluate it: from here on there is an answer."""
        self.tell("the original")
        self.machine = self.store.target.machine()
        self.folder.keep("environment", "", environment_data(self.machine, VERSION))
        plan = self.store.candidate.plan
        candidates = Candidates(
            self.store.target,
            self.folder,
            self._entrant(ORIGINAL, plan),
            self.begin,
            self.settings.goal,
            crews=self.settings.measures_throughput,
        )
        guard = Guard(self.store, candidates, self.has_data, self.budget_s)
        self.elimination = Elimination(candidates, guard, self.settings.limit, self.tell)
        self._enter_known()
        if not candidates.base.trial.levels:
            candidates.run_round([], 0.15)
        guard.open()

    def _enter_known(self) -> None:
        """What an earlier run has timed takes part from the beginning: no answer is worse than the one that it gave.

        A session may have been made by anybody: only plans that are tried anyway, and files that are as they were.
        """
        plans = set(self._plans())
        for trial in list(self.folder.trials.values()):
            made = self.folder.variants.get(trial.variant, self.store.original)
            if made.variant == trial.variant and trial.plan in plans and trial.levels and self._can_run(made):
                self.enter(trial.variant, trial.plan)

    def _can_run(self, made: Trial) -> bool:
        """Whether a variant's file is there, and the kernels that it needs."""
        known = {rewrite.name for rewrite in REWRITES} | set(self.store.kernels.kernels)
        return made.variant == ORIGINAL or (set(made.rewrites) <= known and self.folder.has_file_of(made))

    @property
    def candidates(self) -> Candidates:
        """The candidates of the race."""
        return self.elimination.candidates

    @property
    def best(self) -> Entrant:
        """The best entrant known now."""
        return self.elimination.best

    def tell(self, text: str) -> None:
        """What is under way, with the best entrant known now."""
        share = (time.monotonic() - self.begin) / self.budget_s
        so_far = ""
        if hasattr(self, "elimination"):
            best = self.best
            so_far = f"; best so far: {best.trial.id}"
            self.keep_best(best)
        self.progress(min(share, 0.99), f"{self.stage}: {text}{so_far}")

    def keep_best(self, entrant: Entrant, *, confirmed: bool = False) -> None:
        """Save what a user would get now, if that is news: the curve of a report shows what was known when."""
        amount = entrant.trial.amount(self.settings.goal)
        if amount is None:
            return
        best = BestSoFar(entrant.trial.id, self.settings.goal, amount, self.candidates.elapsed_s, confirmed)
        before = self._told
        if before is not None and not best.is_news(before):
            return
        self._told = best
        self.folder.keep("best", best.trial, to_data(best))
        if before is None or before.trial != best.trial:
            self.on_best()

    def race_plans(self) -> None:
        """Each way to run the original: threads, kernels, accelerators."""
        self.stage = "plans"
        base = self.store.candidate.plan
        plans = plans_to_try(self.machine, base)
        # Threads hardly change what a start takes: of the CPU's plans, those like the one in use are enough here.
        alike = [plan for plan in plans if plan.threads == base.threads or not plan.runs_on_cpu]
        entrants = [self.enter(ORIGINAL, plan) for plan in (*plans, *self._cached(alike))]
        self._probe_accelerators(entrants)
        until = min(self.until, self.begin + _PLAN_SHARE * self.budget_s)
        self.elimination.settle(entrants, until, FIRST_ROUNDS)

    def _plans(self) -> list[Plan]:
        """All that may be tried."""
        plans = plans_to_try(self.machine, self.store.candidate.plan)
        return [*plans, *self._cached(plans)]

    def _cached(self, plans: Sequence[Plan]) -> list[Plan]:
        """These plans with a cache for the next start, where start-up matters."""
        if not self.settings.measures_start or not self.store.target.capabilities.host_paths:
            return []
        return cached_plans(plans, str(self.folder.path.resolve() / _CACHE))

    def _probe_accelerators(self, entrants: Sequence[Entrant]) -> None:
        for entrant in entrants:
            if entrant.trial.plan.accelerator != "cpu" and not self.candidates.is_timed(entrant) and entrant.is_racing:
                self._probe(entrant)

    def decide_plans(self) -> None:
        """Rounds for what the guide asks of threads and accelerators, whoever wins in the end."""
        self.stage = "plans"
        originals = [one for one in self.candidates.entrants.values() if one.trial.variant == ORIGINAL]
        asked = [entrant for entrant in originals if entrant.trial.plan.kernel == "delegate"]
        self.elimination.decide(asked, min(self.until, time.monotonic() + _DECIDING_SHARE * self.budget_s))

    def _probe(self, entrant: Entrant) -> None:
        """A look at an accelerator before it enters: one that takes seconds a run would hold up a whole round."""
        self.tell(f"trying the {entrant.trial.plan.accelerator}")
        usual_ms = self.candidates.base.trial.median_ms

        def look() -> float:
            with self.store.target.start(entrant.candidate.plan) as runner:
                runner.hurry(self._patience_s)
                load = runner.load(entrant.candidate.path, entrant.candidate.workload)
                quick = load.first_run_ms < _FAR_RUN * usual_ms
                return load.first_run_ms if quick else _quickest_ms(runner, _FAR_RUN * usual_ms)

        try:
            run_ms = with_connection(look)
        except RunnerFailed as failed:
            self._give_up(entrant, failed.failure)
            return
        if run_ms > _FAR_RUN * usual_ms:
            ratio = run_ms / usual_ms
            seen = Comparison(Verdict.UNDECIDED, ratio, (0.0, math.inf), math.inf, 1)
            why = slower(ratio, self.candidates.base)
            self.candidates.drop(entrant, why, latency=Interval(run_ms, -math.inf, math.inf), against=seen)

    @property
    def _patience_s(self) -> float:
        return max(_SHORTEST_PROBE_S, _PROBE_SHARE * self.budget_s)

    def _give_up(self, entrant: Entrant, failure: Failure) -> None:
        """Take an entrant out that does not start; one that was only too slow for this budget may come back."""
        if failure.kind != "hang":
            self.candidates.fail(entrant, failure.message)
            return
        self.candidates.drop(entrant, remark(NO_ANSWER, seconds=self._patience_s))
        self.skipped.append(remark("untried.no-answer", trial=entrant.trial.id, seconds=self._patience_s))

    def race_variants(self) -> None:
        """Variants of the first kinds on the plans that paid; where one that would win breaks the floor, its like; then
        the fastest with slow nodes in float."""
        if self.store.already != NOTHING:
            return
        self.stage = "variants"
        self._raced_on = self.plans_for_variants()
        self._race_recipes(first_recipes(self.settings.recipes)[:_FIRST_KINDS])

    def race_more_variants(self) -> None:
        """Those of the other kinds, of a rewritten model where that is faster, and what lies between: other plans, slow
        nodes in float, other threads."""
        if self.store.already != NOTHING:
            return
        self.stage = "variants"
        names = first_recipes(self.settings.recipes)
        # Further rounds may have shown that another plan is the better one: the first kinds are raced on it as well.
        again = self.store.source_name or not set(self.plans_for_variants()) <= set(self._raced_on)
        entrants = self._race_recipes(names if again else names[_FIRST_KINDS:])
        entrants += self._other_plans()
        self.elimination.settle(entrants, self.until)
        entrants += self.kin(self.until)
        self.elimination.settle(entrants, self.until)
        self._probe_accelerators(self._crosses())
        self.elimination.settle(
            [entrant for entrant in self.candidates.entrants.values() if entrant.is_racing], self.until, MOST_ROUNDS
        )

    def _race_recipes(self, names: Sequence[str]) -> list[Entrant]:
        """What recipes make of the source, next to the original; with their like where the floor is in the way, and the
        fastest with slow nodes in float."""
        plans = self.plans_for_variants()
        entrants = [self.enter(ORIGINAL, plan) for plan in plans]
        for name in names:
            if time.monotonic() >= self.until:
                break
            entrants += self._made(VariantRequest(name), plans)
        # Whoever is refused may have its like at the price of an evaluation, and slow nodes one profile: both come
        # before further rounds for those that are close, each of which takes as long as all that compile for it.
        self.elimination.settle(entrants, self.until, 0)
        entrants += self.kin(self.until)
        entrants += self._other_threads()
        entrants += self._without_slow_nodes()
        self.elimination.settle(entrants, self.until, FIRST_ROUNDS)
        return entrants

    def race_further_sets(self) -> None:
        """The fastest int8 variant with those nodes in float that profiles with other numbers of threads call slow:
        each profile has noise of its own, and it takes a race to say which set of nodes is the best."""
        best, home = self.best.trial, numbers_of(self.candidates.base.trial.plan)
        if not (self.is_recipe(best) or self._is_without_slow_nodes(best)) or self.settings.goal is Goal.SIZE:
            return
        if not (best.recipe and recipe_from_name(best.recipe).is_int8 and numbers_of(best.plan) == home):
            return
        self.stage = "float nodes"
        whole = self._variant(VariantRequest(best.recipe))
        if whole is None:
            return
        request = VariantRequest(best.recipe, purpose=Purpose.SLOW_NODES, parent=whole.variant)
        for plan in plans_to_try(self.machine, self.store.candidate.plan):
            if numbers_of(plan) != home or self.until - time.monotonic() < _SLOW_NODES_SECONDS:
                continue
            made = self._made_without(self.store.slow_nodes(whole, plan), request, best.plan)
            self.elimination.settle([self.best, *made], self.until)

    def judge_last(self, until: float) -> None:
        """The accuracy of those that look better than the best and had no turn yet: an evaluation is short next to all
        the rounds that they have had."""
        self.stage = "accuracy"
        self.elimination.judge_promising(list(self.candidates.entrants.values()), until)

    def is_recipe(self, trial: Trial) -> bool:
        """Whether a recipe that was asked for made it of what variants are made of now, with nothing kept in float."""
        made = trial.purpose is Purpose.RECIPE and trial.recipe in self.settings.recipes
        return made and trial.source == self.store.source_name

    def _is_without_slow_nodes(self, trial: Trial) -> bool:
        """Whether it was made of what variants are made of now, with those nodes in float that integers slow down."""
        return trial.purpose is Purpose.SLOW_NODES and trial.source == self.store.source_name

    def _entrant(self, variant: str, plan: Plan) -> tuple[Trial, Candidate]:
        """A variant with a plan, of which nothing is known yet."""
        made = self.store.variant(variant)
        fresh = Trial(
            made.variant,
            plan,
            recipe=made.recipe,
            purpose=made.purpose,
            parent=made.parent,
            source=made.source,
            float_nodes=made.float_nodes,
            size_bytes=made.size_bytes,
            zipped_bytes=made.zipped_bytes,
        )
        return fresh, self.store.candidate_of(made, plan, fresh.id)

    def enter(self, variant: str, plan: Plan) -> Entrant:
        """The entrant of a variant with a plan, which takes part from here on."""
        known = self.candidates.entrant_of(variant, plan)
        if known is not None:
            return known
        entrant = self.candidates.enter(*self._entrant(variant, plan))
        if plan.cache and entrant.is_racing:
            self._fill_cache(entrant)
        return entrant

    def _fill_cache(self, entrant: Entrant) -> None:
        """One start that does not count: what it works out is there for those that do."""
        self.tell(f"filling the cache of {entrant.trial.id}")

        def start() -> None:
            with self.store.target.start(entrant.candidate.plan) as runner:
                runner.hurry(self._patience_s)
                runner.load(entrant.candidate.path, entrant.candidate.workload)

        try:
            with_connection(start)
        except RunnerFailed as failed:
            self._give_up(entrant, failed.failure)

    def enter_judged(self, variant: Trial, plan: Plan) -> Entrant:
        """The entrant of a variant that was judged on this plan when it was made."""
        entrant = self.enter(variant.variant, plan)
        self.elimination.guard.take(variant, entrant)
        return entrant

    def _made(self, request: VariantRequest, plans: Sequence[Plan]) -> list[Entrant]:
        """The entrants of a variant; none where it cannot be made."""
        made = self._variant(request)
        return [] if made is None else [self.enter(made.variant, plan) for plan in plans]

    def _variant(self, request: VariantRequest) -> Trial | None:
        """A variant with its file; None where it cannot be made."""
        try:
            made = self.store.make(request)
        except UsageError as error:  # what makes variants is not installed: plans are worth a tuning, too
            self.folder.note(remark("search.no-variants", message=error.message, hint=error.hint))
            return None
        return None if made.floor is FloorState.FAILED or not made.path else made

    def plans_for_variants(self) -> list[Plan]:
        """The best thread count, and what else came near the best with the original."""
        timed = [
            entrant
            for entrant in self.candidates.entrants.values()
            if entrant.trial.variant == ORIGINAL and self.candidates.is_timed(entrant)
        ]
        relative = {
            entrant.trial.plan: self.candidates.on_plan(entrant)
            for entrant in timed
            if entrant.trial.latency is not None
        }
        best, home = min(relative.values()), numbers_of(self.candidates.base.trial.plan)
        families: dict[str, Plan] = {}
        for plan in sorted(relative, key=lambda plan: relative[plan]):
            families.setdefault(numbers_of(plan), plan)
        found = [
            plan
            for family, plan in families.items()
            if family == home or relative[plan] < best + (_FAR_PLAN if plan.kernel == "delegate" else _FAR_KERNELS)
        ]
        # What other programs took from a plan says nothing about it: the quickest of those may be the best.
        alike = [one for one in timed if numbers_of(one.trial.plan) == home]
        held_up = [one.trial.plan for one in alike if _is_held_up(one)]
        most, near = families[home].threads, relative[families[home]] + _MORE_THREADS
        more = [one.trial.plan for one in alike if one.trial.plan.threads > most]
        held_up += [plan for plan in more if relative.get(plan, math.inf) < near]
        found += sorted(set(held_up) - set(found), key=lambda plan: relative.get(plan, math.inf))[:1]
        return [*found, *self._cached(found)]

    def kin(self, until: float) -> list[Entrant]:
        """Recipes that run as fast as one that would win, had it kept the floor: their numbers differ. So do those of
        recipes with the same nodes in float.

        They have the times of that one, so each costs its making and an evaluation; the first that may be chosen ends
        it. A recipe that keeps the floor on another plan is not at fault, and its like would not be better here.
        """
        found: list[Entrant] = []
        self.elimination.look_again(until)
        refused = self.elimination.promising_refused(MARGIN)
        recipes = [entrant for entrant in refused if self.is_recipe(entrant.trial)]
        for entrant in (*recipes, *[one for one in refused if self._is_without_slow_nodes(one.trial)][:BEST_VARIANTS]):
            if self._keeps_floor_elsewhere(entrant.trial):
                continue
            for name in alike_in_speed(entrant.trial.recipe):
                if name not in self.settings.recipes or time.monotonic() >= until:
                    continue
                if self.candidates.gap(entrant, self.best) > -MARGIN:
                    break
                for made in self._made(_like(entrant.trial, name), [entrant.trial.plan]):
                    found.append(made)
                    if self._runs_alike(made, entrant):
                        self.candidates.time_like(made, entrant)
                        self.elimination.judge_promising([made], until)
        return found

    def _runs_alike(self, made: Entrant, timed: Entrant) -> bool:
        """Whether the engine gives as many operators of both to its delegate, which may refuse the numbers of one."""
        if not made.trial.plan.runs_on_cpu:
            return True
        try:
            placed = [self.load_of(one).placement for one in (made, timed)]
        except RunnerFailed as failed:
            self._give_up(made, failed.failure)
            return False
        return None in placed or len({(len(one.left), len(one.partitions)) for one in placed if one}) == 1

    def load_of(self, entrant: Entrant) -> LoadReport:
        """What the engine said when it loaded the entrant's model; asked where no round of this run has."""
        if entrant.track.loads:
            return entrant.track.loads[-1]

        def load() -> LoadReport:
            with self.store.target.start(entrant.candidate.plan) as runner:
                return runner.load(entrant.candidate.path, entrant.candidate.workload)

        return with_connection(load)

    def _keeps_floor_elsewhere(self, trial: Trial) -> bool:
        others = [entrant.trial for entrant in self.candidates.entrants.values()]
        return any(other.variant == trial.variant and other.may_be_chosen for other in others)

    def _other_threads(self) -> list[Entrant]:
        """The fastest variant with other numbers of threads: those that lost with the original, in the few rounds that
        it had, may win with this one."""
        home = numbers_of(self.candidates.base.trial.plan)
        recipes = [one for one in self.candidates.entrants.values() if self.is_recipe(one.trial)]
        here = [one for one in recipes if numbers_of(one.trial.plan) == home and not one.trial.is_refused]
        timed = [one for one in here if self.candidates.is_timed(one)]
        if not timed or time.monotonic() >= self.until:
            return []
        fastest = min(timed, key=self.candidates.order).trial.variant
        plans = [plan for plan in plans_to_try(self.machine, self.store.candidate.plan) if numbers_of(plan) == home]
        entrants = [self.enter(fastest, plan) for plan in plans]
        self.elimination.settle(entrants, self.until, 1)
        return entrants

    def _other_plans(self) -> list[Entrant]:
        """The fastest variant on every plan that it was not on: one that was far off with the original, or refused it,
        may run this one on other kernels, and fewer threads may be enough for it."""
        timed = [entrant for entrant in self.candidates.entrants.values() if self.candidates.is_timed(entrant)]
        recipes = [entrant for entrant in timed if self.is_recipe(entrant.trial)]
        if not recipes:
            return []
        fastest = min(recipes, key=self.candidates.order).trial.variant
        plans = plans_to_try(self.machine, self.store.candidate.plan)
        if time.monotonic() >= self.until:
            if any(self.candidates.entrant_of(fastest, plan) is None for plan in plans):
                self.skipped.append(remark("untried.other-plans", variant=fastest))
            return []
        entrants = [self.enter(fastest, plan) for plan in plans if self._answers(plan)]
        self._probe_accelerators(entrants)
        return entrants

    def _answers(self, plan: Plan) -> bool:
        """Whether the original came to an end with this plan, be it a bad one: what hangs once is asked no more."""
        entrant = self.candidates.entrant_of(ORIGINAL, plan)
        return entrant is None or entrant.trial.why.code != NO_ANSWER

    def _without_slow_nodes(self) -> list[Entrant]:
        """The fastest variants that compute in integers on the CPU once more, static and dynamic, with those nodes
        float that integers slow down here. They are larger: who asks for size does not want them."""
        if self.settings.goal is Goal.SIZE:
            return []
        # Of what would win, had it kept the floor, more may be right with these nodes in float.
        refused = self.elimination.promising_refused(MARGIN)
        entrants = [
            entrant
            for entrant in self.candidates.entrants.values()
            if self.is_recipe(entrant.trial)
            and self.candidates.is_timed(entrant)
            and (entrant in refused or not entrant.trial.is_refused)
        ]
        fastest: dict[Kernels, Trial] = {}
        for entrant in sorted(entrants, key=lambda one: (one in refused, self.candidates.order(one))):
            recipe = recipe_from_name(entrant.trial.recipe)
            if entrant.trial.plan.runs_on_cpu and recipe.is_int8:
                fastest.setdefault(recipe.kernels, entrant.trial)
        found: list[Entrant] = []
        for trial in sorted(fastest.values(), key=lambda trial: (trial.is_refused, not _is_static(trial))):
            # Dynamic ranges cost time in each run: no match for static ones that lead.
            if _is_static(trial) or not _is_static(self.best.trial):
                made = self._without_slow_nodes_of(trial)
                self.elimination.settle(made, self.until, 1)
                found += made
        return found

    def _without_slow_nodes_of(self, trial: Trial) -> list[Entrant]:
        request = VariantRequest(trial.recipe, purpose=Purpose.SLOW_NODES, parent=trial.variant)
        known = [one for one in self.folder.variants.values() if one.purpose is request.purpose]
        if sets := [one.float_nodes for one in known if one.parent == request.parent]:
            return self._made_without(sets, request, trial.plan)
        left = self.until - time.monotonic()
        if left < _SLOW_NODES_SECONDS:
            self.skipped.append(remark("untried.slow-nodes", variant=trial.variant))
            return []
        seconds = min(PROFILE_SECONDS, _PROFILE_SHARE * left)
        found = self.store.slow_nodes(self.store.variant(trial.variant), trial.plan, seconds)
        return self._made_without(found, request, trial.plan)

    def _made_without(self, sets: Sequence[tuple[int, ...]], request: VariantRequest, plan: Plan) -> list[Entrant]:
        """Variants with these sets of nodes in float, on the plan, and on a like one that was held up."""
        like = [one for one in self._raced_on if one.runs_on_cpu and one.kernel == plan.kernel and not one.cache]
        plans = list(dict.fromkeys([plan, *like]))
        made = [self._made(replace(request, float_nodes=nodes), plans) for nodes in sets]
        return [entrant for entrants in made for entrant in entrants]

    def _crosses(self) -> list[Entrant]:
        """The best variants with the plans that came close to the best one's, with the original or with one of them."""
        timed = [one for one in self.candidates.entrants.values() if self.candidates.is_timed(one)]
        kept = [one for one in timed if one.is_racing and not one.trial.computes_as_original]
        kept = sorted(kept, key=self.candidates.order)
        variants = list(dict.fromkeys(entrant.trial.variant for entrant in kept))[:BEST_VARIANTS]
        near: dict[Plan, None] = {}
        for name in (ORIGINAL, *variants):
            on_plans = {one.trial.plan: self.candidates.on_plan(one) for one in timed if one.trial.variant == name}
            best = min(on_plans.values())
            near |= {plan: None for plan, relative in on_plans.items() if relative < best + _NEAR_PLAN}
        return [self.enter(variant, plan) for variant in variants for plan in near]


def _is_held_up(entrant: Entrant) -> bool:
    """Whether other programs used cores that the plan needed while it was timed, or many of its runs were disturbed."""
    found = entrant.track.result()
    return not isinstance(found, Failure) and (is_contended(found) or found.samples.disturbed_share >= MANY_DISTURBED)


def _like(trial: Trial, recipe: str) -> VariantRequest:
    """What another recipe makes with the same nodes in float."""
    return VariantRequest(recipe, trial.float_nodes, trial.purpose, recipe if trial.float_nodes else "")


def _is_static(trial: Trial) -> bool:
    return bool(trial.recipe) and recipe_from_name(trial.recipe).is_static_int8


def _quickest_ms(runner: RunnerClient, enough_ms: float) -> float:
    """The quickest of a few runs; fewer where one is quick enough, or so slow that chance cannot be the reason."""
    best = math.inf
    for _ in range(_PROBED_RUNS):
        run_ms = min(runner.block(0.0, 1).nanoseconds) / 1e6
        best = min(best, run_ms)
        if best <= enough_ms or run_ms > max(_HOPELESS_MS, 10 * enough_ms):
            break
    return best
