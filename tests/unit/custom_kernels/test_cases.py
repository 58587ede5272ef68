"""Cases hold the values that they promise, and outputs are judged bit by bit or within a tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hasten.custom_kernels.cases import EXACT_CASES, TOLERANT_CASES, Judgement, index_limit, place_text, values_for


@pytest.mark.parametrize("case", EXACT_CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_values_have_type_and_shape_and_come_again(case: str, dtype: str) -> None:
    values = values_for(case, dtype, (3, 4), 1, 5)
    assert (values.dtype, values.shape) == (np.dtype(dtype), (3, 4))
    assert values.tobytes() == values_for(case, dtype, (3, 4), 1, 5).tobytes()


def test_the_edges_are_there() -> None:
    special = values_for("special", "float32", (64, 64), 0, 1)
    assert np.isnan(special).any()
    assert np.isposinf(special).any()
    assert np.isneginf(special).any()
    zeros = special[special == 0]
    assert np.signbit(zeros).any()
    tiny = values_for("tiny", "float32", (64,), 0, 1)
    assert (np.abs(tiny[tiny != 0]) < np.finfo(np.float32).tiny).any(), "denormal numbers"
    assert (values_for("nonzero", "int32", (99,), 0, 1) != 0).all()
    assert values_for("index", "int32", (99,), 0, 7).max() == 6
    extremes = values_for("extreme", "int8", (99,), 0, 1)
    assert {-128, 127} <= set(extremes.tolist())


def test_largest_numbers_prove_nothing_within_a_tolerance() -> None:
    assert "extreme" not in TOLERANT_CASES
    assert set(TOLERANT_CASES) < set(EXACT_CASES)


FLOATS = arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(width=32))


@given(FLOATS)
def test_equal_outputs_are_equal(values: np.ndarray) -> None:
    for tolerance in (0.0, 1e-6):
        assert Judgement(tolerance).first_wrong(values, values.copy()) is None


@given(FLOATS, st.data())
def test_one_bit_is_seen(values: np.ndarray, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, values.size - 1))
    changed = values.copy()
    changed.view(np.uint32)[place] ^= np.uint32(1 << data.draw(st.integers(0, 31)))
    still_nan = bool(np.isnan(values[place]) and np.isnan(changed[place]))
    assert Judgement(0.0).first_wrong(values, changed) == (None if still_nan else place)


def test_a_tolerance_is_a_share_of_the_largest() -> None:
    expected = np.array([100.0, 1e-3], np.float32)
    judge = Judgement(1e-5)
    assert judge.first_wrong(expected, expected + np.float32(5e-4)) is None
    assert judge.largest_error == pytest.approx(5e-6, rel=0.1)
    assert judge.first_wrong(expected, expected + np.float32(5e-3)) == 0


def test_denormal_numbers_are_nothing_within_a_tolerance() -> None:
    """XNNPACK takes them for 0, and another kernel may do so where it does not."""
    expected = np.array([3e-40, -1e-41], np.float32)
    judge = Judgement(1e-5)
    assert judge.first_wrong(expected, np.zeros(2, np.float32)) is None
    assert judge.largest_error == 0
    assert judge.first_wrong(expected, np.array([3e-40, 3e-38], np.float32)) == 1
    assert Judgement(0.0).first_wrong(expected, np.zeros(2, np.float32)) == 0


def test_integers_may_differ_by_one_within_a_tolerance() -> None:
    expected = np.array([5, -3], np.int8)
    assert Judgement(1e-5).first_wrong(expected, expected + np.int8(1)) is None
    assert Judgement(1e-5).first_wrong(expected, expected + np.int8(2)) == 0
    assert Judgement(0.0).first_wrong(expected, expected + np.int8(1)) == 0


@pytest.mark.parametrize(("expected", "got", "wrong"), [(np.inf, 1.0, 0), (1.0, np.nan, 0), (np.inf, np.inf, None)])
def test_numbers_that_are_not_finite(expected: float, got: float, wrong: int | None) -> None:
    first, second = (np.array([value], np.float32) for value in (expected, got))
    assert Judgement(1e-5).first_wrong(first, second) == wrong


def test_places_and_indices() -> None:
    assert place_text((2, 3), 4) == "1, 1"
    assert place_text((), 0) == "0"
    assert index_limit({"x": (1, 8), "y": (3,)}) == 3
    assert index_limit({"x": (1,)}) == 1
