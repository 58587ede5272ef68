"""The yardstick of the benchmarks: rounds in which neighbors left a rival no free run say nothing about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.race import duel, usual
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


@pytest.mark.parametrize(("truth", "outcome"), [(0.9, "faster"), (1.0, "not told apart"), (1.1, "slower")])
def test_a_duel_is_decided_by_what_slowed_rounds_leave(truth: float, outcome: str) -> None:
    source = np.random.default_rng(5)
    for _ in range(20):
        rounds = source.normal(0.0, 0.004, (2, 12))
        for levels in rounds:
            levels[source.permutation(12)[:2]] += source.uniform(0.2, 0.6, 2)
        first, second = rounds
        found = duel(list(first + math.log(truth)), list(second))
        assert found.outcome == outcome
        assert found.low <= found.ratio <= found.high
        assert found.ratio == pytest.approx(truth, rel=0.03)
