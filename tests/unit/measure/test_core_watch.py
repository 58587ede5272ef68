"""Waiting for cores that somebody else shares: as long as that is worth it, and no longer."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.block import Block, Conditions
from hasten.measure import core_watch
from hasten.measure.core_watch import CoreWatch, watch_of
from hasten.measure.rounds import Rounds

FREE, SHARED = 262.0, 450.0


class Sleeper:
    """A clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(core_watch, "now", lambda: self.seconds)
        monkeypatch.setattr(core_watch, "time", SimpleNamespace(sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def block(slowest_us: float | None, quickest_us: float = 255.0) -> Block:
    quickest = None if slowest_us is None else quickest_us
    conditions = Conditions(wall_seconds=0.05, quickest_core_us=quickest, slowest_core_us=slowest_us)
    return Block(0, 0.0, array("q", [1000]), conditions)


def test_free_cores_and_machines_that_tell_nothing_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watch = Sleeper(monkeypatch), CoreWatch(begin=0.0)
    assert not watch.pauses([block(FREE), block(None)])
    assert not watch.pauses([])
    assert clock.seconds == 0


def test_a_shared_core_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watch = Sleeper(monkeypatch), CoreWatch(begin=0.0)
    assert watch.pauses([block(FREE), block(SHARED)])
    assert clock.seconds > 0
    assert not watch.pauses([block(FREE)])


def test_what_is_known_from_better_times_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both cores are shared: only an earlier block shows that they can do better."""
    Sleeper(monkeypatch)
    watch = CoreWatch(begin=0.0)
    assert not watch.pauses([block(SHARED, 440.0)])
    assert not watch.pauses([block(FREE)])
    assert watch.pauses([block(SHARED, 440.0)])


@pytest.mark.parametrize("worked_s", [0.0, 60.0, 36000.0])
def test_a_machine_that_is_never_left_alone_does_not_take_all_the_time(
    worked_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Sleeper(monkeypatch)
    watch = CoreWatch(begin=0.0)
    for _ in range(1000):
        watch.pauses([block(FREE)])
    clock.seconds += worked_s
    while watch.pauses([block(SHARED)]):
        pass
    assert 0 < clock.seconds - worked_s < min(1.0 + 0.2 * worked_s, 16)


def test_where_a_shared_core_is_the_rule_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watch = Sleeper(monkeypatch), CoreWatch(begin=-1000.0)
    for number in range(100):
        watch.pauses([block(SHARED if number % 4 else FREE)])
    assert clock.seconds < 2


def test_a_machine_has_one_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimulatedTarget(install_clock(monkeypatch), {}).machine()
    assert watch_of(machine) is watch_of(machine)


def test_a_round_goes_on_until_it_has_time_with_free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = CoreWatch(begin=0.0)
    monkeypatch.setattr("hasten.measure.rounds.watch_of", lambda machine: watch)
    paused: list[int] = []

    def pauses(blocks: list[Block]) -> bool:
        paused.append(len(blocks))
        return len(paused) <= 3

    monkeypatch.setattr(CoreWatch, "pauses", lambda self, blocks: pauses(blocks))
    target = SimulatedTarget(install_clock(monkeypatch), {"a": Behaviour(1.0), "b": Behaviour(1.0)})
    rounds = Rounds(target, [candidate("a"), candidate("b")])
    rounds.run_one(0.1)
    first = [len(track.rounds[0]) for track in rounds.tracks]
    rounds.run_one(0.1)
    second = [len(track.rounds[1]) for track in rounds.tracks]
    assert set(paused) == {2}
    assert [more - usual for more, usual in zip(first, second, strict=True)] == [3, 3]
