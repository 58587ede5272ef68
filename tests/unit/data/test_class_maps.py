"""Segmentation outputs of every layout: the classes they tell are those of a plain reading by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hasten.core.errors import DataError
from hasten.data.metrics import MeanIoU, class_map

SOURCE = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(32, 32, 3), (32, 32, 40), (20, 32, 3), (20, 30, 40)])
def test_classes_last_or_first_are_told_apart(shape: tuple[int, int, int]) -> None:
    scores = SOURCE.normal(size=(1, *shape)).astype(np.float32)
    wanted = scores[0].argmax(axis=-1)
    mask_shape = shape[:2]
    np.testing.assert_array_equal(class_map(scores, mask_shape), wanted)
    np.testing.assert_array_equal(class_map(scores.transpose(0, 3, 1, 2), mask_shape), wanted)


def test_without_a_mask_the_square_is_the_image() -> None:
    scores = SOURCE.normal(size=(1, 5, 16, 16))
    np.testing.assert_array_equal(class_map(scores), scores[0].argmax(axis=0))
    np.testing.assert_array_equal(class_map(scores.transpose(0, 2, 3, 1)), scores[0].argmax(axis=0))
    np.testing.assert_array_equal(class_map(np.zeros((1, 8, 10, 3))), np.zeros((8, 10)))


@pytest.mark.parametrize("shape", [(1, 8, 10, 1), (1, 1, 8, 10), (1, 8, 10), (8, 10)])
def test_one_probability_a_pixel_is_that_of_class_1(shape: tuple[int, ...]) -> None:
    probabilities = SOURCE.random((8, 10))
    np.testing.assert_array_equal(class_map(probabilities.reshape(shape)), probabilities > 0.5)
    mask = (probabilities > 0.5).astype(np.uint8)
    right = MeanIoU().score([probabilities.reshape(shape).astype(np.float32)], mask)
    assert MeanIoU().value(right.statistics, 1) == 1
    wrong = MeanIoU().score([1 - probabilities.reshape(shape).astype(np.float32)], mask)
    assert MeanIoU().value(wrong.statistics, 1) < 0.1


def test_classes_are_taken_as_they_are_whatever_their_type() -> None:
    classes = SOURCE.integers(0, 21, (1, 8, 10))
    for dtype in (np.float32, np.int64, np.uint8):
        np.testing.assert_array_equal(class_map(classes.astype(dtype)), classes[0])


def test_scores_that_could_mean_anything_are_refused() -> None:
    with pytest.raises(DataError, match="neither a class nor a probability") as refused:
        class_map(SOURCE.normal(size=(1, 8, 10, 1)))
    assert "--metric" in refused.value.hint
