"""Resizes by whole factors are found in copies, and written as copies, where every row is repeated equally often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import assert_becomes, constant, drawn, integers, one, ops, rewritten

from hasten.rewrites.resizes import RESIZES, RESIZES_AS_COPIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value


def resized(g: ModelBuilder, x: Value, sides: Sequence[int], *, align: bool = False, half: bool = False) -> Value:
    shape = (x.shape[0], *sides, x.shape[3])
    table = "ResizeNearestNeighborOptions"
    version = 3 if align or half else 1
    more: dict[str, Any] = {"version": version, "alignCorners": align, "halfPixelCenters": half}
    return one(g, "RESIZE_NEAREST_NEIGHBOR", x, integers(g, sides), shape=shape, table=table, **more)


def copied(g: ModelBuilder, x: Value, rows: int, columns: int, op: str) -> Value:
    n, h, w, c = x.shape
    spread = g.reshape(x, (n, h, 1, w, 1, c))
    whole = (n, h, rows, w, columns, c)
    if op == "BROADCAST_TO":
        y = one(g, op, spread, integers(g, whole), shape=whole, version=2)
    elif op == "TILE":
        y = one(g, op, spread, integers(g, [1, 1, rows, 1, columns, 1]), shape=whole)
    else:
        y = g.mul(spread, constant(g, np.ones(whole)))
    return g.reshape(y, (n, h * rows, w * columns, c))


@pytest.mark.parametrize("op", ["BROADCAST_TO", "TILE", "MUL"])
@pytest.mark.parametrize("factors", [(2, 2), (3, 1), (1, 2)])
def test_copies_along_new_axes_are_a_resize(op: str, factors: tuple[int, int]) -> None:
    assert_becomes(drawn(lambda g, x: copied(g, x, *factors, op)), ["RESIZE_NEAREST_NEIGHBOR"], RESIZES)


def test_copies_of_whole_blocks_are_no_resize() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        n, h, w, c = x.shape
        y = one(
            g,
            "BROADCAST_TO",
            g.reshape(x, (n, 1, h, w, c)),
            integers(g, (n, 2, h, w, c)),
            shape=(n, 2, h, w, c),
            version=2,
        )
        return g.reshape(y, (n, 2 * h, w, c))

    assert_refuses(drawn(draw), RESIZES)


def test_gathers_that_repeat_are_one_resize() -> None:
    def gathered(g: ModelBuilder, x: Value, axis: int, indices: Sequence[int]) -> Value:
        shape = tuple(len(indices) if place == axis else size for place, size in enumerate(x.shape))
        return one(g, "GATHER", x, integers(g, indices), shape=shape, table="GatherOptions", axis=axis)

    rows, columns = np.repeat(np.arange(6), 2).tolist(), np.repeat(np.arange(5), 2).tolist()
    data = drawn(lambda g, x: gathered(g, gathered(g, x, 1, rows), 2, columns))
    assert_becomes(data, ["RESIZE_NEAREST_NEIGHBOR"], RESIZES)
    assert_refuses(drawn(lambda g, x: gathered(g, x, 1, list(range(6)) * 2)), RESIZES)


@given(
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    factors=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    flags=st.sampled_from([(False, False), (False, True), (True, False)]),
    channels=st.integers(1, 3),
)
@settings(max_examples=50, deadline=None)
def test_copies_are_what_the_engine_resizes(
    sizes: tuple[int, int], factors: tuple[int, int], flags: tuple[bool, bool], channels: int
) -> None:
    align, half = flags
    sides = (sizes[0] * factors[0], sizes[1] * factors[1])
    data = drawn(lambda g, x: resized(g, x, sides, align=align, half=half), (2, *sizes, channels))
    after = rewritten(data, RESIZES_AS_COPIES)
    assert_equal_outputs(data, after, 0)
    if factors != (1, 1) and not align:
        assert "RESIZE_NEAREST_NEIGHBOR" not in ops(after)


def test_other_sizes_stay() -> None:
    assert_refuses(drawn(lambda g, x: resized(g, x, (9, 10))), RESIZES_AS_COPIES)
    assert_refuses(drawn(lambda g, x: resized(g, x, (3, 5))), RESIZES_AS_COPIES)
    assert_refuses(drawn(lambda g, x: resized(g, x, (18, 10), align=True)), RESIZES_AS_COPIES)


def test_twice_by_two_is_by_four() -> None:
    data = drawn(lambda g, x: resized(g, resized(g, x, (12, 10)), (24, 20)))
    assert_becomes(data, ["RESIZE_NEAREST_NEIGHBOR"], RESIZES)


def test_an_open_batch_stays_open() -> None:
    data = drawn(lambda g, x: resized(g, x, (8, 8)), (-1, 4, 4, 3))
    assert_becomes(data, ["CONCATENATION", "RESHAPE", "CONCATENATION", "RESHAPE"], RESIZES_AS_COPIES)
