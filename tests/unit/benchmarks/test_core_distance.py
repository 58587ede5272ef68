"""How far apart two cores are: a figure where it can be measured, and none where not."""

from __future__ import annotations

import os
import shutil

import pytest
from benchmarks import core_distance


@pytest.mark.skipif(shutil.which("cc") is None or len(os.sched_getaffinity(0)) < 2, reason="needs cc and two cores")
def test_a_line_of_cache_takes_some_time_from_core_to_core() -> None:
    found = core_distance.round_trip_ns()
    assert found is not None
    assert found > 1


def test_one_core_is_at_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert core_distance.round_trip_ns() is None


def test_without_a_compiler_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert core_distance.round_trip_ns() is None
