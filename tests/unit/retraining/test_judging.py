"""Figures of a head against known truth: rivals, confusions, worst samples, a learning curve, counts of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hasten.core.accuracy import Change
from hasten.retraining.judging import (
    Part,
    balanced_counts,
    class_counts,
    class_rows,
    confusions,
    head_predictions,
    learning_curve,
    nearest_neighbors,
    rivals,
    scores_of,
    worst_samples,
)
from hasten.retraining.softmax import Head, Samples, fit_by_cross_validation, one_hot, probabilities


def part_of(count: int, *, apart: float = 2.0, classes: int = 3, seed: int = 0, center_seed: int = 9) -> Part:
    centers = apart * np.random.default_rng(center_seed).standard_normal((classes, 8))
    numbers = np.arange(count) % classes
    features = centers[numbers] + np.random.default_rng(seed).standard_normal((count, 8))
    names = tuple(f"s{seed}-{at}" for at in range(count))
    return Part(features.astype(np.float32), one_hot(numbers, classes), names)


def fitted(train: Part) -> tuple[Head, Any]:
    samples = Samples(train.features, train.targets, np.ones(len(train.names)), train.multi_label)
    return fit_by_cross_validation(samples, np.arange(len(train.names), dtype=np.int64) % 5)


def test_a_head_of_clear_classes_beats_the_majority_and_is_right_everywhere() -> None:
    train, test = part_of(150, apart=3.0), part_of(90, apart=3.0, seed=1)
    head, known = fitted(train)
    found = scores_of(head, train, test, head_predictions(head, test.features), known)
    assert found.train is not None
    assert found.validation is not None
    assert min(found.train, found.validation, found.test) > 0.95
    assert found.interval[0] < found.test <= found.interval[1]
    assert found.test_right == round(found.test * found.test_samples)
    majority, near = rivals(train, test, head_predictions(head, test.features))
    assert majority.test == pytest.approx(1 / 3)
    assert majority.change.change is Change.BETTER
    assert near.test > 0.9


def test_what_cannot_be_learned_is_not_called_better() -> None:
    train, test = part_of(150, apart=0.0), part_of(90, apart=0.0, seed=1)
    head, _ = fitted(train)
    assert rivals(train, test, head_predictions(head, test.features))[0].change.change is not Change.BETTER


def test_neighbors_are_those_of_a_plain_loop() -> None:
    train, test = part_of(40), part_of(30, seed=1)
    found = nearest_neighbors(train, test.features).argmax(axis=1)
    for row, feature in enumerate(test.features):
        alike = [float(feature @ other / (np.linalg.norm(feature) * np.linalg.norm(other))) for other in train.features]
        nearest = np.argsort(alike)[-5:]
        votes = np.bincount(train.targets[nearest].argmax(axis=1), minlength=3)
        assert votes[found[row]] == votes.max()


def test_counts_add_up_and_confusions_are_where_they_were_planted() -> None:
    test = part_of(90, apart=20.0)
    head, _ = fitted(test)
    numbers = test.targets.argmax(axis=1)
    planted = np.flatnonzero(numbers == 0)[:7]
    numbers[planted] = 2  # labels that are wrong
    wrong = Part(test.features, one_hot(numbers, 3), test.names)
    predicted = head_predictions(head, wrong.features)
    rows = class_rows(test, wrong, predicted, ("a", "b", "c"))
    assert sum(row.test for row in rows) == sum(row.predicted for row in rows) == 90
    assert sum(row.right for row in rows) == 83
    (one,) = confusions(wrong, predicted, ("a", "b", "c"))
    assert (one.actual, one.predicted, one.samples) == ("c", "a", 7)


def test_a_fit_that_never_saw_a_class_judges_no_sample_of_it() -> None:
    """With one sample of a class to learn from, cross-validation leaves out all of it."""
    train, test = part_of(3), part_of(30, seed=1)
    head, known = fitted(train)
    predicted = head_predictions(head, test.features)
    assert scores_of(head, train, test, predicted, known).validation is None
    shares = probabilities(head.logits(test.features), multi_label=False)
    assert {one.part for one in worst_samples(train, test, shares, known, ("a", "b", "c"))} == {"test"}


def test_wrong_labels_are_among_the_worst_in_either_part() -> None:
    train, test = part_of(150, apart=4.0), part_of(60, apart=4.0, seed=1)
    numbers = [part.targets.argmax(axis=1) for part in (train, test)]
    numbers[0][10], numbers[1][5] = (numbers[0][10] + 1) % 3, (numbers[1][5] + 1) % 3
    train, test = (
        Part(part.features, one_hot(own, 3), part.names) for part, own in zip((train, test), numbers, strict=True)
    )
    head, known = fitted(train)
    shares = probabilities(head.logits(test.features), multi_label=False)
    worst = worst_samples(train, test, shares, known, ("a", "b", "c"))
    assert len(worst) == 10
    assert {("s0-10", "train"), ("s1-5", "test")} <= {(one.name, one.part) for one in worst}
    assert [one.probability for one in worst] == sorted(one.probability for one in worst)
    assert all(one.actual != one.predicted for one in worst if one.probability < 0.1)


def test_the_curve_rises_where_more_samples_help_and_ends_at_the_head() -> None:
    train, test = part_of(240, apart=0.7), part_of(600, apart=0.7, seed=1)
    head, known = fitted(train)
    predicted = head_predictions(head, test.features)
    curve, doubling = learning_curve(train, test, predicted, known.chosen, balanced=False, seed=0)
    assert [point.samples for point in curve] == [30, 60, 120, 240]
    assert curve[-1].test == scores_of(head, train, test, predicted, known).test
    assert curve[-1].test > curve[0].test
    assert doubling is not None
    assert doubling.difference == pytest.approx(curve[-1].test - curve[-2].test)


def test_too_few_samples_have_no_curve() -> None:
    train, test = part_of(6), part_of(6, seed=1)
    head, known = fitted(train)
    predicted = head_predictions(head, test.features)
    curve, doubling = learning_curve(train, test, predicted, known.chosen, balanced=False, seed=0)
    assert [point.samples for point in curve] == [6]
    assert doubling is None


def test_uneven_classes_count_alike() -> None:
    targets = one_hot(np.array([0] * 90 + [1] * 10), 2)
    counts, balanced = class_counts(targets)
    assert balanced
    assert counts[:90].sum() == pytest.approx(counts[90:].sum())
    even, is_balanced = class_counts(one_hot(np.array([0] * 12 + [1] * 10), 2))
    assert not is_balanced
    assert set(even) == {1.0}
    rare = balanced_counts(np.array([[1, 1], [1, 0], [1, 0], [0, 0]], np.float32))
    assert rare[0] > rare[1]


def test_several_classes_must_all_be_right() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((300, 4)).astype(np.float32)
    targets = (features[:, :2] > 0).astype(np.float32)
    train, test = (
        Part(features[rows], targets[rows], tuple(map(str, range(150))), True)
        for rows in (slice(0, 150), slice(150, 300))
    )
    head, known = fitted(train)
    found = scores_of(head, train, test, head_predictions(head, test.features), known)
    assert found.metric == "exact match"
    assert found.test > 0.9
    assert found.mean_recall is None
    assert confusions(test, head_predictions(head, test.features), ("a", "b")) == ()
    shares = probabilities(head.logits(test.features), multi_label=True)
    assert len(worst_samples(train, test, shares, known, ("a", "b"))) == 10
