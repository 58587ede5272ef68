"""Plans for variants: one that lost or failed with the original may win with a variant."""

from __future__ import annotations

import contextlib
import math
from array import array
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hasten.core.block import Block
from hasten.core.errors import UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.limits import Limit
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Status, Trial
from hasten.measure.rounds import no_progress
from hasten.search import search as search_module
from hasten.search.candidates import NO_ANSWER
from hasten.search.elimination import Elimination
from hasten.search.plans import plans_to_try
from hasten.search.search import Search, _is_held_up
from hasten.search.settings import SearchSettings
from tests.unit.fake_target import MACHINE
from tests.unit.search.simulated_race import FAR, KEPT, SimulatedCandidates, TrueGuard, Truth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.goal import Goal
    from hasten.search.candidates import Entrant
    from hasten.search.floor_guard import Guard
    from hasten.search.variant_store import VariantStore

INT8 = "static_int8"
NPU = "npu, 4 threads"
TIMES = {
    ORIGINAL: {"cpu, 1 thread": 10.0, "cpu, 2 threads": 5.4, "cpu, 3 threads": 4.2, "cpu, 4 threads": 3.2},
    # A small graph in integers gains nothing by more than two threads.
    INT8: {"cpu, 1 thread": 3.0, "cpu, 2 threads": 1.8, "cpu, 3 threads": 2.2, "cpu, 4 threads": 2.4},
}


class OnPlans(SimulatedCandidates):
    """Times by variant and plan; what has none does not run."""

    def __init__(self, times: dict[str, dict[str, float]]) -> None:
        self.times = times
        super().__init__([Truth(name, 1.0) for name in times], 0.01, 0)

    def entrant_on(self, variant: str, plan: Plan) -> Entrant:
        self.truths[variant].plan = plan
        found = self.entrant(variant)
        if variant != ORIGINAL:
            self.update(found, recipe=variant, purpose=Purpose.RECIPE)
        return found

    def _level(self, entrant: Entrant, goal: Goal, mood: float) -> float:
        ms = self.times[entrant.trial.variant][entrant.trial.plan.describe()]
        return math.log(ms) + mood + float(self._source(goal).normal(0, self.noise))


@dataclass(slots=True)
class PlansOnly(Search):
    """Variants are there once they are named."""

    def enter(self, variant: str, plan: Plan) -> Entrant:
        candidates = cast("OnPlans", self.candidates)
        return candidates.entrant_of(variant, plan) or candidates.entrant_on(variant, plan)

    def _probe(self, entrant: Entrant) -> None:
        candidates = cast("OnPlans", self.candidates)
        if entrant.trial.plan.describe() not in candidates.times[entrant.trial.variant]:
            candidates.update(entrant, status=Status.FAILED)


def searched(times: dict[str, dict[str, float]]) -> PlansOnly:
    """After the plans have raced with the original, and the variant on the best of them."""
    candidates = OnPlans(times)
    candidates.update(candidates.base, **KEPT)
    target = SimpleNamespace(capabilities=SimpleNamespace(host_paths=True))
    store = SimpleNamespace(
        source_name="",
        settings=SearchSettings((INT8,)),
        candidate=SimpleNamespace(plan=Plan()),
        target=target,
        folder=SimpleNamespace(keep=lambda *_: None),
    )
    search = PlansOnly(cast("VariantStore", store), 60.0, math.inf, no_progress)
    search.machine = MACHINE
    guard = cast("Guard", TrueGuard(candidates))
    search.elimination = Elimination(candidates, guard, Limit(), lambda text: None)
    originals = [search.enter(ORIGINAL, plan) for plan in plans_to_try(MACHINE, Plan()) if plan.kernel == "delegate"]
    search._probe_accelerators(originals)
    search.elimination.settle(originals, FAR)
    search.elimination.settle([search.enter(INT8, plan) for plan in search.plans_for_variants()], FAR)
    return search


def times_with(**plans: dict[str, float]) -> dict[str, dict[str, float]]:
    builtin = {"cpu, 1 thread, builtin kernels": 30.0}
    return {name: {**TIMES[name], **builtin, **plans.get(name, {})} for name in TIMES}


