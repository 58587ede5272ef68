"""Intervals of shares, paired comparison and the sequential floor, held to what they claim by simulated truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy, Change, Kind, accuracy_from_data
from hasten.core.accuracy_notes import TIES
from hasten.core.errors import UsageError
from hasten.core.floor import FloorState
from hasten.core.paired import paired_difference_interval
from hasten.core.remark import remark, said
from hasten.data.metrics import Cosine, FunctionMetric, MeanAbsoluteError, TopK
from hasten.evaluate.intervals import binomial_cdf, compare_scores, interval_of_scores, mcnemar_p_value, wilson_interval
from hasten.evaluate.sequential_test import FloorTest

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


SHARE, MEAN, ERROR = TopK(1), Cosine(), MeanAbsoluteError()


# -- shares


@given(counts)
def test_intervals_of_shares_hold_the_estimate_and_stay_within_0_and_1(case: tuple[int, int]) -> None:
    interval = wilson_interval(*case)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


def test_known_intervals() -> None:
    # R: binom.confint(8, 10, methods = "wilson")
    assert (wilson_interval(8, 10).low, wilson_interval(8, 10).high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson_interval(0, 0)


@given(counts, st.floats(0.01, 0.99))
def test_binomial_cdf_rises_to_1(case: tuple[int, int], probability: float) -> None:
    hits, count = case
    assert 0 <= binomial_cdf(hits - 1, count, probability) <= binomial_cdf(hits, count, probability) + 1e-12
    assert binomial_cdf(count, count, probability) == 1


@pytest.mark.parametrize(("share", "count"), [(0.5, 100), (0.95, 200), (0.99, 100)])
def test_wilson_finds_the_truth_as_often_as_it_claims(share: float, count: int) -> None:
    hits = np.random.default_rng(1).binomial(count, share, 2000).tolist()
    inside = [wilson_interval(hit, count).low <= share <= wilson_interval(hit, count).high for hit in hits]
    assert np.mean(inside) >= 0.91


def test_mcnemar_is_the_exact_binomial_test() -> None:
    assert mcnemar_p_value(0, 0) == 1
    assert mcnemar_p_value(5, 5) == 1
    assert mcnemar_p_value(1, 9) == pytest.approx(2 * 11 / 1024)
    assert mcnemar_p_value(9, 1) == mcnemar_p_value(1, 9)
    assert 0 < mcnemar_p_value(40, 500) < 1e-90


@pytest.mark.parametrize(("won", "lost"), [(0.02, 0.02), (0.01, 0.06), (0.0, 0.01)])
def test_paired_interval_finds_the_true_difference(won: float, lost: float) -> None:
    draws = np.random.default_rng(2).multinomial(300, [won, lost, 1 - won - lost], 2000).tolist()
    intervals = [paired_difference_interval(w, n, 300) for w, n, _ in draws]
    assert np.mean([found.low <= won - lost <= found.high for found in intervals]) >= 0.93


def test_samples_that_did_not_change_still_leave_a_bound() -> None:
    # The score interval has a closed form there.
    assert paired_difference_interval(0, 0, 44).high == pytest.approx(1.959964**2 / (44 + 1.959964**2), abs=1e-6)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 200))
def test_paired_intervals_hold_the_estimate_and_mirror(won: int, lost: int, same: int) -> None:
    count = won + lost + same + 1
    found, mirrored = paired_difference_interval(won, lost, count), paired_difference_interval(lost, won, count)
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    assert (found.low, found.high) == pytest.approx((-mirrored.high, -mirrored.low))


def test_a_metric_of_ones_own_that_is_right_or_wrong_is_never_certain() -> None:
    hits = np.repeat([[1.0], [0.0]], [90, 10], axis=0)
    accuracy = FunctionMetric("mine:accuracy", lambda outputs, label: 1.0)
    found = compare_scores(accuracy, ["x"] * 100, hits, hits)
    assert (found.low, found.high) == (
        paired_difference_interval(0, 0, 100).low,
        paired_difference_interval(0, 0, 100).high,
    )

    def misses(outputs: object, label: object) -> float:
        return 1.0

    misses.higher_is_better = False  # type: ignore[attr-defined]
    worse = np.repeat([[1.0], [0.0]], [93, 7], axis=0)
    found = compare_scores(FunctionMetric("mine:misses", misses), ["x"] * 100, hits, worse)
    assert (found.difference, found.drop, found.lost, found.won) == pytest.approx((0.03, 0.03, 3, 0))
    assert found.low < 0.03 < found.high


@pytest.mark.parametrize("score", [0.0, 0.5, 1.0, -4.0])
@pytest.mark.parametrize("count", [1, 2, 10, 300])
def test_scores_of_ones_own_that_are_all_alike_are_never_certain(score: float, count: int) -> None:
    own, scores = FunctionMetric("mine:score", lambda outputs, label: 1.0), np.full((count, 1), score)
    change, value = compare_scores(own, ["x"] * count, scores, scores), interval_of_scores(scores, own)
    assert change.low < 0 < change.high
    if score in (0.0, 1.0):
        unchanged = paired_difference_interval(0, 0, count)
        assert (change.low, change.high) == (unchanged.low, unchanged.high)
        assert value == wilson_interval(round(score * count), count)
    else:
        assert value.low < score < value.high
        assert (value.high - score > 0.2 * abs(score)) is (count <= 10)
    shift = compare_scores(own, ["x"] * count, scores + 3, scores + 2.5)
    assert shift.low < -0.5 < shift.high


# -- scores of samples


def test_a_share_of_right_samples_gets_wilson_and_others_a_bootstrap() -> None:
    hits = np.repeat([[1.0], [0.0]], [80, 20], axis=0)
    found = interval_of_scores(hits, SHARE)
    assert found == wilson_interval(80, 100)
    scores = np.random.default_rng(0).normal(3, 1, (400, 1))
    found = interval_of_scores(scores, MEAN)
    assert found.low < found.estimate < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 / 20, rel=0.2)
    assert found == interval_of_scores(scores, MEAN)


def test_one_sample_says_nothing_about_the_others() -> None:
    found = interval_of_scores(np.array([[0.3]]), MEAN)
    assert (found.low, found.high) == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="no samples"):
        interval_of_scores(np.zeros((0, 1)), SHARE)


def test_bootstrap_finds_the_truth_as_often_as_it_claims() -> None:
    source = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        found = interval_of_scores(source.exponential(1, (60, 1)), MEAN)
        inside += found.low <= 1 <= found.high
    assert inside >= 87


def test_pairs_tell_what_changed() -> None:
    first = np.array([[1.0], [1.0], [0.0], [0.0], [1.0]])
    second = np.array([[1.0], [0.0], [1.0], [0.0], [0.0]])
    found = compare_scores(SHARE, list("abcde"), first, second)
    assert (found.both_right, found.lost, found.won, found.both_wrong) == (1, 2, 1, 1)
    assert (found.lost_samples, found.won_samples) == (("b", "e"), ("c",))
    assert found.difference == pytest.approx(-0.2)
    assert found.drop == pytest.approx(0.2)
    assert found.p_value == 1
    assert found.change is Change.UNDECIDED
    assert found.as_data()["change"] == "undecided"


def test_a_small_drop_is_told_from_noise_only_with_pairs() -> None:
    source = np.random.default_rng(4)
    first = (source.random((4000, 1)) < 0.8).astype(float)
    second = first.copy()
    second[np.flatnonzero(first[:, 0])[:20]] = 0  # half a per cent, all of it lost
    found = compare_scores(SHARE, [str(i) for i in range(4000)], first, second)
    assert found.change is Change.WORSE
    assert found.p_value is not None
    assert found.p_value < 0.001
    alone = [interval_of_scores(scores, SHARE) for scores in (first, second)]
    assert alone[1].high > alone[0].low


def test_lower_errors_are_better() -> None:
    source = np.random.default_rng(5)
    first = source.random((100, 1))
    found = compare_scores(ERROR, ["x"] * 100, first, first + 0.1)
    assert found.difference == pytest.approx(0.1)
    assert found.change is Change.WORSE
    assert found.drop == pytest.approx(0.1)
    assert found.p_value is None


def test_scores_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        compare_scores(SHARE, ["a"], np.ones((1, 1)), np.ones((2, 1)))


def test_accuracy_survives_json() -> None:
    accuracy = Accuracy("top-1", 0.5, -math.inf, math.inf, 1, "data", Kind.AGREEMENT, (remark(TIES, share=0.5),))
    data = json.loads(json.dumps(accuracy.as_data()))
    assert accuracy_from_data(data) == accuracy
    assert data["notes"] == ["50 % of the samples have equal highest outputs; the lowest index wins."]
    del data["remarks"]  # as earlier releases wrote it
    assert accuracy_from_data(data).notes == (said(data["notes"][0]),)


# -- the sequential test of a floor


def decide_floor(drops: object, max_drop: float, span: float = 1.0) -> tuple[FloorState, int]:
    """The decision after these drops, and how many it took."""
    test = FloorTest(max_drop, span=span)
    return test.add(np.asarray(drops)), test.samples


def drops_of(source: np.random.Generator, lost: float, won: float, count: int) -> np.ndarray:
    return source.choice([1.0, -1.0, 0.0], p=[lost, won, 1 - lost - won], size=count)


@pytest.mark.parametrize(("lost", "won"), [(0.01, 0.0), (0.06, 0.01), (0.0301, 0.02), (0.03, 0.0201), (0.3, 0.1)])
def test_wrong_decisions_are_rare_however_often_one_looks(lost: float, won: float) -> None:
    source = np.random.default_rng(6)
    wrong = FloorState.BROKEN if lost - won <= 0.01 else FloorState.KEPT
    found = [decide_floor(drops_of(source, lost, won, 400), 0.01)[0] for _ in range(100)]
    # 1 of 100 is allowed in the mean; more than 4 would be a chance of 1 in 250 if that were so.
    assert found.count(wrong) <= 4


def test_clear_cases_save_most_samples() -> None:
    source = np.random.default_rng(7)
    broken, samples = decide_floor(drops_of(source, 0.3, 0.02, 1000), 0.01)
    assert (broken, samples < 100) == (FloorState.BROKEN, True)
    kept, samples = decide_floor(np.zeros(1000), 0.02)
    assert (kept, samples < 600) == (FloorState.KEPT, True)


def test_few_samples_decide_nothing_about_others_of_their_kind() -> None:
    assert decide_floor([1, 0, 0, 0], 0.25)[0] is FloorState.UNDECIDED
    assert decide_floor([0, 0, 0, 0], 0.01)[0] is FloorState.UNDECIDED


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=60), st.floats(-0.5, 0.5))
def test_pieces_decide_as_the_whole_does(drops: list[float], max_drop: float) -> None:
    test = FloorTest(max_drop)
    for drop in drops:
        found = test.add([drop])
    assert (found, test.samples) == decide_floor(drops, max_drop)


def test_span_scales_the_drops() -> None:
    drops = np.full(500, 1.5)
    assert decide_floor(drops, 0.1, span=2)[0] is FloorState.BROKEN
    with pytest.raises(ValueError, match="outside"):
        decide_floor(drops, 0.1)


def test_a_floor_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError):
        FloorTest(math.nan)
    assert decide_floor([1.0], 2.0)[0] is FloorState.KEPT
