"""Orders of dimensions do what NumPy does to arrays."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hasten.rewrites.orders import composed, inverse, is_identity, moves_only_ones, ordered, through_reshape, without

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple)


def array(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.arange(prod(shape)).reshape(shape)


@given(st.data())
def test_orders_undo_and_follow_each_other(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    first, second = (tuple(data.draw(st.permutations(range(len(shape))))) for _ in range(2))
    x = array(shape)
    assert is_identity(composed(first, inverse(first)))
    np.testing.assert_array_equal(x.transpose(first).transpose(second), x.transpose(composed(first, second)))
    assert x.transpose(first).shape == ordered(shape, first)


@given(st.data())
def test_only_ones_move_where_memory_stays(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = array(shape)
    assert moves_only_ones(order, shape) == bool((x.transpose(order).ravel() == x.ravel()).all())


@given(st.data())
def test_what_is_left_of_an_order_is_that_of_what_is_left(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    gone = data.draw(st.sets(st.sampled_from(range(len(shape)))))
    x = array(shape)
    places = tuple(order.index(axis) for axis in gone)
    left = np.asarray(x.max(axis=tuple(gone)))
    np.testing.assert_array_equal(left.transpose(without(order, gone)), x.transpose(order).max(axis=places))


@given(st.data())
def test_an_order_behind_a_reshape_is_what_numpy_makes_of_it(data: st.DataObject) -> None:
    """Shapes are drawn as splits of common factors, so that most of them can be reshaped in another order."""
    factors = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))

    def merged() -> tuple[int, ...]:
        cuts = sorted(data.draw(st.sets(st.integers(1, len(factors)), max_size=len(factors))) | {0, len(factors)})
        return tuple(prod(factors[start:end]) for start, end in pairwise(cuts))

    before, after = merged(), merged()
    order = tuple(data.draw(st.permutations(range(len(before)))))
    found = through_reshape(order, before, after)
    if found is not None:
        x = array(before)
        np.testing.assert_array_equal(
            x.reshape(after).transpose(found), x.transpose(order).reshape(ordered(after, found))
        )


def test_neighbors_stay_neighbors() -> None:
    to_nhwc = (0, 2, 3, 1)
    assert through_reshape(to_nhwc, (2, 6, 4, 5), (2, 6, 20)) == (0, 2, 1)
    assert through_reshape(to_nhwc, (2, 6, 4, 5), (2, 2, 3, 4, 5)) == (0, 3, 4, 1, 2)
    assert through_reshape(to_nhwc, (2, 6, 4, 5), (2, 24, 5)) is None
    assert through_reshape(to_nhwc, (2, 6, 4, 5), (2, 120)) is None


def test_an_open_batch_is_only_like_an_open_batch() -> None:
    assert through_reshape((0, 2, 1), (-1, 6, 4), (-1, 2, 3, 4)) == (0, 3, 1, 2)
    assert through_reshape((0, 2, 1), (-1, 6, 4), (1, 6, 4)) is None
    assert through_reshape((0, 2, 1), (2, -1, 4), (2, 8, -1)) is None
