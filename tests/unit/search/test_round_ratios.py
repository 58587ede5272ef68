"""Who stays in a race: what is surely slower drops out and nothing else, by simulations with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.search.round_ratios import are_alike, is_better, log_ratios, relative, surely_slower

BASE = dict.fromkeys(range(1, 10), 0.0)


def drawn(source: np.random.Generator, truth: float, rounds: int, noise: float) -> dict[int, float]:
    return {number: truth + float(source.normal(0, noise)) for number in range(1, rounds + 1)}


@pytest.mark.parametrize(("rounds", "noise"), [(1, 0.10), (2, 0.08), (3, 0.05), (5, 0.05), (8, 0.03)])
def test_as_fast_as_the_leader_is_hardly_ever_dropped(rounds: int, noise: float) -> None:
    source = np.random.default_rng(0)
    wrong = [
        surely_slower(drawn(source, 0.0, rounds, noise), drawn(source, 0.0, rounds, noise), BASE) for _ in range(2000)
    ]
    assert np.mean(wrong) < 0.01


def test_twice_as_slow_drops_out_after_one_round_and_a_tenth_after_some() -> None:
    assert surely_slower({1: math.log(2)}, {1: 0.0}, BASE)
    assert not surely_slower({1: math.log(1.1)}, {1: 0.0}, BASE)
    source = np.random.default_rng(1)
    found = [surely_slower(drawn(source, 0.1, 6, 0.02), drawn(source, 0.0, 6, 0.02), BASE) for _ in range(200)]
    assert np.mean(found) > 0.95


def test_only_rounds_that_both_were_in_count() -> None:
    assert log_ratios({1: 0.0, 2: 5.0}, {1: 1.0, 3: 9.0}) == [1.0]
    assert relative({4: 0.5, 40: 9.0}, BASE) == 0.5
    assert relative({40: 9.0}, BASE) == math.inf


def test_two_that_never_met_are_compared_by_the_base_and_only_if_nobody_could_overlook_it() -> None:
    assert surely_slower({1: 1.0}, {2: 0.0}, BASE)
    assert not surely_slower({1: 0.3}, {2: 0.0}, BASE)
    assert is_better({1: -0.5}, {2: 0.0}, BASE)


def test_the_simpler_one_stays_unless_another_is_better() -> None:
    same = {1: 0.0, 2: 0.0, 3: 0.0}
    hardly = {1: -0.005, 2: -0.005, 3: -0.005}
    clearly = {1: -0.1, 2: -0.11, 3: -0.1}
    assert not is_better(hardly, same, BASE)
    assert is_better(clearly, same, BASE)
    assert are_alike(hardly, same)
    assert not are_alike(clearly, same)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8), st.floats(-1, 1))
def test_no_candidate_is_both_surely_slower_and_better(levels: list[float], shift: float) -> None:
    leader = dict(enumerate(levels, 1))
    other = {number: level + shift for number, level in leader.items()}
    assert not (surely_slower(other, leader, BASE) and is_better(other, leader, BASE))
    assert not surely_slower(leader, leader, BASE)
    assert not is_better(leader, leader, BASE)
