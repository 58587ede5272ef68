"""Searches for goals other than latency, on a simulated race with known truth: the best wins, limits hold, ties are
broken by the simplest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.comparison import Verdict
from hasten.core.errors import TargetError, UsageError
from hasten.core.failure import Failure
from hasten.core.goal import Goal
from hasten.core.limits import Limit
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Status
from hasten.evaluate.trial_words import TRIALS
from hasten.search.confirming import Link, Pace, Proof, prove
from hasten.search.plans import cached_plans, plans_to_try, simplicity
from hasten.search.settings import SearchSettings, refuse_unmeasurable
from tests.unit.fake_target import MACHINE
from tests.unit.search.simulated_race import Truth, raced

MEASURED = (Goal.ENERGY, Goal.THROUGHPUT, Goal.START)
BASE = Truth(ORIGINAL, 2.0)
# Each is the best in one respect, and one is the best in all but its accuracy.
FIELD = [
    BASE,
    Truth("fast", 1.0, energy=2.0, throughput=2.0, start=2.0, size=120),
    Truth("small", 3.0, energy=1.5, throughput=1.5, start=1.5, size=25),
    Truth("frugal", 2.5, energy=0.5, throughput=1.2, start=1.5),
    Truth("wide", 2.5, energy=1.5, throughput=0.5, start=1.5),
    Truth("prompt", 2.5, energy=1.5, throughput=1.2, start=0.4),
    Truth("broken", 0.2, drop=0.3, energy=0.1, throughput=0.1, start=0.1, size=5),
]
BEST = {Goal.LATENCY: "fast", Goal.SIZE: "small", Goal.ENERGY: "frugal", Goal.THROUGHPUT: "wide", Goal.START: "prompt"}


@pytest.mark.parametrize("goal", list(Goal))
def test_each_goal_has_its_own_best(goal: Goal) -> None:
    elimination, guard = raced(FIELD, goal=goal)
    assert elimination.best.trial.variant == BEST[goal]
    assert "broken" in guard.judged, "it looked best"
    lost = {one.trial.variant: one.trial for one in elimination.candidates.entrants.values()}
    dropped = [trial for trial in lost.values() if trial.status is Status.DROPPED]
    assert dropped
    assert all(Goal(trial.why.facts.get("goal", "latency")) is goal for trial in dropped)
    assert all(BEST[goal] in TRIALS.text(trial.why) for trial in dropped)


@pytest.mark.parametrize("goal", list(Goal))
def test_among_equals_the_simpler_one_is_the_answer(goal: Goal) -> None:
    equal = [replace(BASE), Truth("float16", 2.0), Truth("static_int8", 2.0)]
    chosen = {raced(equal, noise=0.005, goal=goal, seed=seed)[0].best.trial.variant for seed in range(10)}
    assert chosen == {ORIGINAL}


def test_of_files_of_one_size_the_faster_is_the_answer() -> None:
    field = [BASE, Truth("slow", 3.0, size=50), Truth("fast", 1.0, size=50), Truth("large", 0.5, size=90)]
    for seed in range(5):
        elimination, _ = raced(field, goal=Goal.SIZE, seed=seed)
        assert elimination.best.trial.variant == "fast"
        lost = {one.trial.variant: one.trial.why for one in elimination.candidates.entrants.values()}
        assert "goal" not in lost["slow"].facts, "it lost by its latency"
        assert lost["large"].facts["goal"] == "size"


LIMITED = [
    BASE,
    Truth("tiny", 9.0, size=20, energy=3.0, start=4.0, throughput=4.0),
    Truth("middling", 3.0, size=40, energy=1.2, start=1.2, throughput=1.2),
    Truth("large", 1.0, size=80, energy=0.8, start=0.8, throughput=0.8),
]


@pytest.mark.parametrize(
    ("limit", "best"),
    [
        (Limit(), "tiny"),
        (Limit(latency_ms=5.0), "middling"),
        (Limit(latency_ms=1.5), "large"),
        (Limit(energy_mj=1.0), "large"),
        (Limit(start_ms=2.0), "middling"),
        (Limit(throughput=500.0), "middling"),
        (Limit(latency_ms=5.0, throughput=1100.0), "large"),
    ],
)
def test_what_surely_breaks_a_limit_is_not_the_answer(limit: Limit, best: str) -> None:
    elimination, _ = raced(LIMITED, goal=Goal.SIZE, limit=limit)
    assert elimination.best.trial.variant == best
    assert all(elimination.limits_kept(elimination.best).values())


def test_where_nothing_keeps_the_limits_the_nearest_is_the_answer() -> None:
    elimination, _ = raced(LIMITED, goal=Goal.SIZE, limit=Limit(latency_ms=0.1))
    assert elimination.leader is None
    assert elimination.best.trial.variant == "large"


def test_a_limit_on_the_goal_itself_keeps_nobody_from_being_the_best() -> None:
    elimination, _ = raced(LIMITED, limit=Limit(latency_ms=0.1))
    assert elimination.best.trial.variant == "large"
    assert elimination.limits_kept(elimination.best) == {Goal.LATENCY: False}


def test_a_leader_at_its_limit_gets_rounds_until_that_is_decided() -> None:
    """Size is decided at once, so nothing but the limit asks for rounds."""
    field = [BASE, Truth("small", 4.0, size=20)]
    near, _ = raced(field, goal=Goal.SIZE, limit=Limit(latency_ms=4.2), noise=0.02)
    far, _ = raced(field, goal=Goal.SIZE, limit=Limit(latency_ms=40.0), noise=0.02)
    rounds = [len(one.best.trial.levels) for one in (near, far)]
    assert rounds[0] > rounds[1]
    assert near.best.trial.variant == "small"


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MEASURED),
    st.lists(st.tuples(st.floats(0.3, 4.0), st.floats(0.3, 4.0), st.booleans()), min_size=1, max_size=7),
    st.floats(0.5, 3.0),
    st.integers(0, 1000),
)
def test_never_what_breaks_floor_or_limit_and_never_far_from_the_best(
    goal: Goal, others: list[tuple[float, float, bool]], most_ms: float, seed: int
) -> None:
    truths = [
        Truth(ORIGINAL, 1.0),
        *(
            Truth(f"v{place}", ms, 0.3 if broken else 0.0, **{goal.value: cost})  # type: ignore[arg-type]
            for place, (cost, ms, broken) in enumerate(others)
        ),
    ]
    elimination, _ = raced(truths, goal=goal, limit=Limit(latency_ms=most_ms), seed=seed)
    chosen = elimination.candidates.truths[elimination.best.trial.variant]  # type: ignore[attr-defined]
    allowed = [truth for truth in truths if truth.drop <= 0.01 and truth.ms <= most_ms * 0.9]
    assert chosen.drop <= 0.01
    if allowed:
        assert chosen.ms <= most_ms * 1.1
        assert chosen.cost(goal) <= min(truth.cost(goal) for truth in allowed) * 1.06


def test_settings_know_what_they_ask_to_measure() -> None:
    assert SearchSettings(goal=Goal.THROUGHPUT).measures_throughput
    assert SearchSettings(limit=Limit(throughput=5.0)).measures_throughput
    assert SearchSettings(limit=Limit(start_ms=5.0)).measures_start
    plain = SearchSettings()
    assert not any((plain.measures_throughput, plain.measures_start, plain.measures_energy))
    with pytest.raises(UsageError, match="no goal 'joy'"):
        SearchSettings(goal="joy")  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [SearchSettings(goal=Goal.ENERGY), SearchSettings(limit=Limit(energy_mj=1.0))])
def test_energy_without_a_counter_is_a_trouble_of_the_target(asked: SearchSettings) -> None:
    with pytest.raises(TargetError, match="energy counter") as raised:
        refuse_unmeasurable(asked, MACHINE)
    assert raised.value.exit_code == 4
    refuse_unmeasurable(asked, replace(MACHINE, energy_counter=True))
    refuse_unmeasurable(SearchSettings(), MACHINE)


def test_caches_are_tried_where_a_start_can_use_them() -> None:
    plans = plans_to_try(MACHINE, Plan())
    cached = cached_plans(plans, "out/cache")
    assert [plan.describe() for plan in cached] == [
        "cpu, 1 thread, with a cache",
        "cpu, 2 threads, with a cache",
        "cpu, 3 threads, with a cache",
        "cpu, 4 threads, with a cache",
        "npu, 4 threads, with a cache",
        "gpu, 4 threads, with a cache",
    ]
    assert cached_plans(cached, "elsewhere") == []
    assert simplicity(ORIGINAL, cached[0], Plan()) > simplicity(ORIGINAL, Plan(), Plan())


def proven(
    monkeypatch: pytest.MonkeyPatch, goal: Goal, behaviours: dict[str, Behaviour], sizes: dict[str, int] | None = None
) -> Proof:
    """A confirmation of the last, with all others as steps on the way."""
    target = SimulatedTarget(install_clock(monkeypatch), behaviours, 1)
    links = []
    for name in behaviours:
        one = candidate(name)
        links.append(Link(replace(one, model=replace(one.model, size_bytes=(sizes or {}).get(name, 100)))))
    found = prove(target, links, Pace(30.0), lambda text: None, goal)
    assert not isinstance(found, Failure)
    return found


def test_a_start_is_confirmed_by_its_own_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Behaviour(1.0, init_ms=(100.0,), first_run_ms=(10.0,))
    halfway, quick = replace(slow, init_ms=(45.0,)), replace(slow, init_ms=(12.0,), latency_ms=2.0)
    proof = proven(monkeypatch, Goal.START, {"original": slow, "halfway": halfway, "quick": quick})
    assert proof.comparison.verdict is Verdict.FASTER
    assert proof.comparison.ratio == pytest.approx(0.2)
    assert proof.result.comparison.verdict is Verdict.SLOWER, "its latency is another matter"
    first, last = proof.steps
    assert first.goal is Goal.START
    assert (first.before, first.after) == pytest.approx((110.0, 55.0))
    assert first.ratio * last.ratio == pytest.approx(proof.comparison.ratio)
    assert last.after == pytest.approx(22.0)
    assert last.to_ms == pytest.approx(2.0, rel=0.02)


def test_energy_is_confirmed_by_the_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    hungry, frugal = Behaviour(1.0, watts=20.0), Behaviour(1.5, watts=5.0)
    proof = proven(monkeypatch, Goal.ENERGY, {"original": hungry, "frugal": frugal})
    assert proof.comparison.verdict is Verdict.FASTER
    assert proof.comparison.ratio == pytest.approx(7.5 / 20, rel=0.02)
    (step,) = proof.steps
    assert (step.before, step.after) == pytest.approx((20.0, 7.5), rel=0.02)


def test_without_a_reading_of_the_counter_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = proven(monkeypatch, Goal.ENERGY, {"original": Behaviour(2.0), "fast": Behaviour(1.0)})
    assert proof.comparison.verdict is Verdict.UNDECIDED
    assert math.isnan(proof.steps[0].after)


def test_a_size_needs_no_luck_and_a_plan_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = Behaviour(2.0, process_noise=0.2)
    behaviours = {"original": noisy, "threads": replace(noisy, latency_ms=0.5), "small": replace(noisy, latency_ms=0.6)}
    proof = proven(monkeypatch, Goal.SIZE, behaviours, {"original": 1000, "threads": 1000, "small": 960})
    assert proof.comparison.verdict is Verdict.FASTER
    assert proof.comparison.ratio == pytest.approx(0.96)
    threads, small = proof.steps
    assert threads.goal is Goal.LATENCY
    assert small.goal is Goal.SIZE
    assert (small.before, small.after) == pytest.approx((1000, 960))


def test_throughput_is_that_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores: four runners of one thread, each with 1 ms, against the same with 0.5 ms."""
    proof = proven(monkeypatch, Goal.THROUGHPUT, {"original": Behaviour(1.0), "fast": Behaviour(0.5)})
    assert proof.comparison.verdict is Verdict.FASTER
    (step,) = proof.steps
    assert (step.before, step.after) == pytest.approx((4000, 8000), rel=0.03)