def test_fewer_threads_are_tried_with_the_fastest_variant() -> None:
    search = searched(times_with())
    assert search.best.trial.id == f"{INT8}@cpu, 4 threads"
    search.elimination.settle(search._other_plans(), FAR)
    assert search.best.trial.id == f"{INT8}@cpu, 2 threads"


def test_an_accelerator_that_refuses_the_original_may_run_the_variant() -> None:
    search = searched(times_with(**{INT8: {NPU: 0.5}}))
    refused = search.candidates.entrants[f"{ORIGINAL}@{NPU}"].trial
    assert refused.status is Status.FAILED
    search.elimination.settle(search._other_plans(), FAR)
    assert search.best.trial.id == f"{INT8}@{NPU}"


def test_without_time_for_other_plans_that_is_told() -> None:
    search = searched(times_with())
    search.until = -math.inf
    assert search._other_plans() == []
    (told,) = search.skipped
    assert (told.code, told.facts) == ("untried.other-plans", {"variant": INT8})


def test_plans_near_the_best_of_the_fastest_variant_are_crossed_too() -> None:
    times = times_with()
    times["float16"] = {**times[INT8], "cpu, 2 threads": 1.6, "cpu, 4 threads": 1.79}
    search = searched(times)
    search.elimination.settle([search.enter("float16", Plan(threads=4)), *search._other_plans()], FAR)
    search.elimination.settle(search._crosses(), FAR)
    assert search.best.trial.id == "float16@cpu, 2 threads"


def test_where_start_up_is_limited_variants_get_a_cache_on_the_best_plan(tmp_path: Path) -> None:
    search = searched(times_with())
    assert all(not plan.cache for plan in search.plans_for_variants())
    cast("Any", search.store).settings = SearchSettings((INT8,), limit=Limit(start_ms=50.0))
    cast("Any", search.store).folder.path = tmp_path
    cached = [plan for plan in search.plans_for_variants() if plan.cache]
    assert [replace(plan, cache="") for plan in cached] == [Plan(threads=4)]


def test_an_accelerator_that_hung_with_the_original_is_not_asked_again() -> None:
    search = searched(times_with(**{INT8: {NPU: 0.5}}))
    candidates = cast("OnPlans", search.candidates)
    candidates.update(candidates.entrants[f"{ORIGINAL}@{NPU}"], why=remark(NO_ANSWER, seconds=10.0))
    assert all(one.trial.plan.accelerator != "npu" for one in search._other_plans())


@pytest.mark.parametrize(("kind", "status"), [("hang", Status.DROPPED), ("crash", Status.FAILED)])
@pytest.mark.parametrize(("budget_s", "patience_s"), [(60.0, 10.0), (600.0, 60.0)])
def test_an_accelerator_that_does_not_answer_takes_a_share_of_the_budget_at_most(
    budget_s: float, patience_s: float, kind: str, status: Status
) -> None:
    """One that only needs longer comes back where a search goes on."""
    waited: list[float] = []

    class Hanging(contextlib.nullcontext[Any]):
        def __init__(self) -> None:
            super().__init__(self)

        def hurry(self, seconds: float) -> None:
            waited.append(seconds)

        def load(self, *_: object) -> None:
            raise RunnerFailed(Failure("load", kind, "No answer.", ""))

    search = searched(times_with())
    search.budget_s = budget_s
    cast("Any", search.store).target.start = lambda plan: Hanging()
    gpu = search.enter(INT8, Plan(accelerator="gpu", threads=4))
    Search._probe(search, gpu)
    assert gpu.trial.status is status
    assert waited == [patience_s]
    untried = [told.facts["trial"] for told in search.skipped if told.code == "untried.no-answer"]
    assert untried == ([gpu.trial.id] if kind == "hang" else [])


