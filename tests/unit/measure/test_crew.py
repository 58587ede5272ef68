"""Runners side by side: as many as the cores have room for, at the same time, and counted together."""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.block import Block
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan
from hasten.measure.crew import burst_of, crew_size
from hasten.measure.rounds import Rounds
from hasten.targets.client import RunnerClient

if TYPE_CHECKING:
    from hasten.runner.protocol import Message


class NoLink:
    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to close."""


class Member(RunnerClient):
    """A runner that begins only when all others of its crew do."""

    def __init__(self, together: threading.Barrier, runs: list[int], *, fails: bool = False) -> None:
        super().__init__(NoLink(), Plan(), 1.0)
        self.together, self.runs, self.fails = together, runs, fails

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        self.together.wait(timeout=20)
        if self.fails:
            raise RunnerFailed(Failure("run", "crash", "it died"))
        return Block(runner, 0.0, array("q", self.runs))


@pytest.mark.parametrize(
    ("plan", "cores", "runners"),
    [
        (Plan(), 8, 8),
        (Plan(threads=2), 8, 4),
        (Plan(threads=3), 8, 2),
        (Plan(threads=16), 8, 1),
        (Plan(accelerator="npu"), 8, 1),
        (Plan(delegate="lib.so"), 8, 1),
        (Plan(cores=(0, 1, 2)), 8, 3),
    ],
)
def test_a_crew_fills_the_cores(plan: Plan, cores: int, runners: int) -> None:
    assert crew_size(plan, cores) == runners


def test_all_runners_run_at_the_same_time_and_their_rates_add_up() -> None:
    together = threading.Barrier(3)  # which breaks if one waits for another
    crew = [Member(together, [1_000_000] * 100) for _ in range(2)] + [Member(together, [2_000_000] * 50)]
    found = burst_of(crew, 7)
    assert found.round == 7
    assert found.runs == (100, 100, 50)
    assert found.per_second == pytest.approx(1000 + 1000 + 500)


def test_a_crew_with_one_that_dies_has_failed() -> None:
    together = threading.Barrier(2)
    with pytest.raises(RunnerFailed):
        burst_of([Member(together, [1000]), Member(together, [], fails=True)], 0)


def test_rounds_measure_throughput_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    target = SimulatedTarget(install_clock(monkeypatch), {"a": Behaviour(1.0), "b": Behaviour(2.0)})
    plain = Rounds(target, [candidate("a")])
    plain.run_one(0.1)
    assert plain.tracks[0].bursts == []
    assert len(target.runners) == 1
    rounds = Rounds(target, [candidate("a"), candidate("b", Plan(threads=2))], crews=True)
    for _ in range(2):
        rounds.run_one(0.1)
    assert len(target.runners) == 1 + 2 * (4 + 2), "on four cores: four of one thread, two of two"
    assert all(runner.closed for runner in target.runners)
    one, other = (track.result() for track in rounds.tracks)
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    assert [burst.round for burst in one.bursts] == [0, 0, 1, 1], "two turns in each round"
    assert one.bursts[0].per_second == pytest.approx(4000, rel=0.05)
    assert other.bursts[0].per_second == pytest.approx(1000, rel=0.05)
    assert [start.round for start in one.starts] == [0, 1], "those of the others of a crew do not count"
    latest = rounds.tracks[0].latest_round()
    assert not isinstance(latest, Failure)
    assert {block.runner for block in latest.samples.blocks} == {1}
    assert [burst.round for burst in latest.bursts] == [1, 1]
    assert [start.round for start in latest.starts] == [1]


def test_a_candidate_whose_crew_does_not_fit_is_out_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    behaviours = {"a": Behaviour(1.0), "b": Behaviour(1.0, fails={2: "load"})}
    rounds = Rounds(
        SimulatedTarget(install_clock(monkeypatch), behaviours), [candidate("a"), candidate("b")], crews=True
    )
    rounds.run_one(0.1)
    a, b = rounds.tracks
    assert b.failure is not None
    assert b.bursts == []
    assert len(a.bursts) == 2
