"""Verdicts against a floor, held to what they claim by simulated models whose true drop is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import PairedAccuracy
from hasten.core.codec import from_data, to_data
from hasten.core.floor import Floor, FloorState, FloorVerdict, samples_to_decide
from hasten.core.paired import paired_difference_interval
from hasten.core.statistics import Interval
from hasten.evaluate.sequential_test import FloorTest

FLOOR = Floor(0.01, metric="top-1", original=0.9, allowed=0.01)
KEPT, BROKEN, UNDECIDED = FloorState.KEPT, FloorState.BROKEN, FloorState.UNDECIDED


def change_of(won: int, lost: int, samples: int) -> PairedAccuracy:
    found = paired_difference_interval(won, lost, samples)
    return PairedAccuracy("top-1", samples, found.estimate, found.low, found.high, won=won, lost=lost)


def of(difference: float, low: float, high: float, samples: int = 156) -> FloorVerdict:
    return FLOOR.judge(PairedAccuracy("top-1", samples, difference, low, high))


def test_an_interval_that_contains_the_floor_decides_nothing() -> None:
    assert of(-0.006, -0.028, 0.015).state is UNDECIDED
    assert of(-0.013, -0.048, 0.022).state is UNDECIDED
    assert of(-0.006, -0.009, 0.015).state is KEPT
    assert of(-0.03, -0.05, -0.011).state is BROKEN
    assert Floor(0.01).judge(PairedAccuracy("mae", 9, 0.0, -1, 1)).state is FloorState.UNKNOWN


def test_an_error_that_grows_is_a_drop() -> None:
    floor = Floor(0.01, "relative", "value", "mae", 2.0, 2.0, 0.02)
    worse = floor.judge(PairedAccuracy("mae", 50, 0.1, 0.05, 0.15, higher_is_better=False))
    assert (worse.state, worse.drop, worse.ci95) == (BROKEN, 0.1, (0.05, 0.15))


def test_a_verdict_says_what_its_samples_could_show_and_how_many_would_decide() -> None:
    found = of(-0.006, -0.028, 0.015)
    assert found.smallest_detectable == pytest.approx(0.021)
    assert found.smallest_beyond == pytest.approx(0.01 + found.smallest_detectable)
    assert found.samples_needed == 4800  # the interval must shrink to 4 of 22 thousandths
    assert of(-0.006, -0.009, 0.015).samples_needed is None
    assert FLOOR.judge(change_of(0, 0, 60)).samples_needed == 390  # of samples of which none changed
    assert from_data(FloorVerdict, to_data(found)) == found


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0.01, 0.01), (0.02, 0.025), (0.01, 0.05), (0.005, 0.0)])
def test_so_many_samples_as_are_said_to_decide_do(won: float, lost: float) -> None:
    few = FLOOR.judge(change_of(round(won * 200), round(lost * 200), 200))
    assert few.state is UNDECIDED or few.samples_needed is None
    enough = round(1.05 * (few.samples_needed or 200))
    assert FLOOR.judge(change_of(round(won * enough), round(lost * enough), enough)).state is not UNDECIDED


def test_where_the_estimate_is_the_limit_no_number_decides() -> None:
    assert samples_to_decide(Interval(0.01, 0.0, 0.02), 0.01, 100) is None
    assert samples_to_decide(Interval(0.01, 0.0, float("inf")), 0.02, 100) is None


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 3000), st.floats(0, 0.2))
def test_verdict_interval_and_smallest_drop_agree(won: int, lost: int, same: int, allowed: float) -> None:
    floor = Floor(allowed, metric="top-1", allowed=allowed)
    found = floor.judge(change_of(won, lost, won + lost + same + 1))
    low, high = found.ci95
    assert low <= found.drop <= high
    assert (found.drop > found.smallest_detectable) == (low > 0)
    if found.state is UNDECIDED:
        assert found.drop <= found.smallest_beyond + 1e-9
    expected = KEPT if floor.keeps(high) else UNDECIDED if floor.keeps(low) else BROKEN
    assert found.state is expected


def test_the_rule_for_choosing() -> None:
    states = ((UNDECIDED, 0.006), (UNDECIDED, 0.013), (KEPT, 0.0), (BROKEN, 1.0))
    near, far, kept, broken = (FloorVerdict(state, drop, (-1, 1), 100, 1.0) for state, drop in states)
    default = [one.may_be_chosen(FLOOR, strict=False) for one in (near, far, kept, broken)]
    strict = [one.may_be_chosen(FLOOR, strict=True) for one in (near, far, kept, broken)]
    assert (default, strict) == ([True, False, True, False], [False, False, True, False])
    assert [one.gives_way(strict=False) for one in (near, far, kept, broken)] == [False, False, False, True]
    assert [one.gives_way(strict=True) for one in (near, far, kept, broken)] == [True, True, False, True]


# -- simulated truth


def verdicts(drop: float, won: float, samples: int, runs: int, *, early: bool) -> Counter[FloorState]:
    """Verdicts about a model whose true drop is known; with `early`, as an evaluation ends them, in batches of 25."""
    source = np.random.default_rng(round(1e6 * drop + 1e4 * won + samples))
    found: Counter[FloorState] = Counter()
    for _ in range(runs):
        drops = source.choice([1, -1, 0], p=[drop + won, won, 1 - drop - 2 * won], size=samples)
        found[judged(drops, early=early)] += 1
    return found


def judged(drops: np.ndarray, *, early: bool) -> FloorState:
    test = FloorTest(0.01)
    for end in range(25, len(drops), 25) if early else ():
        state = test.add(drops[end - 25 : end])
        if state is not UNDECIDED and verdict_of(drops[:end]) is state:
            return state
    return verdict_of(drops)


def verdict_of(drops: np.ndarray) -> FloorState:
    return FLOOR.judge(change_of(int((drops < 0).sum()), int((drops > 0).sum()), len(drops))).state


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("samples", "runs"), [(50, 400), (400, 300), (1500, 150)])
@pytest.mark.parametrize("won", [0.0, 0.005, 0.03])
def test_false_verdicts_are_rare(samples: int, runs: int, won: float, early: bool) -> None:
    # At the floor itself both verdicts are wrong, and most likely so. Of 300 runs at 5 %, more than 27 are 1 in 400.
    at_floor = verdicts(0.01, won, samples, runs, early=early)
    most = 0.05 * runs + 2.8 * (0.05 * 0.95 * runs) ** 0.5
    assert at_floor[KEPT] <= most
    assert at_floor[BROKEN] <= most


def test_data_that_is_large_enough_decides() -> None:
    assert verdicts(0.0, 0.01, 5000, 40, early=True)[KEPT] == 40
    assert verdicts(0.05, 0.01, 1000, 40, early=True)[BROKEN] >= 38
