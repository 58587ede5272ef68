"""The fit of a head: the optimum of its loss, found in a second way too; the right decay; blind to rotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.retraining.softmax import Head, Samples, fit_by_cross_validation, fit_head, one_hot, probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def clouds(count: int, width: int, classes: int, *, apart: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Normal clouds around a center for each class: features and numbers of classes."""
    random = np.random.default_rng(seed)
    centers = apart * random.standard_normal((classes, width))
    numbers = np.arange(count) % classes
    return (centers[numbers] + random.standard_normal((count, width))).astype(np.float32), numbers


def samples(count: int, width: int, classes: int, **options: Any) -> Samples:
    features, numbers = clouds(count, width, classes, **options)
    return Samples(features, one_hot(numbers, classes), np.ones(count))


def loss(head: Head, given: Samples, decay: float) -> float:
    """Written out: the mean loss, and the penalty on weights of features whose squared lengths are 1 on average."""
    logits = head.logits(given.features)
    if given.multi_label:
        each = (np.logaddexp(0, logits) - given.targets * logits).sum(axis=1)
    else:
        each = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)) + logits.max(axis=1)
        each = each - (given.targets * logits).sum(axis=1)
    centered = given.features - given.features.mean(axis=0)
    length = float((centered.astype(np.float64) ** 2).sum(axis=1).mean())
    shares = given.counts / given.counts.sum()
    return float((shares * each).sum()) + decay / 2 * length * float((head.weights**2).sum())


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("decay", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize(("count", "width"), [(200, 6), (40, 60)])
def test_no_small_change_makes_the_loss_smaller(count: int, width: int, decay: float, multi_label: bool) -> None:
    given = samples(count, width, 3)
    if multi_label:
        given = Samples(given.features, (given.features[:, :3] > 0).astype(np.float32), given.counts, True)
    head = fit_head(given, decay)
    least, random = loss(head, given, decay), np.random.default_rng(1)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            turned = Head(
                head.weights + size * random.standard_normal(head.weights.shape) * np.abs(head.weights).max(),
                head.bias + size * random.standard_normal(head.bias.shape),
                multi_label,
            )
            assert loss(turned, given, decay) > least - 1e-5


def test_it_finds_what_newtons_method_finds() -> None:
    """Two classes and one feature: small enough for the exact curvature."""
    given = samples(300, 1, 2, apart=0.7)
    decay = 1e-3
    x, y = given.features[:, 0].astype(np.float64), given.targets[:, 1].astype(np.float64)
    length = float(((x - x.mean()) ** 2).mean())
    # Two classes share what the difference of their weights tells: each has half of it, and half of its penalty.
    point = np.zeros(2)
    for _ in range(50):
        share = 1 / (1 + np.exp(-(point[0] * x + point[1])))
        gradient = np.array([((share - y) * x).mean() + decay / 2 * length * point[0], (share - y).mean()])
        curved = share * (1 - share)
        mixed = (curved * x).mean()
        hessian = np.array([[(curved * x * x).mean() + decay / 2 * length, mixed], [mixed, curved.mean()]])
        point = point - np.linalg.solve(hessian, gradient)
    head = fit_head(given, decay)
    assert head.weights[1, 0] - head.weights[0, 0] == pytest.approx(point[0], abs=2e-3)
    assert head.bias[1] - head.bias[0] == pytest.approx(point[1], abs=2e-3)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_rotated_shifted_and_scaled_features_give_the_same_predictions(seed: int, shift: float, scale: float) -> None:
    given = samples(60, 5, 3, seed=seed)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((5, 5)))
    moved = ((given.features @ turn + shift) * scale).astype(np.float32)
    plain = fit_head(given, 1e-2)
    other = fit_head(Samples(moved, given.targets, given.counts), 1e-2)
    shares = probabilities(plain.logits(given.features), multi_label=False)
    assert probabilities(other.logits(moved), multi_label=False) == pytest.approx(shares, abs=0.01)


