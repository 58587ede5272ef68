"""Intervals that keep their promise: simulated samples whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.statistics import (
    Interval,
    grouped_interval,
    mean_interval,
    outlier_share,
    relative_spread,
    student_quantile,
    trend,
)

LATENCIES = st.floats(1e-4, 1e5)


def simulated_groups(
    source: np.random.Generator, groups: int, process_noise: float, disturbance: str = ""
) -> list[list[float]]:
    """Block medians of processes whose true median is 1."""
    found = []
    for _ in range(groups):
        blocks = int(source.integers(6, 20))
        values = np.exp(source.normal(0, process_noise) + source.normal(0, 0.01, blocks))
        if disturbance == "outliers":
            values = np.where(source.random(blocks) < 0.05, values * 10, values)
        if disturbance == "drift":
            values = values * (1 + np.linspace(-0.01, 0.01, blocks))
        found.append(values.tolist())
    return found


@pytest.mark.parametrize("disturbance", ["", "outliers", "drift"])
@pytest.mark.parametrize("process_noise", [0.0, 0.01, 0.03])
def test_interval_holds_the_truth_as_often_as_it_says(process_noise: float, disturbance: str) -> None:
    source = np.random.default_rng(7)
    trials = 240
    found = [
        grouped_interval(simulated_groups(source, 3 + trial % 6, process_noise, disturbance)) for trial in range(trials)
    ]
    inside = sum(interval.low <= 1 <= interval.high for interval in found) / trials
    assert 0.88 <= inside <= 1.0


def test_interval_holds_the_truth_even_with_three_processes_that_differ() -> None:
    source = np.random.default_rng(3)
    found = [grouped_interval(simulated_groups(source, 3, 0.03)) for _ in range(400)]
    assert sum(interval.low <= 1 <= interval.high for interval in found) / 400 >= 0.88


def test_outliers_do_not_move_the_estimate() -> None:
    source = np.random.default_rng(5)
    groups = simulated_groups(source, 6, 0.0)
    disturbed = [[value * 10 if position == 2 else value for position, value in enumerate(group)] for group in groups]
    assert grouped_interval(disturbed).estimate == pytest.approx(grouped_interval(groups).estimate, rel=0.005)
    assert grouped_interval(disturbed).high < 1.05


def test_more_processes_make_the_interval_narrower() -> None:
    source = np.random.default_rng(11)
    widths = [
        np.mean([grouped_interval(simulated_groups(source, n, 0.02)).relative_half_width for _ in range(30)])
        for n in (3, 6, 12)
    ]
    assert widths[0] > widths[1] > widths[2]


@settings(deadline=None)
@given(st.lists(st.lists(LATENCIES, min_size=1, max_size=12), min_size=1, max_size=6))
def test_estimate_lies_inside_its_interval(groups: list[list[float]]) -> None:
    interval = grouped_interval(groups)
    assert interval.low <= interval.estimate <= interval.high
    assert interval.estimate == pytest.approx(float(np.median(np.concatenate(groups))))


def test_a_process_with_most_of_the_blocks_does_not_push_the_estimate_out_of_its_interval() -> None:
    interval = grouped_interval([[1.0] * 100, *([2.0],) * 7])
    assert interval.low <= interval.estimate == 1.0 <= interval.high


@settings(deadline=None)
@given(
    st.lists(st.lists(LATENCIES, min_size=1, max_size=8), min_size=2, max_size=5), st.sampled_from([1e-3, 1e3, 60.0])
)
def test_unit_does_not_matter(groups: list[list[float]], factor: float) -> None:
    one, other = grouped_interval(groups), grouped_interval([[value * factor for value in group] for group in groups])
    assert other.low == pytest.approx(one.low * factor, rel=1e-6, abs=1e-9 * factor)
    assert other.high == pytest.approx(one.high * factor, rel=1e-6)


def test_same_samples_give_the_same_interval() -> None:
    groups = simulated_groups(np.random.default_rng(1), 4, 0.01)
    assert grouped_interval(groups) == grouped_interval(groups)


def test_one_value_tells_nothing_about_its_spread() -> None:
    assert grouped_interval([[2.0]]) == Interval(2.0, -math.inf, math.inf)
    assert mean_interval([2.0]) == Interval(2.0, -math.inf, math.inf)


def test_one_process_is_judged_by_its_blocks() -> None:
    interval = grouped_interval([[1.0, 1.1, 0.9, 1.05, 0.95]])
    assert 0.5 < interval.low < 1.0 < interval.high < 1.5


def test_identical_values_have_no_width() -> None:
    assert grouped_interval([[2.0, 2.0], [2.0, 2.0]]) == Interval(2.0, 2.0, 2.0)
    assert mean_interval([3.0, 3.0, 3.0]) == Interval(3.0, 3.0, 3.0)


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        grouped_interval([[], []])


def test_empty_groups_are_passed_over() -> None:
    assert grouped_interval([[], [1.0, 1.0], [1.0]]).estimate == 1.0


@pytest.mark.parametrize(("confidence", "rounds"), [(0.95, 3), (0.95, 8), (0.99, 5), (0.99, 30)])
def test_mean_interval_holds_the_truth(confidence: float, rounds: int) -> None:
    source = np.random.default_rng(2)
    trials = 4000
    found = [mean_interval(row, confidence) for row in source.normal(5.0, 1.0, (trials, rounds)).tolist()]
    inside = sum(interval.low <= 5 <= interval.high for interval in found) / trials
    assert inside == pytest.approx(confidence, abs=0.01)


@pytest.mark.parametrize(
    ("degrees", "confidence", "expected"),
    [
        (1, 0.95, 12.706),
        (4, 0.95, 2.776),
        (9, 0.99, 3.250),
        (16, 0.95, 2.120),
        (16, 0.99, 2.921),
        (30, 0.95, 2.042),
        (30, 0.99, 2.750),
        (100, 0.99, 2.626),
        (10**6, 0.95, 1.960),
    ],
)
def test_student_quantiles_are_those_of_the_tables(degrees: int, confidence: float, expected: float) -> None:
    assert student_quantile(degrees, confidence) == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_student_quantiles_fall_with_more_values(confidence: float) -> None:
    quantiles = [student_quantile(degrees, confidence) for degrees in range(1, 60)]
    assert quantiles == sorted(quantiles, reverse=True)


@settings(deadline=None)
@given(st.lists(LATENCIES, min_size=1, max_size=50))
def test_shares_and_spreads_are_finite(values: list[float]) -> None:
    assert 0.0 <= outlier_share(np.asarray(values)) <= 0.5
    assert relative_spread(values) >= 0.0
    assert math.isfinite(trend(values))


def test_trend_compares_the_last_third_with_the_first() -> None:
    assert trend([1.0, 1.0, 1.1, 1.1, 1.2, 1.2]) == pytest.approx(0.2)
    assert trend([1.0, 5.0]) == 0.0
    assert trend([0.0, 0.0, 0.0]) == 0.0
