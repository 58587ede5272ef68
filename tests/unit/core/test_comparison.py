"""Verdicts, tested as they are reached: looked for after each round, from the first possible one on."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.codec import from_data, to_data
from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_levels, compare_rounds

MOST_ROUNDS = 10
LOG_RATIOS = st.lists(st.floats(-3, 3), min_size=1, max_size=12)


def sequential_verdict(log_ratios: list[float]) -> Verdict:
    """What the procedure answers: it stops at the first round at which a verdict can be given."""
    for rounds in range(1, len(log_ratios) + 1):
        verdict = compare_rounds(log_ratios[:rounds]).verdict
        if verdict is not Verdict.UNDECIDED:
            return verdict
    return Verdict.UNDECIDED


def process_effects(
    source: np.random.Generator, noise: float, shape: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Log latencies of one candidate in fresh processes."""
    if shape == "two layouts":  # memory lies well, or it does not
        return noise * 2 * source.integers(0, 2, MOST_ROUNDS) + source.normal(0, 0.001, MOST_ROUNDS)
    if shape == "rare":
        disturbed = source.random(MOST_ROUNDS) < 0.1
        return source.normal(0, noise, MOST_ROUNDS) + disturbed * source.exponential(0.3, MOST_ROUNDS)
    return source.normal(0, noise, MOST_ROUNDS)


def verdicts(ratio: float, noise: float, trials: int, shape: str = "usual", seed: int = 0) -> Counter[Verdict]:
    source = np.random.default_rng(seed)
    found: Counter[Verdict] = Counter()
    for _ in range(trials):
        first, second = (process_effects(source, noise, shape) for _ in range(2))
        found[sequential_verdict((second - first + math.log(ratio)).tolist())] += 1
    return found


@pytest.mark.parametrize("shape", ["usual", "two layouts", "rare"])
@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_equal_candidates_are_seldom_told_apart(noise: float, shape: str) -> None:
    found = verdicts(1.0, noise, 800, shape)
    assert (found[Verdict.FASTER] + found[Verdict.SLOWER]) / 800 <= 0.05


@pytest.mark.parametrize("ratio", [1.05, 1 / 1.05])
def test_five_percent_are_found(ratio: float) -> None:
    right = Verdict.SLOWER if ratio > 1 else Verdict.FASTER
    assert verdicts(ratio, 0.01, 500)[right] / 500 >= 0.9


def test_quiet_equal_candidates_are_called_the_same() -> None:
    assert verdicts(1.0, 0.003, 300)[Verdict.SAME] / 300 >= 0.95


def test_verdict_on_a_difference_is_never_the_wrong_way_round() -> None:
    assert verdicts(1.03, 0.01, 500)[Verdict.FASTER] == 0


def test_no_verdict_from_few_rounds() -> None:
    assert compare_rounds([0.05] * (FEWEST_ROUNDS - 1)).verdict is Verdict.UNDECIDED
    assert compare_rounds([0.5, 0.5]).verdict is Verdict.UNDECIDED


def test_difference_that_nobody_could_overlook_needs_three_rounds() -> None:
    assert compare_rounds([0.50, 0.52, 0.51]).verdict is Verdict.SLOWER
    assert compare_rounds([-0.50, -0.52, -0.51]).verdict is Verdict.FASTER
    assert compare_rounds([0.1, 0.9, 0.5]).verdict is Verdict.UNDECIDED
    assert compare_rounds([0.5] * FEWEST_ROUNDS).verdict is Verdict.SLOWER


def test_wide_interval_is_never_called_the_same() -> None:
    assert compare_rounds([0.10, -0.10, 0.11, -0.11, 0.0]).verdict is Verdict.UNDECIDED


@settings(deadline=None)
@given(LOG_RATIOS)
def test_same_only_if_the_interval_is_narrow(log_ratios: list[float]) -> None:
    found = compare_rounds(log_ratios)
    if found.verdict is Verdict.SAME:
        assert found.ci95[0] > math.exp(-0.0201)
        assert found.ci95[1] < math.exp(0.0201)


@settings(deadline=None)
@given(LOG_RATIOS)
def test_swapping_the_candidates_swaps_the_verdict(log_ratios: list[float]) -> None:
    one, other = compare_rounds(log_ratios), compare_rounds([-value for value in log_ratios])
    swapped = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    assert other.verdict is swapped.get(one.verdict, one.verdict)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.smallest_detectable == pytest.approx(one.smallest_detectable)


