"""Who stays in a race: what is surely slower drops out and nothing else, by simulations with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.search.round_ratios import (
    all_log_ratios,
    are_alike,
    is_better,
    is_held_up,
    log_ratios,
    relative,
    surely_slower,
)

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


def test_rounds_in_which_one_was_held_up_do_not_count() -> None:
    leader = {1: 0.0, 2: 0.5, 3: 0.5, 4: 0.0, 5: 0.0}
    other = {2: 0.5, 3: 0.5, 4: -0.07, 5: 0.43}
    assert log_ratios(leader, other) == [pytest.approx(-0.07)]
    assert len(all_log_ratios(leader, other)) == 4
    assert is_better(other, leader, BASE)
    assert not are_alike(other, leader)
    assert relative(leader, BASE) == 0.0


def test_a_whole_race_that_is_held_up_is_all_that_is_known() -> None:
    leader, other = {1: 0.5, 2: 0.51, 3: 0.5}, {1: 0.5, 2: 0.5, 3: 0.5}
    assert are_alike(other, leader)
    assert is_held_up(leader, {9: 0.0})
    assert not is_held_up({**leader, 4: 0.1}, {9: 0.0})
    assert not is_held_up(leader, {})


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_who_is_as_fast_stays_whichever_rounds_are_held_up(share: float) -> None:
    """Each by itself, or both at once: neither makes equal candidates slower or better."""
    source, wrong = np.random.default_rng(2), []
    for _ in range(2000):
        own, both = source.random((2, 8)) < share / 2, source.random(8) < share / 2
        one, other = (
            {n: float(source.normal(0, 0.03)) + 0.5 * float(own[side][n] or both[n]) for n in range(8)}
            for side in range(2)
        )
        wrong.append(surely_slower(one, other, dict.fromkeys(range(8), 0.0)))
    assert np.mean(wrong) < 0.01


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


@given(st.dictionaries(st.integers(1, 9), st.floats(-1, 1)), st.dictionaries(st.integers(1, 9), st.floats(-1, 1)))
def test_whoever_is_better_is_not_surely_slower(levels: dict[int, float], leader: dict[int, float]) -> None:
    assert not (surely_slower(levels, leader, BASE) and is_better(levels, leader, BASE))


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8), st.floats(-1, 1))
def test_no_candidate_is_both_surely_slower_and_better(levels: list[float], shift: float) -> None:
    leader = dict(enumerate(levels, 1))
    other = {number: level + shift for number, level in leader.items()}
    assert not (surely_slower(other, leader, BASE) and is_better(other, leader, BASE))
    assert not surely_slower(leader, leader, BASE)
    assert not is_better(leader, leader, BASE)