def test_a_sample_that_counts_twice_is_two_samples() -> None:
    given = samples(30, 4, 3)
    twice = np.concatenate([np.arange(30), np.arange(10)])
    counts = np.ones(30)
    counts[:10] = 2
    by_count = fit_head(Samples(given.features, given.targets, counts), 1e-2)
    by_copy = fit_head(Samples(given.features[twice], given.targets[twice], np.ones(40)), 1e-2)
    features = given.features
    one, other = (probabilities(head.logits(features), multi_label=False) for head in (by_count, by_copy))
    assert one == pytest.approx(other, abs=0.05)  # their scales differ a little, as copies move the mean


def folds(count: int) -> NDArray[np.int64]:
    return np.arange(count, dtype=np.int64) % 5


def test_noise_asks_for_strong_decay_and_clear_classes_for_weak() -> None:
    random = np.random.default_rng(0)
    noise = Samples(
        random.standard_normal((200, 50)).astype(np.float32), one_hot(random.integers(0, 3, 200), 3), np.ones(200)
    )
    clear = samples(200, 50, 3, apart=3.0)
    _, of_noise = fit_by_cross_validation(noise, folds(200))
    _, of_clear = fit_by_cross_validation(clear, folds(200))
    assert of_noise.chosen > 10 * of_clear.chosen
    assert of_noise.losses[0] == pytest.approx(np.log(3), abs=0.1)
    assert min(of_clear.losses) < 0.1


def test_samples_left_out_are_judged_by_fits_that_never_saw_them() -> None:
    """With random classes, a fit that saw them would be right far too often."""
    random = np.random.default_rng(2)
    numbers = random.integers(0, 2, 300)
    given = Samples(random.standard_normal((300, 200)).astype(np.float32), one_hot(numbers, 2), np.ones(300))
    _, known = fit_by_cross_validation(given, folds(300))
    assert 0.35 < float((known.logits.argmax(axis=1) == numbers).mean()) < 0.65
    seen = fit_head(given, 1e-5)
    assert float((seen.logits(given.features).argmax(axis=1) == numbers).mean()) > 0.95


@settings(max_examples=10)
@given(count=st.integers(12, 60), width=st.integers(1, 40), classes=st.integers(2, 4), seed=st.integers(0, 99))
def test_clear_classes_are_told_apart_whatever_the_shape(count: int, width: int, classes: int, seed: int) -> None:
    given = samples(count, width, classes, apart=30.0, seed=seed)
    head, _ = fit_by_cross_validation(given, folds(count))
    assert np.isfinite(head.weights).all()
    if width >= classes:
        assert float((head.logits(given.features).argmax(axis=1) == given.targets.argmax(axis=1)).mean()) > 0.9


def test_features_that_never_change_teach_how_common_classes_are() -> None:
    targets = one_hot(np.array([0] * 30 + [1] * 10), 2)
    head = fit_head(Samples(np.ones((40, 3), np.float32), targets, np.ones(40)), 1e-2)
    shares = probabilities(head.logits(np.ones((1, 3), np.float32)), multi_label=False)
    assert shares[0] == pytest.approx([0.75, 0.25], abs=0.01)


def test_a_head_that_is_added_to_right_logits_changes_little() -> None:
    """And one that is added to wrong logits learns the difference."""
    given = samples(400, 8, 3, apart=0.8)
    head = fit_head(given, 1e-3)
    logits = head.logits(given.features)
    added, _ = fit_by_cross_validation(Samples(given.features, given.targets, given.counts, False, logits), folds(400))
    assert np.abs(added.logits(given.features)).mean() < 0.25 * np.abs(logits).mean()
    wrong = logits + np.array([4.0, 0.0, 0.0])
    mended, known = fit_by_cross_validation(
        Samples(given.features, given.targets, given.counts, False, wrong), folds(400)
    )
    right = given.targets.argmax(axis=1)
    assert (wrong.argmax(axis=1) == right).mean() < 0.6
    assert (known.logits.argmax(axis=1) == right).mean() > 0.8
    assert ((wrong + mended.logits(given.features)).argmax(axis=1) == right).mean() > 0.8
