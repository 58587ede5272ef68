"""Plausible values for inputs, and the timed loop."""

from __future__ import annotations

import gc
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.engine.abi import ELEMENT_TYPES
from hasten.engine.library import EngineError
from hasten.engine.tensors import plausible_bytes
from hasten.engine.timing import time_calls

TYPES = [name for name, bits in ELEMENT_TYPES.values() if bits]


@given(st.sampled_from(TYPES), st.integers(0, 100_000), st.integers(0, 1000))
def test_values_have_the_size_asked_for_and_hang_on_the_seed_only(dtype: str, size: int, seed: int) -> None:
    values = plausible_bytes(dtype, size, seed)
    assert len(values) == size
    assert values == plausible_bytes(dtype, size, seed)


def test_values_are_plausible() -> None:
    floats = struct.unpack("<100f", plausible_bytes("float32", 400, 1))
    assert all(0 <= value < 1 for value in floats)
    assert len(set(floats)) > 50
    assert set(struct.unpack("<100q", plausible_bytes("int64", 800, 1))) == {0, 1}
    assert set(plausible_bytes("bool", 100, 1)) == {0, 1}
    assert len(set(plausible_bytes("int8", 100, 1))) > 20
    assert plausible_bytes("float32", 400, 1) != plausible_bytes("float32", 400, 2)


def test_the_loop_ends_at_the_count_or_the_time() -> None:
    assert len(time_calls(lambda: 0, 60.0, 5)) == 5
    assert len(time_calls(lambda: None, 0.0, 1000)) == 1, "at least one, however little time"
    assert all(nanoseconds >= 0 for nanoseconds in time_calls(lambda: 0, 60.0, 100))


def test_a_status_ends_the_loop_with_an_error() -> None:
    statuses = iter([0, 0, 3])
    with pytest.raises(EngineError, match="runtime failure"):
        time_calls(lambda: next(statuses), 60.0, 10)
    assert gc.isenabled()


def test_the_collector_rests_meanwhile_and_is_left_as_it_was() -> None:
    seen: list[bool] = []
    time_calls(lambda: seen.append(gc.isenabled()), 60.0, 1)
    assert seen == [False]
    assert gc.isenabled()
    gc.disable()
    try:
        time_calls(lambda: 0, 0.0, 1)
        assert not gc.isenabled()
    finally:
        gc.enable()
