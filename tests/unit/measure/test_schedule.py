"""When a measurement stops, by a clock that the test sets."""

from __future__ import annotations

import pytest

from hasten.measure.schedule import Schedule


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rounds_of(seconds: float, lengths: list[float], **limits: int) -> int:
    clock = Clock()
    schedule = Schedule(seconds, clock=clock, **limits)
    for length in lengths:
        if not schedule.has_round():
            break
        with schedule.round():
            clock.now += length
    return schedule.rounds


def test_another_round_begins_only_if_one_like_the_longest_fits() -> None:
    assert rounds_of(10.0, [1.0] * 20) == 10
    assert rounds_of(10.0, [4.0, 1.0, 1.5, 1.0]) == 3  # after 6.5 s a round like the first no longer fits


def test_the_fewest_are_run_however_little_time_there_is_and_never_more_than_the_most() -> None:
    assert rounds_of(0.1, [5.0] * 9) == 1
    assert rounds_of(0.1, [5.0] * 9, fewest=3) == 3
    assert rounds_of(1e9, [5.0] * 9, most=4) == 4


def test_a_round_that_failed_does_not_count() -> None:
    schedule = Schedule(10.0)
    with pytest.raises(RuntimeError), schedule.round():
        raise RuntimeError
    assert schedule.rounds == 0


def test_the_share_and_what_is_left() -> None:
    clock = Clock()
    schedule = Schedule(10.0, clock=clock)
    clock.now += 4
    assert (schedule.elapsed_s, schedule.left_s, schedule.share) == (4.0, 6.0, 0.4)
    assert schedule.fits(6.0)
    assert not schedule.fits(6.1)
    clock.now += 90
    assert schedule.share == 1.0
    assert Schedule(0.0, clock=clock).share == 1.0
