"""Seeded inputs: the same each time, of the right size, and within what their type is used for."""

from __future__ import annotations

import numpy as np
import pytest

from hasten.measure.seeded_inputs import seeded_inputs
from hasten.targets.client import TensorInfo


def info(dtype: str, shape: tuple[int, ...] = (2, 3)) -> TensorInfo:
    size = np.dtype(dtype).itemsize if dtype != "int4" else 1
    return TensorInfo("x", dtype, shape, int(np.prod(shape)) * size, False)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "int64", "bool", "complex64", "int4"])
def test_bytes_fit_and_repeat(dtype: str) -> None:
    first, second = (seeded_inputs([info(dtype), info(dtype)]) for _ in range(2))
    assert first == second
    assert [len(data) for data in first] == [info(dtype).bytes] * 2


def test_floats_are_a_share_and_wide_integers_are_indices() -> None:
    (floats,) = seeded_inputs([info("float32", (100,))])
    (indices,) = seeded_inputs([info("int64", (100,))])
    values = np.frombuffer(floats, np.float32)
    assert 0 <= values.min() < values.max() <= 1
    assert seeded_inputs([info("float32", (100,))], seed=1) != [floats]
    assert set(np.frombuffer(indices, np.int64).tolist()) == {0, 1}