@settings(deadline=None)
@given(LOG_RATIOS)
def test_ratio_lies_in_its_interval_and_json_holds_it(log_ratios: list[float]) -> None:
    found = compare_rounds(log_ratios)
    assert found.ci95[0] <= found.ratio * (1 + 1e-12)
    assert found.ratio <= found.ci95[1] * (1 + 1e-12)
    data = json.loads(json.dumps(to_data(found), allow_nan=False))
    assert data["verdict"] == found.verdict.value
    assert data["rounds"] == len(log_ratios)
    assert from_data(Comparison, data) == found


def test_one_round_cannot_say_how_sharp_it_is() -> None:
    found = compare_rounds([0.1])
    assert found.smallest_detectable == math.inf
    assert to_data(found)["smallest_detectable"] is None
    assert to_data(found)["ci95"] == [0.0, None]


@settings(deadline=None)
@given(LOG_RATIOS)
def test_what_a_verdict_names_is_larger_than_the_smallest_detectable(log_ratios: list[float]) -> None:
    found = compare_rounds(log_ratios)
    difference = abs(found.ratio - 1)
    if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
        assert difference > found.smallest_detectable
        assert not found.ci95[0] <= 1 <= found.ci95[1]
    else:
        assert min(difference, abs(1 / found.ratio - 1)) <= found.smallest_detectable


@pytest.mark.parametrize("log_ratios", [[-0.080, -0.079, -0.081, -0.080], [-0.3, -0.3]])
def test_too_few_rounds_for_a_verdict_detect_nothing(log_ratios: list[float]) -> None:
    found = compare_rounds(log_ratios)
    assert found.verdict is Verdict.UNDECIDED
    assert found.lacks_rounds
    assert to_data(found)["smallest_detectable"] is None
    assert math.isfinite(found.ci95[1]), "what is known is told"


def test_quiet_comparison_does_not_claim_to_find_what_the_margin_hides() -> None:
    assert compare_rounds([0.0001, -0.0001, 0.0, 0.0001, 0.0]).smallest_detectable == pytest.approx(0.01, rel=0.05)


def test_comparison_is_a_plain_record() -> None:
    found = compare_rounds([0.0] * 5)
    assert isinstance(found, Comparison)
    assert found.verdict is Verdict.SAME


def test_what_a_slower_core_makes_of_equal_candidates_is_no_difference() -> None:
    """As seen on a quiet machine: pairs of one model with itself, 1.2 % apart on average."""
    assert compare_rounds([0.0085, 0.0145, 0.0105, 0.013, 0.0115]).verdict is Verdict.SAME
    assert compare_rounds([0.03, 0.031, 0.029, 0.03, 0.031]).verdict is Verdict.SLOWER


def test_the_few_quick_rounds_of_a_plan_that_is_mostly_slow_give_no_verdict() -> None:
    """Most processes of the first took twice as long as the second; in its quick ones it was 5 % faster."""
    first = {number: math.log(1.0 if number < 5 else 2.0) for number in range(12)}
    second = dict.fromkeys(range(12), math.log(1.05))
    for one, other in ((first, second), (second, first)):
        found = compare_levels(one, other)
        assert found is not None
        assert found.verdict is Verdict.UNDECIDED
        assert found.is_withheld
        assert math.isinf(found.smallest_detectable)


def test_rounds_that_slow_both_down_leave_the_verdict_of_the_few_quiet_ones() -> None:
    slow = {number: math.log(1.0 if number < 5 else 2.0) for number in range(12)}
    quick = {number: level - 0.1 for number, level in slow.items()}
    found = compare_levels(slow, quick)
    assert found is not None
    assert found.verdict is Verdict.FASTER


def test_equal_plans_stay_the_same_where_most_rounds_slow_both_down() -> None:
    """The sign of a mean next to 0 is chance; a mean that is clearly apart is not."""
    slow = {number: math.log(1.0 if number < 5 else 2.0) for number in range(12)}
    alike = {number: level + (0.0003 if number < 5 else -0.0006) for number, level in slow.items()}
    apart = {number: level + (0.001 if number < 5 else 0.3) for number, level in slow.items()}
    verdicts = [found.verdict for other in (alike, apart) if (found := compare_levels(slow, other)) is not None]
    assert verdicts == [Verdict.SAME, Verdict.UNDECIDED]
