"""Rounds of fresh processes whose blocks alternate; one that fails takes nothing with it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock
from tests.unit.fake_target import MACHINE

from hasten.core import doubts
from hasten.core.failure import CONNECTION_LOST, Failure
from hasten.core.machine import Cluster
from hasten.core.measurement import Measurement
from hasten.core.plan import Plan
from hasten.measure.rounds import Rounds
from hasten.measure.warmup import warm_up
from hasten.targets.base import ATTEMPTS

if TYPE_CHECKING:
    from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def run_rounds(target: SimulatedTarget, names: str, count: int = 1, seconds: float = 0.4) -> Rounds:
    rounds = Rounds(target, [candidate(name) for name in names])
    for _ in range(count):
        rounds.run_one(seconds)
    return rounds


def measured(result: Measurement | Failure) -> Measurement:
    assert isinstance(result, Measurement)
    return result


def test_turns_alternate_so_that_a_drift_cancels_out(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    run_rounds(target, "ab", count=2)
    for process in (0, 1):
        order = target.order_of_turns(process)
        assert len(order) >= 8
        pairs = [order[i : i + 2] for i in range(0, len(order), 2)]
        assert set(pairs) == {"ab", "ba"}
        assert all(one != other for one, other in itertools.pairwise(pairs))


def test_turns_are_short_and_blocks_hold_several_of_them(clock: Clock) -> None:
    """A core that a neighbor on the host slows for a tenth of a second must not slow one candidate alone."""
    target = SimulatedTarget(clock, {"a": Behaviour(1.0), "b": Behaviour(1.0)})
    rounds = run_rounds(target, "ab", count=1, seconds=0.5)
    turns, blocks = len(target.order_of_turns(0)) / 2, len(rounds.tracks[0].rounds[0])
    assert turns > 5 * blocks
    assert all(len(block.nanoseconds) >= 40 for block in rounds.tracks[0].rounds[0][:-1])


def test_turns_are_longer_where_requests_take_their_time(clock: Clock) -> None:
    """Over a network: else most of a round would be spent on waiting for answers."""
    timed_s = {}
    for seconds in (0.0, 0.01, 0.1):
        target = SimulatedTarget(clock, {"a": Behaviour(1.0), "b": Behaviour(1.0)})
        target.request_seconds = seconds
        blocks = run_rounds(target, "ab", count=1, seconds=1.0).tracks[0].blocks
        timed_s[seconds] = sum(block.conditions.wall_seconds for block in blocks)
        assert max(block.conditions.wall_seconds for block in blocks) <= 0.1
    assert timed_s[0.0] > 0.8
    assert timed_s[0.01] > 0.7
    assert timed_s[0.1] > 0.25


def test_who_is_alone_has_no_turns(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    run_rounds(target, "a", count=1)
    assert not any(what == "more" for what, _, _ in target.log)


def test_each_round_has_fresh_processes_and_all_of_them_end(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    rounds = run_rounds(target, "ab", count=3)
    assert len(target.runners) == 6
    assert all(runner.closed for runner in target.runners)
    for track in rounds.tracks:
        assert [{block.runner for block in blocks} for blocks in track.rounds] == [{0}, {1}, {2}]


def test_candidates_take_turns_at_starting_first(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    run_rounds(target, "ab", count=4)
    loads = "".join(name for what, name, _ in target.log if what == "load")
    assert loads.count("ab") >= 1
    assert {loads[i : i + 2] for i in range(0, 8, 2)} == {"ab", "ba"}


@pytest.mark.parametrize("stage", ["load", "block 1", "block 3"])
def test_a_round_that_a_lost_connection_cut_short_is_run_again(clock: Clock, stage: str) -> None:
    target = SimulatedTarget(clock, {"b": Behaviour(fails={1: stage}, code=CONNECTION_LOST)})
    rounds = run_rounds(target, "ab", count=3)
    for track in rounds.tracks:
        assert track.failure is None
        assert [{block.runner for block in blocks} for blocks in track.rounds] == [{0}, {1}, {2}]
        assert len(track.loads) == len(track.warm_ups) == 3
    assert all(runner.closed for runner in target.runners)


def test_a_connection_that_is_lost_every_time_is_a_failure(clock: Clock) -> None:
    always = Behaviour(fails=dict.fromkeys(range(1, 10), "block 2"), code=CONNECTION_LOST)
    target = SimulatedTarget(clock, {"b": always})
    rounds = run_rounds(target, "ab", count=2)
    alone, lost = rounds.tracks
    assert (alone.failure, len(alone.rounds)) == (None, 2)
    assert lost.has_lost_connection
    assert target.processes_of["b"] == 1 + ATTEMPTS


def test_a_crash_beside_a_lost_connection_stays_a_failure(clock: Clock) -> None:
    behaviours = {"a": Behaviour(fails={1: "load"}), "b": Behaviour(fails={1: "block 1"}, code=CONNECTION_LOST)}
    rounds = run_rounds(SimulatedTarget(clock, behaviours), "ab", count=2)
    crashed, again = rounds.tracks
    assert crashed.failure is not None
    assert (again.failure, len(again.rounds)) == (None, 2)


@pytest.mark.parametrize("stage", ["load", "block 1", "block 3"])
@pytest.mark.parametrize("process", [0, 2])
def test_failing_candidate_leaves_the_others_going(clock: Clock, stage: str, process: int) -> None:
    target = SimulatedTarget(clock, {"b": Behaviour(fails={process: stage})})
    rounds = run_rounds(target, "abc", count=5)
    a, b, c = rounds.tracks
    assert len(a.rounds) == len(c.rounds) == 5
    assert b.failure is not None
    assert b.failure.message == "b died"
    assert [track.candidate.label for track in rounds.alive] == ["a", "c"]
    assert all(runner.closed for runner in target.runners)
    result = b.result()
    if process == 0 and stage != "block 3":
        assert result == b.failure
    else:
        reasons = [doubt.code for doubt in measured(result).other_doubts]
        assert doubts.PARTIAL in reasons


def test_failure_while_the_target_starts_is_a_value(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    target.refuses = Failure("start", "target", "out of reach")
    assert run_rounds(target, "a").tracks[0].result() == target.refuses


def test_first_run_and_init_are_medians_over_processes(clock: Clock) -> None:
    behaviour = Behaviour(init_ms=(500.0, 10.0, 12.0), first_run_ms=(90.0, 4.0, 6.0))
    found = measured(run_rounds(SimulatedTarget(clock, {"a": behaviour}), "a", count=3).tracks[0].result())
    assert found.init_ms == 12.0
    assert found.first_run_ms == 6.0


def test_peak_memory_is_the_largest_seen_or_unknown(clock: Clock) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(peak_memory_mb=33.0), "b": Behaviour(peak_memory_mb=None)})
    rounds = run_rounds(target, "ab", count=2)
    assert measured(rounds.tracks[0].result()).peak_memory_mb == 33.0
    assert measured(rounds.tracks[1].result()).peak_memory_mb is None


def test_slow_model_gets_at_least_one_block_a_round(clock: Clock) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(latency_ms=3000)})
    found = measured(run_rounds(target, "a", count=1, seconds=0.01).tracks[0].result())
    assert found.samples.count == 1
    assert doubts.FEW_SAMPLES in [doubt.code for doubt in found.doubts]


def test_nothing_measured_is_a_failure_not_a_crash(clock: Clock) -> None:
    assert isinstance(Rounds(SimulatedTarget(clock), [candidate("a")]).tracks[0].result(), Failure)


def test_threads_asked_for_are_held_against_threads_seen(clock: Clock) -> None:
    rounds = Rounds(SimulatedTarget(clock), [candidate("a", Plan(threads=3))])
    rounds.run_one(0.1)
    assert measured(rounds.tracks[0].result()).effective.threads == 3


def test_warm_up_ends_when_steady(clock: Clock) -> None:
    runner = SimulatedTarget(clock, {"a": Behaviour(warm_up=(30.0, 8.0, 2.0))}).start(Plan())
    runner.load(candidate("a").path, candidate("a").workload)
    found = warm_up(runner)
    assert found.settled
    assert runner.blocks == 5
    assert found.runs > 30


def test_warm_up_that_never_settles_is_flagged_and_ends(clock: Clock) -> None:
    found = measured(run_rounds(SimulatedTarget(clock, {"a": Behaviour(never_steady=True)}), "a").tracks[0].result())
    assert doubts.NOT_STEADY in [doubt.code for doubt in found.doubts]


def test_steady_model_is_not_flagged(clock: Clock) -> None:
    found = measured(run_rounds(SimulatedTarget(clock), "a", count=4).tracks[0].result())
    assert found.doubts == []
    assert found.warm_up_runs > 0


def cores_in_use(clock: Clock, plans: list[Plan], clusters: list[list[int]], rounds: int = 2) -> list[tuple[int, ...]]:
    target = SimulatedTarget(clock)
    target.device = replace(MACHINE, clusters=tuple(Cluster(tuple(cores)) for cores in clusters))
    race = Rounds(target, [candidate("abc"[i], plan) for i, plan in enumerate(plans)])
    for _ in range(rounds):
        race.run_one(0.1)
    return [runner.plan.cores for runner in target.runners]


def test_candidates_share_a_core_in_each_round_and_take_turns_over_the_cores(clock: Clock) -> None:
    """A core beside a busy neighbor would else be booked on the candidate that happens to sit there."""
    assert cores_in_use(clock, [Plan(), Plan()], [[0, 1]], rounds=3) == [(0,), (0,), (1,), (1,), (0,), (0,)]


def test_two_threads_take_turns_over_all_cores_and_never_share_a_physical_one(clock: Clock) -> None:
    """Of a machine whose cores 0 and 1, and 2 and 3, are siblings."""
    found = cores_in_use(clock, [Plan(threads=2), Plan(threads=2)], [[0, 2, 1, 3]], rounds=3)
    assert found == [(0, 2), (0, 2), (1, 3), (1, 3), (0, 2), (0, 2)]


def test_result_names_the_plan_that_was_asked_for(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    target.device = replace(MACHINE, clusters=(Cluster((0, 1)),))
    rounds = run_rounds(target, "ab")
    assert measured(rounds.tracks[0].result()).plan == Plan()


@pytest.mark.parametrize(
    ("plans", "clusters"),
    [
        ([Plan()], [[0, 1]]),
        ([Plan(threads=2), Plan(threads=2)], [[0, 1]]),
        ([Plan(), Plan(threads=2)], [[0, 1]]),
        ([Plan(), Plan(accelerator="npu")], [[0, 1]]),
        ([Plan(), Plan()], [[0, 1], [2, 3]]),
    ],
    ids=["alone", "all-cores", "other-counts", "accelerator", "unlike-cores"],
)
def test_cores_are_left_to_the_system_where_sharing_would_change_the_question(
    clock: Clock, plans: list[Plan], clusters: list[list[int]]
) -> None:
    assert set(cores_in_use(clock, plans, clusters)) == {()}


def test_cores_that_a_user_chose_stay(clock: Clock) -> None:
    assert set(cores_in_use(clock, [Plan(cores=(1,)), Plan(cores=(1,))], [[0, 1]])) == {(1,)}


def test_rounds_that_go_on_have_numbers_of_their_own(clock: Clock) -> None:
    """A session that goes on must not take two processes for one."""
    rounds = Rounds(SimulatedTarget(clock), [candidate("a")], first_round=7)
    rounds.run_one(0.1)
    rounds.run_one(0.1)
    assert {block.runner for block in rounds.tracks[0].blocks} == {7, 8}
