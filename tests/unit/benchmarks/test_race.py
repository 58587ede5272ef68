"""The yardstick of the benchmarks: rounds in which neighbors left a rival no free run say nothing about it."""

from __future__ import annotations

import math

import pytest
from benchmarks.race import usual
from benchmarks.trust import spread_of

FREE = [0.0, 0.002, 0.001, 0.003]
SLOWED = [0.5, 0.45, 0.49]


def test_a_level_is_that_of_the_rounds_with_free_runs() -> None:
    assert usual([*SLOWED, *FREE]) == pytest.approx(0.0015)
    assert usual([0.7]) == 0.7


def test_the_truth_is_unknown_where_free_runs_are_rare() -> None:
    assert spread_of([*SLOWED, *FREE]) < 0.01
    assert spread_of([*SLOWED, *FREE[:1]]) > 0.3
    assert spread_of(FREE[:1]) == math.inf
