"""Recipes that run on the same kernels: one timing for all, an evaluation each, and no more than it takes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from hasten.core.limits import Limit
from hasten.core.placement import Placement
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Purpose
from hasten.measure.rounds import no_progress
from hasten.search.elimination import Elimination
from hasten.search.search import Search
from hasten.search.settings import SearchSettings
from tests.unit.search.simulated_race import BROKEN, FAR, KEPT, SimulatedCandidates, TrueGuard, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.trial import Trial
    from hasten.search.candidates import Entrant
    from hasten.search.floor_guard import Guard
    from hasten.search.variant_store import VariantRequest, VariantStore
    from hasten.targets.client import LoadReport

FLOAT: Final = " with float nodes"
NODES: Final = (3, 5)
TRUTHS = (
    Truth(ORIGINAL, 1.0),
    Truth("static_int8", 0.4, drop=0.2),
    Truth("static_int8_min_max", 0.4),
    Truth("static_int8_corrected", 0.4, drop=0.1),
    Truth("static_int8_octav", 0.4),
    Truth("dynamic_int8", 0.9),
)


class Racing(SimulatedCandidates):
    """Entrants are recipes, and their figures are those of the simulation."""

    def entrant(self, name: str) -> Entrant:
        found = super().entrant(name)
        recipe, with_float, _ = name.partition(FLOAT)
        if with_float:
            self.update(found, recipe=recipe, purpose=Purpose.SLOW_NODES, float_nodes=NODES)
        elif name != ORIGINAL:
            self.update(found, recipe=name, purpose=Purpose.RECIPE)
        return found

    def _figures(self, trial: Trial) -> dict[str, Any]:
        self._place(self.entrants[trial.id])
        return {"latency": self.entrants[trial.id].trial.latency}


@dataclass(slots=True)
class MadeUpSearch(Search):
    """Variants are made by naming them."""

    partly_delegated: tuple[str, ...] = ()
    """Those of which the delegate refuses nodes."""
    entered: list[tuple[str, Plan]] = field(default_factory=list)

    def enter(self, variant: str, plan: Plan) -> Entrant:
        self.entered.append((variant, plan))
        return cast("Racing", self.candidates).entrant(variant)

    def _made(self, request: VariantRequest, plans: Sequence[Plan]) -> list[Entrant]:
        name = f"{request.recipe}{FLOAT}" if request.float_nodes == NODES else request.recipe
        return [cast("Racing", self.candidates).entrant(name) for _ in plans]

    def load_of(self, entrant: Entrant) -> LoadReport:
        left = ((0, 3), (0, 4)) if entrant.trial.variant in self.partly_delegated else ()
        return cast("LoadReport", SimpleNamespace(placement=Placement((), left)))


def searched(first: Sequence[str], truths: Sequence[Truth] = TRUTHS) -> tuple[MadeUpSearch, TrueGuard]:
    """A search after the first recipes have raced."""
    candidates = Racing(truths, 0.01, 0)
    candidates.update(candidates.base, **KEPT)
    guard = TrueGuard(candidates)
    recipes = tuple(truth.name for truth in truths[1:] if FLOAT not in truth.name)
    store = SimpleNamespace(source_name="", settings=SearchSettings(recipes), folder=None)
    search = MadeUpSearch(cast("VariantStore", store), 60.0, math.inf, no_progress)
    search.elimination = Elimination(candidates, cast("Guard", guard), Limit(), lambda text: None)
    search.elimination.settle([candidates.base, *(candidates.entrant(name) for name in first)], FAR)
    return search, guard


def test_the_like_of_a_fast_one_that_broke_the_floor_are_judged_by_its_times() -> None:
    search, guard = searched(["static_int8", "dynamic_int8"])
    assert search.best.trial.variant == "dynamic_int8"
    rounds = cast("Racing", search.candidates).number
    found = search.kin(FAR)
    assert cast("Racing", search.candidates).number == rounds, "nothing is timed"
    assert [entrant.trial.variant for entrant in found] == ["static_int8_corrected", "static_int8_min_max"]
    assert guard.judged[-2:] == ["static_int8_corrected", "static_int8_min_max"], "the first that holds ends it"
    assert search.best.trial.variant == "static_int8_min_max"
    assert search.best.trial.timed_as == f"static_int8@{Plan().describe()}"


def test_the_like_of_one_with_float_nodes_have_the_same_float_nodes() -> None:
    """On an embedding, sequential int8 with 32 nodes in float kept the floor where static int8 with them did not."""
    whole = [Truth(truth.name, truth.ms, drop=0.2) for truth in TRUTHS if truth.name.startswith("static")]
    mixed = [Truth(f"{truth.name}{FLOAT}", 0.3, truth.drop) for truth in TRUTHS if truth.name.startswith("static")]
    search, _ = searched(
        ["static_int8", f"static_int8{FLOAT}", "dynamic_int8"], [TRUTHS[0], TRUTHS[-1], *whole, *mixed]
    )
    assert search.best.trial.variant == "dynamic_int8"
    search.kin(FAR)
    assert search.best.trial.variant == f"static_int8_min_max{FLOAT}"
    assert search.best.trial.timed_as == f"static_int8{FLOAT}@{Plan().describe()}"


def test_one_that_the_delegate_takes_less_of_gets_no_times_of_another() -> None:
    """Nine convolutions of a variant were left to built-in kernels, and it led a race by the times of its like."""
    search, guard = searched(["static_int8", "dynamic_int8"])
    search.partly_delegated = ("static_int8_min_max",)
    found = {entrant.trial.variant: entrant for entrant in search.kin(FAR)}
    assert "static_int8_min_max" in found
    assert not search.candidates.is_timed(found["static_int8_min_max"]), "it is left for a round of its own"
    assert "static_int8_min_max" not in guard.judged
    assert search.best.trial.variant == "static_int8_octav"


def test_a_refused_one_whose_only_round_was_held_up_gets_another_before_its_like_are_given_up() -> None:
    """Static int8 took 0.0814 ms in its first round and 0.051 ms else. It was refused after that round, so that nobody
    timed it again, and dynamic int8 was the answer: 1.35 times as slow as what its like would have been."""
    search, _ = searched(["dynamic_int8"])
    candidates = cast("Racing", search.candidates)
    static = candidates.entrant("static_int8")
    candidates.run_round([static], 0.1)
    held_up = {number: level + math.log(2.4) for number, level in static.trial.levels.items()}
    candidates.update(static, levels=held_up, **BROKEN)
    assert search.elimination.promising_refused(0.02) == []
    found = search.kin(FAR)
    assert len(static.trial.levels) == 2
    assert [entrant.trial.variant for entrant in found] == ["static_int8_corrected", "static_int8_min_max"]
    assert search.best.trial.variant == "static_int8_min_max"
    rounds = candidates.number
    search.kin(FAR)
    assert candidates.number == rounds, "it is looked at again once"


def test_a_slow_one_that_broke_the_floor_has_no_like_to_try() -> None:
    slow = [Truth(truth.name, 1.2 if truth.name.startswith("static") else truth.ms, truth.drop) for truth in TRUTHS]
    search, _ = searched(["static_int8", "dynamic_int8"], slow)
    assert search.kin(FAR) == []


def test_without_time_no_like_is_made() -> None:
    search, _ = searched(["static_int8", "dynamic_int8"])
    assert search.kin(-math.inf) == []


def profiler(calls: list[tuple[str, float]]) -> Callable[[str, Plan, float], tuple[()]]:
    """Profiles that find no slow node, and note of which variant and how long they were."""

    def slow_nodes(name: str, _plan: Plan, seconds: float) -> tuple[()]:
        calls.append((name, seconds))
        return ()

    return slow_nodes


def test_dynamic_ranges_are_improved_on_only_where_static_ones_break_the_floor() -> None:
    asked: list[tuple[str, float]] = []

    def improved(first: Sequence[str], drop: float) -> list[str]:
        asked.clear()
        truths = (Truth(ORIGINAL, 1.0), Truth("static_int8", 0.4, drop=drop), Truth("dynamic_int8", 0.9))
        search, _ = searched(first, truths)
        store = cast("Any", search.store)
        store.folder = SimpleNamespace(variants={})
        store.variant = lambda name: name
        store.slow_nodes = profiler(asked)
        assert search._without_slow_nodes() == []
        return [name for name, _ in asked]

    assert improved(["static_int8", "dynamic_int8"], drop=0.0) == ["static_int8"]
    # With nodes in float, what would win had it kept the floor may keep it.
    assert improved(["static_int8", "dynamic_int8"], drop=0.2) == ["dynamic_int8", "static_int8"]


def test_every_set_of_slow_nodes_enters_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    search, _ = searched(["static_int8"], (Truth(ORIGINAL, 1.0), Truth("static_int8", 0.4)))
    store, made = cast("Any", search.store), list[tuple[int, ...]]()
    store.folder = SimpleNamespace(variants={})
    store.variant = lambda name: name
    store.slow_nodes = lambda name, plan, seconds: ((0, 9), (0, 5, 9))

    on: list[Sequence[Plan]] = []

    def record(_search: Search, request: VariantRequest, plans: Sequence[Plan]) -> list[Entrant]:
        made.append(request.float_nodes)
        on.append(plans)
        return []

    monkeypatch.setattr(MadeUpSearch, "_made", record)
    search._without_slow_nodes()
    assert made == [(0, 9), (0, 5, 9)]
    assert on == [[Plan()]] * 2
    # A plan that other programs held up is not out by that.
    search._raced_on = [Plan(), Plan(threads=2), Plan(kernel="builtin"), Plan(accelerator="npu")]
    search._without_slow_nodes()
    assert on[2:] == [[Plan(), Plan(threads=2)]] * 2


def test_a_short_time_gets_a_short_profile_and_a_shorter_one_none() -> None:
    search, _ = searched(["static_int8"], (Truth(ORIGINAL, 1.0), Truth("static_int8", 0.4)))
    store, profiled = cast("Any", search.store), list[tuple[str, float]]()
    store.folder = SimpleNamespace(variants={})
    store.variant = lambda name: name
    store.slow_nodes = profiler(profiled)
    for left in (3.0, 12.0, 300.0):
        search.until = time.monotonic() + left
        search._without_slow_nodes()
    assert [seconds for _, seconds in profiled] == [pytest.approx(1.8, abs=0.2), 6.0]
    assert [one.code for one in search.skipped] == ["untried.slow-nodes"]


def test_the_fastest_variant_meets_every_number_of_threads_before_its_slow_nodes_are_looked_for() -> None:
    """Two threads had lost with the original in both of its rounds, and int8 never ran with them."""
    search, _ = searched(["static_int8"], (Truth(ORIGINAL, 1.0), Truth("static_int8", 0.4)))
    search.machine = cast("Any", SimpleNamespace(cores=4))
    cast("Any", search.store).candidate = SimpleNamespace(plan=Plan())
    search._other_threads()
    assert search.entered == [("static_int8", Plan(threads=count)) for count in (1, 2, 3, 4)]
    search.until = -math.inf
    assert search._other_threads() == []
