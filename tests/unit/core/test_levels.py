"""Latencies and ratios by one rule: what is shown as a ratio follows from the latencies next to it."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hasten.core.block import Block
from hasten.core.doubts import NOISY, ONE_PROCESS
from hasten.core.levels import contrast, latency_of, place
from hasten.core.samples import Samples

LEVELS = st.dictionaries(st.integers(0, 12), st.floats(-8, 8), min_size=1, max_size=12)


@given(LEVELS, LEVELS)
def test_a_ratio_is_that_of_the_latencies_beside_it(base: dict[int, float], other: dict[int, float]) -> None:
    assume(set(base) & set(other))
    found, first, second = contrast(base, other), latency_of(base), latency_of(other, base)
    assert found is not None
    assert first is not None
    assert second is not None
    assert second.estimate / first.estimate == pytest.approx(math.exp(found.estimate))
    assert second.low <= second.estimate <= second.high


@given(LEVELS, LEVELS, LEVELS)
def test_ratios_of_three_multiply(base: dict[int, float], one: dict[int, float], other: dict[int, float]) -> None:
    assume(set(base) & set(one) and set(base) & set(other))
    steps = [contrast(base, one), contrast(one, other, base), contrast(base, other)]
    first, second, whole = (step.estimate for step in steps if step is not None)
    assert first + second == pytest.approx(whole, abs=1e-9)


def test_a_round_that_slows_all_down_moves_nothing() -> None:
    base, other = {0: 0.0, 1: 0.0, 2: 0.0}, {1: -0.5, 2: -0.5}
    slowed = {**base, 2: 0.2}, {**other, 2: -0.3}
    for first, second in ((base, other), slowed):
        found = contrast(first, second)
        assert found is not None
        assert found.estimate == pytest.approx(-0.5)
        assert found.standard_error == pytest.approx(0.0)
    assert place(other, base) == pytest.approx(-0.5)


def test_a_round_that_something_disturbed_does_not_count() -> None:
    base, other = dict.fromkeys(range(5), 0.0), dict.fromkeys(range(5), -0.5)
    found = contrast(base, {**other, 3: 1.0})  # the other alone suffers, as more threads do
    assert found is not None
    assert found.estimate == pytest.approx(-0.5)
    assert found.rounds == 4


def test_those_that_never_met_have_no_ratio() -> None:
    assert contrast({0: 1.0}, {1: 1.0}) is None
    assert latency_of({1: 1.0}, {0: 1.0}) is None


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_interval_holds_the_truth_as_often_as_it_says(missing: float) -> None:
    """Three candidates, rounds that slow all of them, and some that not all were in."""
    source, inside, trials = np.random.default_rng(5), 0, 400
    for _ in range(trials):
        effects = source.normal(0, 0.1, 8)
        base, one, other = (
            {n: truth + effects[n] + source.normal(0, 0.02) for n in range(8) if not place or source.random() > missing}
            for place, truth in enumerate([0.0, -0.3, -0.5])
        )
        found = contrast(one, other, base)
        if found is None or found.rounds < 2:
            inside += 1
            continue
        shown = found.interval(0.95)
        inside += shown.low <= -0.2 <= shown.high
    assert inside / trials >= 0.92


def samples(rounds: dict[int, list[int]]) -> Samples:
    blocks = [Block(number, 0.0, array("q", times)) for number, times in rounds.items()]
    return Samples(tuple(blocks))


def test_samples_beside_others_are_scaled_by_what_slowed_their_rounds() -> None:
    base = samples({0: [1000] * 9, 1: [1100] * 9})
    late = samples({1: [550] * 9})
    beside = late.beside(base)
    assert beside.median_ms / base.median_ms == pytest.approx(0.5)
    assert beside.min_ms <= beside.median_ms <= beside.p95_ms
    assert late.beside(samples({5: [1000]})) is late  # they never met


@settings(deadline=None)
@given(st.integers(2, 1000), st.lists(st.integers(1000, 10**9), min_size=1, max_size=20))
def test_levels_do_not_depend_on_the_unit(factor: int, times: list[int]) -> None:
    one, other = samples({0: times}), samples({0: [time * factor for time in times]})
    assert other.levels[0] - one.levels[0] == pytest.approx(math.log(factor))


def test_a_disturbed_block_does_not_move_the_round() -> None:
    quiet = [Block(0, 0.0, array("q", [100, 101, 99]))] * 5
    disturbed = Samples((*quiet, Block(0, 0.0, array("q", [5000] * 3))))
    assert disturbed.levels == pytest.approx(Samples(tuple(quiet)).levels)


def test_a_clock_that_does_not_move_gives_no_error() -> None:
    assert contrast(samples({0: [0, 0]}).levels, samples({0: [0, 0]}).levels) is not None


def test_an_interval_of_one_process_is_a_doubt() -> None:
    """Its blocks agree with each other, and say nothing of the next process."""
    blocks = [Block(0, 0.0, array("q", [10**6 + place] * 9)) for place in range(5)]
    assert ONE_PROCESS in {doubt.code for doubt in Samples(tuple(blocks)).doubts()}
    both = Samples((*blocks, *(replace(block, runner=1) for block in blocks)))
    assert ONE_PROCESS not in {doubt.code for doubt in both.doubts()}
    only = Samples((blocks[0],))
    assert [doubt.code for doubt in only.doubts() if doubt.code in (ONE_PROCESS, NOISY)] == [NOISY]
