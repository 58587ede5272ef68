"""The speed of cores, on this machine."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from hasten.core.machine import Cluster
from hasten.runner import core_speed
from hasten.runner.core_speed import core_times_us

if TYPE_CHECKING:
    import pytest


def test_every_usable_core_is_timed_and_the_process_stays_where_it_may_run() -> None:
    before, threads = os.sched_getaffinity(0), threading.active_count()
    found = core_times_us()
    assert len(found) == (len(before) if len(before) <= 4 else 0)
    assert all(0 < time < 1e6 for time in found)
    assert os.sched_getaffinity(0) == before
    assert threading.active_count() == threads


def test_a_process_that_is_kept_to_a_core_times_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_speed, "usable_core_numbers", lambda: {min(os.sched_getaffinity(0))})
    assert len(core_times_us()) == 1


def test_a_core_that_cannot_be_had_and_a_thread_that_does_not_start_leave_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = threading.active_count()
    monkeypatch.setattr(core_speed, "usable_core_numbers", lambda: {min(os.sched_getaffinity(0)), 1000})
    assert core_times_us() == ()
    monkeypatch.undo()
    started: list[threading.Thread] = []
    true_start = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        true_start(thread)

    first = min(os.sched_getaffinity(0))
    monkeypatch.setattr(core_speed, "usable_core_numbers", lambda: {first, first + 1})
    monkeypatch.setattr(threading.Thread, "start", start)
    assert core_times_us() == ()
    assert threading.active_count() == threads


def test_cores_of_two_kinds_and_many_cores_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_speed, "describe_clusters", lambda: (Cluster((0,)), Cluster((1,), 0.5)))
    assert core_times_us() == ()
    monkeypatch.undo()
    monkeypatch.setattr(core_speed, "usable_core_numbers", lambda: set(range(64)))
    assert core_times_us() == ()
