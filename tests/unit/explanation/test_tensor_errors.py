"""How far numbers are off: ratio, largest error, shares, and values that are no numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hasten.explanation.tensor_errors import ErrorMeter, error_between, snr_between

NUMBERS = arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32))


@given(NUMBERS, st.floats(-1e3, 1e3))
def test_a_constant_error_is_measured_as_it_is(
    values: np.ndarray[tuple[int], np.dtype[np.float32]], off: float
) -> None:
    meter = error_between([values.astype(np.float64)], [values.astype(np.float64) + off])
    assert meter.worst == pytest.approx(abs(off), rel=1e-6, abs=1e-6)
    assert meter.error_rms == pytest.approx(abs(off), rel=1e-6, abs=1e-6)
    assert meter.values == values.size


@given(NUMBERS)
def test_equal_numbers_have_no_error(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    meter = error_between([values, values], [values, values])
    assert (meter.snr_db, meter.worst, meter.differing, meter.broken) == (math.inf, 0.0, 0, False)
    assert meter.values == 2 * values.size


def test_samples_add_up() -> None:
    meter = ErrorMeter()
    meter.add(np.array([3.0, 4.0]), np.array([3.0, 4.5]))
    meter.add(np.array([0.0, 5.0]), np.array([0.0, 5.0]))
    assert (meter.differing, meter.values, meter.worst) == (1, 4, 0.5)
    assert meter.snr_db == pytest.approx(10 * math.log10(50 / 0.25))
    assert meter.signal_rms == pytest.approx(math.sqrt(50 / 4))


def test_lost_numbers_are_counted_and_those_of_the_original_say_nothing() -> None:
    meter = ErrorMeter()
    meter.add(np.array([1.0, np.inf, np.nan, 2.0]), np.array([np.nan, 7.0, 7.0, -np.inf]))
    assert (meter.not_finite, meter.values, meter.broken) == (2, 2, True)
    assert meter.snr_db == -math.inf


def test_another_number_of_values_is_broken() -> None:
    assert snr_between([np.zeros(3)], [np.zeros(4)]) == -math.inf


def test_integers_and_truth_values_are_compared_exactly() -> None:
    assert error_between([np.array([1, 2, 3])], [np.array([1, 2, 4])]).differing == 1
    assert error_between([np.array([True, False])], [np.array([True, True])]).differing == 1
