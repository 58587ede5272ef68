"""Outputs that no metric looks at: noise is let pass, ruin is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from hasten.evaluate.other_outputs import RUINED, OtherOutputs

SOURCE = np.random.default_rng(0)


def worst(right: Any, found: Any) -> float:
    """The error of a second output over some samples, as an evaluation comes to it."""
    metric = OtherOutputs(1)
    labels = [metric.reference([np.zeros(3), values]) for values in right]
    scores = [metric.score([np.zeros(3), values], label) for values, label in zip(found, labels, strict=True)]
    return metric.value(np.sum([entry.statistics for entry in scores], axis=0), len(scores))


def test_noise_of_quantization_is_let_pass() -> None:
    right = SOURCE.normal(5.0, 1.0, (8, 1, 16))
    assert worst(right, right) == 0
    assert 0.05 < worst(right, right + SOURCE.normal(0, 0.1, right.shape)) < RUINED


def test_a_constant_in_place_of_values_is_ruin_even_near_their_mean() -> None:
    right = SOURCE.normal(1000.0, 1.0, (8, 1, 16))
    assert worst(right, np.full_like(right, 1000.0)) > RUINED


def test_channels_that_a_large_one_leaves_nothing_of_are_seen() -> None:
    right = SOURCE.normal(0, 1, (8, 1, 8)) * np.array([3000, 1, 1, 1, 1, 1, 1, 1])
    assert worst(right, np.round(right / 50) * 50) > RUINED


def test_small_probabilities_are_of_no_account() -> None:
    right = np.full((8, 1, 100), 1e-5)
    right[np.arange(8), 0, np.arange(8)] = 0.9
    assert worst(right, np.round(right * 256) / 256) < RUINED


def test_no_number_is_ruin_and_an_original_without_numbers_is_not_held_against_it() -> None:
    right = SOURCE.normal(0, 1, (8, 4))
    broken = right.copy()
    broken[3, 2] = np.nan
    assert worst(right, broken) > RUINED
    assert worst(broken, right) == 0


def test_a_constant_output_is_measured_by_its_size_and_dynamic_shapes_by_nothing() -> None:
    assert worst(np.full((8, 1), 10.0), np.full((8, 1), 10.1)) < RUINED
    assert worst(np.full((8, 1), 10.0), np.full((8, 1), 30.0)) > RUINED
    assert worst([np.ones((2, 3))] * 8, [np.zeros((5, 3))] * 8) == 0
