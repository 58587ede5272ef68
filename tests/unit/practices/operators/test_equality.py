"""Outputs are equal, nearly equal or different: what a changed model may do to them and what not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hasten.practices.operators.equality import Answers, largest_error

FLOATS = arrays(np.float32, 6, elements=st.floats(-100, 100, width=32))


def answers(*outputs: Any) -> Answers:
    return Answers((tuple(np.asarray(output) for output in outputs),))


@given(FLOATS)
def test_equal_outputs_have_no_error(values: np.ndarray[Any, Any]) -> None:
    assert largest_error(answers(values), answers(values.copy())) == 0.0
    assert largest_error(answers(0 * values), answers(-0.0 * values)) == 0.0


@given(FLOATS, st.floats(1e-7, 1.0), st.integers(0, 5))
def test_the_error_is_a_share_of_the_largest_output(values: np.ndarray[Any, Any], share: float, place: int) -> None:
    largest = float(np.abs(values).max())
    changed = values.astype(np.float64)
    changed[place] += share * largest
    found = largest_error(answers(values.astype(np.float64)), answers(changed))
    assert found == pytest.approx(share if largest else 0.0, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), 0.0),
        (np.array([1, np.nan], np.float32), np.array([1, 2], np.float32), math.inf),
        (np.array([1, 2], np.float32), np.array([1, np.inf], np.float32), math.inf),
        (np.array([1, 2], np.float32), np.array([1, 2], np.float64), math.inf),
        (np.array([1, 2], np.float32), np.array([1, 2, 3], np.float32), math.inf),
        (np.array([0, 0], np.float32), np.array([0, 1e-9], np.float32), math.inf),
        (np.array([7, 3], np.int32), np.array([7, 3], np.int32), 0.0),
        (np.array([7, 3], np.int32), np.array([7, 4], np.int32), math.inf),
        (np.array([-128, 3], np.int8), np.array([-127, 3], np.int8), 1 / 255),
        (np.array([0], np.uint8), np.array([255], np.uint8), 1.0),
    ],
)
def test_odd_outputs(before: Any, after: Any, error: float) -> None:
    assert largest_error(answers(before), answers(after)) == pytest.approx(error)


def test_a_missing_output_or_sample_is_no_match() -> None:
    one = np.array([1], np.float32)
    assert math.isinf(largest_error(answers(one, one), answers(one)))
    assert math.isinf(largest_error(Answers(((one,), (one,))), answers(one)))
