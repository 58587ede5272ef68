"""Runs next to a neighbor on the same physical core: the latency and the ratio are those of a core of one's own.

A neighbor comes and goes within hundredths of a second, and is there for most of the time. It slows one model more than
another, as was seen of float and int8.
"""

from __future__ import annotations

import math
from array import array
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hasten.core.block import Block
from hasten.core.comparison import Verdict, compare_levels
from hasten.core.levels import contrast
from hasten.core.samples import Samples, undisturbed_below

TURNS, RUNS_A_TURN, ROUNDS = 40, 15, 10
FLOAT, INT8 = 1.63, 1.24
"""How many times as long a run takes next to the neighbor."""


def neighbor(source: np.random.Generator, turns: int, share: float, stays: float = 0.6) -> list[bool]:
    """Whether it is there in each turn."""
    states = [bool(source.random() < share)]
    while len(states) < turns:
        states.append(states[-1] if source.random() < stays else bool(source.random() < share))
    return states


def measured(
    seed: int, ratio: float, factors: tuple[float, float] = (FLOAT, INT8), share: float = 0.85
) -> tuple[Samples, Samples]:
    """Two models that take turns; the second takes `ratio` times as long as the first on a core of its own."""
    source = np.random.default_rng(seed)
    blocks: tuple[list[Block], list[Block]] = ([], [])
    for number in range(ROUNDS):
        states = neighbor(source, 2 * TURNS, share)
        process = source.normal(0, 0.005, 2)
        for place, (alone, factor) in enumerate(zip((1.0, ratio), factors, strict=True)):
            slowed = np.repeat(states[place::2], RUNS_A_TURN)
            noise = np.exp(np.where(slowed, source.normal(0, 0.05, len(slowed)), source.normal(0, 0.01, len(slowed))))
            times = 1e6 * alone * math.exp(process[place]) * np.where(slowed, factor, 1.0) * noise
            blocks[place].append(Block(number, 0.0, array("q", times.astype(np.int64).tolist())))
    return Samples(tuple(blocks[0])), Samples(tuple(blocks[1]))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.85])
def test_the_ratio_is_that_of_free_cores_however_often_the_neighbor_is_there(share: float) -> None:
    found = []
    for seed in range(10):
        first, second = measured(seed, 1.37, share=share)
        compared = compare_levels(first.levels, second.levels)
        assert compared is not None
        assert compared.verdict in (Verdict.SLOWER, Verdict.UNDECIDED)
        found.append(math.log(compared.ratio / 1.37))
    assert abs(float(np.median(found))) < 0.01
    assert max(map(abs, found)) < 0.06


def test_rounds_in_which_both_were_slowed_a_little_do_not_count() -> None:
    """As seen of rounds without a free run: float 1.3 times as long, int8 1.15 times."""
    free = dict.fromkeys(range(6), 0.0)
    first = {**free, **dict.fromkeys(range(6, 10), math.log(1.3))}
    second = {number: math.log(1.37) + (math.log(1.15) if level else 0.0) for number, level in first.items()}
    found = contrast(first, second)
    assert found is not None
    assert found.rounds == len(free)
    assert found.estimate == pytest.approx(math.log(1.37))


def test_latencies_are_those_of_free_cores() -> None:
    samples = [samples for seed in range(10) for samples in measured(seed, 1.0)]
    assert [one.median_ms for one in samples] == pytest.approx([1.0] * len(samples), rel=0.03)
    assert all(one.min_ms <= one.median_ms for one in samples)
    assert all(one.disturbed_share > 0.5 for one in samples)


def test_verdicts_next_to_a_neighbor_are_right() -> None:
    """One of equal models is never called faster, however much less the neighbor slows it; 8 % are mostly found."""
    verdicts: dict[float, list[Verdict]] = {1.0: [], 1.08: []}
    for (ratio, of_ratio), seed in product(verdicts.items(), range(40)):
        first, second = measured(seed, ratio)
        compared = compare_levels(first.levels, second.levels)
        assert compared is not None
        of_ratio.append(compared.verdict)
    assert set(verdicts[1.0]) <= {Verdict.SAME, Verdict.UNDECIDED}
    assert Verdict.FASTER not in verdicts[1.08]
    assert verdicts[1.08].count(Verdict.SLOWER) >= 36


def test_a_machine_with_hardly_any_free_core_leaves_much_undecided() -> None:
    """In some rounds the neighbor never leaves: the ratio there is that of slowed cores."""
    pairs = [measured(seed, 1.0, share=0.95) for seed in range(60)]
    found = [compare_levels(first.levels, second.levels) for first, second in pairs]
    verdicts = [one.verdict for one in found if one is not None]
    assert {*verdicts} <= {Verdict.SAME, Verdict.UNDECIDED}
    assert verdicts.count(Verdict.UNDECIDED) >= 15


def test_times_that_merely_vary_have_no_peak() -> None:
    """On a device whose clock rises and falls, the latency is not that of its luckiest runs."""
    source = np.random.default_rng(0)
    for sigma in (0.03, 0.06, 0.1):
        times = np.exp(source.normal(0.0, sigma, (50, 300)))
        levels = [float(np.median(row[row <= undisturbed_below(row)])) for row in times]
        assert float(np.mean(levels)) > 1 - sigma


@given(arrays(np.float64, st.integers(1, 200), elements=st.floats(1e-3, 1e3)))
def test_some_run_is_undisturbed_whatever_was_seen(times: np.ndarray) -> None:
    below = undisturbed_below(times)
    assert times.min() <= below
    assert math.isfinite(below)


def test_a_single_run_that_a_jumping_clock_shortened_is_no_peak() -> None:
    times = np.concatenate([[0.1], np.full(30, 1.0), np.full(70, 1.6)])
    assert float(np.median(times[times <= undisturbed_below(times)])) == 1.0