def test_a_plan_that_other_programs_held_up_gets_variants_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads looked slow next to a busy program: what a variant takes with them is not known by that."""
    times = times_with(**{ORIGINAL: {"cpu, 3 threads": 15.0, "cpu, 4 threads": 12.0}})
    search = searched(times)
    assert [plan.threads for plan in search.plans_for_variants()] == [2]
    monkeypatch.setattr(search_module, "_is_held_up", lambda entrant: entrant.trial.plan.threads > 2)
    assert [plan.threads for plan in search.plans_for_variants()] == [2, 4]


@pytest.mark.parametrize(("two_threads_ms", "raced"), [(10.9, [1, 2]), (15.0, [1])])
def test_more_threads_that_are_hardly_slower_get_variants_too(two_threads_ms: float, raced: list[int]) -> None:
    """The cores of a virtual machine may be apart for as long as plans are timed."""
    slow = {"cpu, 2 threads": two_threads_ms, "cpu, 3 threads": 20.0, "cpu, 4 threads": 20.0}
    search = searched(times_with(**{ORIGINAL: slow}))
    assert [plan.threads for plan in search.plans_for_variants()] == raced


def test_a_plan_that_further_rounds_rehabilitate_gets_the_first_variants_too(monkeypatch: pytest.MonkeyPatch) -> None:
    raced: list[Sequence[str]] = []
    search = searched(times_with())
    search.store.already = NOTHING

    def record(_search: Search, names: Sequence[str]) -> list[Entrant]:
        raced.append(names)
        return []

    monkeypatch.setattr(Search, "_race_recipes", record)
    search.race_variants()
    search.race_more_variants()
    assert raced == [[INT8], []]
    monkeypatch.setattr(PlansOnly, "plans_for_variants", lambda _: [Plan(threads=3)], raising=False)
    search.race_more_variants()
    assert raced[-1] == [INT8]


@pytest.mark.parametrize(("slow_runs", "held_up"), [(0, False), (2, False), (4, True)])
def test_a_plan_is_held_up_where_many_of_its_runs_were_disturbed(slow_runs: int, held_up: bool) -> None:
    times = [1_000_000] * (12 - slow_runs) + [2_000_000] * slow_runs
    samples = Samples((Block(0, 0.0, array("q", times)),))
    measured = SimpleNamespace(samples=samples, plan=Plan(threads=2))
    entrant = SimpleNamespace(track=SimpleNamespace(result=lambda: measured))
    assert _is_held_up(cast("Any", entrant)) is held_up


def test_slow_nodes_are_looked_for_with_all_numbers_of_threads_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keyword spotting: by the profile with two threads alone, a tuning missed a set that takes 1.6 % less."""
    search, profiled, raced = searched(times_with()), list[int](), list[tuple[Any, Plan]]()
    store = cast("Any", search.store)
    store.make = lambda request: Trial(request.recipe, Plan(), path="int8.tflite")

    def slow_nodes(whole: Any, plan: Plan) -> tuple[tuple[int, ...], ...]:
        profiled.append(plan.threads)
        return ((0, plan.threads),)

    def made_without(_search: Search, sets: Any, request: Any, plan: Plan) -> list[Entrant]:
        assert request.parent == INT8
        raced.append((sets, plan))
        return []

    store.slow_nodes = slow_nodes
    monkeypatch.setattr(PlansOnly, "_made_without", made_without)
    search.race_further_sets()
    assert profiled == [1, 2, 3, 4]
    assert raced == [(((0, threads),), search.best.trial.plan) for threads in profiled]
    search.until = -math.inf
    search.race_further_sets()
    assert len(profiled) == 4


def test_a_search_that_goes_on_without_a_quantizer_keeps_its_answer() -> None:
    """The best is of an earlier run, which never made its recipe without float nodes."""
    search, noted = searched(times_with()), list[Any]()
    store, best = cast("Any", search.store), search.best
    store.folder.note = noted.append

    def make(request: Any) -> Trial:
        raise UsageError("ai-edge-quantizer is not installed.", "Install it.")

    store.make = make
    search.race_further_sets()
    assert search.best is best
    assert [note.code for note in noted] == ["search.no-variants"]
