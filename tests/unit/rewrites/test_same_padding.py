"""PAD goes where SAME puts exactly its zeros, and stays everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import assert_becomes, constant, drawn, integers, one, ops, rewritten
from tests.model_builder import ModelBuilder

from hasten.rewrites.same_padding import SAME_PADDING

if TYPE_CHECKING:
    from hasten.model.build_graph import Value


def padded(g: ModelBuilder, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    return g.pad(x, [(0, 0), rows, columns, (0, 0)])


@pytest.mark.parametrize("stride", [1, 2])
def test_zeros_around_a_convolution_become_its_padding(stride: int) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        rows = (1, 1) if stride == 1 else (0, 1)  # SAME puts less before than after
        columns = (1, 1)
        return g.conv2d(padded(g, x, rows, columns), 3, 3, stride, padding="valid")

    assert_becomes(drawn(draw, (1, 6, 5, 4)), ["CONV_2D"], SAME_PADDING)


def test_the_padding_of_other_frameworks_at_stride_two_stays() -> None:
    """They put one zero on each side, where SAME puts one behind only."""
    draw = drawn(lambda g, x: g.conv2d(padded(g, x, (1, 1), (1, 1)), 3, 3, 2, padding="valid"), (1, 6, 6, 4))
    assert_refuses(draw, SAME_PADDING)


@given(
    sizes=st.tuples(st.integers(3, 8), st.integers(3, 8)),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    widths=st.tuples(*[st.integers(0, 2)] * 4),
    padding=st.sampled_from(["valid", "same"]),
    op=st.sampled_from(["conv2d", "depthwise_conv2d"]),
)
@settings(max_examples=60, deadline=None)
def test_outputs_stay_for_all_sizes(
    sizes: tuple[int, int], kernel: int, stride: int, widths: tuple[int, int, int, int], padding: str, op: str
) -> None:
    top, bottom, left, right = widths

    def draw(g: ModelBuilder, x: Value) -> Value:
        y = padded(g, x, (top, bottom), (left, right))
        if op == "conv2d":
            return g.conv2d(y, 3, kernel, stride, padding=padding)
        return g.depthwise_conv2d(y, kernel, stride, padding=padding)

    if padding == "valid" and min(sizes[0] + top + bottom, sizes[1] + left + right) < kernel:
        return
    data = drawn(draw, (1, *sizes, 3))
    assert_equal_outputs(data, rewritten(data, SAME_PADDING), 0)


def test_integers_pad_with_their_zero_point() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 6, 6, 3), "int8", scale=4 / 127, zero_point=5)
    g.output(g.conv2d(padded(g, x, (1, 1), (1, 1)), 4, 3, padding="valid"), "y")
    assert_becomes(g.build(), ["CONV_2D"], SAME_PADDING)


def test_a_pool_ignores_its_padding_so_zeros_must_not_win() -> None:
    def pooled(g: ModelBuilder, x: Value) -> Value:
        return g.max_pool2d(padded(g, x, (1, 1), (1, 1)), 3, 1)

    assert_becomes(
        drawn(lambda g, x: pooled(g, g.conv2d(x, 3, activation="relu"))), ["CONV_2D", "MAX_POOL_2D"], SAME_PADDING
    )
    assert_becomes(drawn(lambda g, x: pooled(g, g.relu6(x))), ["RELU6", "MAX_POOL_2D"], SAME_PADDING)
    assert_refuses(drawn(pooled), SAME_PADDING)
    assert_refuses(drawn(lambda g, x: g.average_pool2d(padded(g, g.relu(x), (1, 1), (1, 1)), 3, 1)), SAME_PADDING)


@pytest.mark.parametrize(("value", "is_taken"), [(-np.inf, True), (-3.4e38, False), (np.finfo(np.float32).min, True)])
def test_a_pool_of_what_is_padded_by_the_least_number(value: float, is_taken: bool) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        widths = integers(g, [(0, 0), (1, 1), (1, 1), (0, 0)])
        y = one(g, "PADV2", x, widths, constant(g, value), shape=(1, 8, 7, 4), table="PadV2Options")
        return g.max_pool2d(y, 3, 1)

    expected = ["MAX_POOL_2D"] if is_taken else ["PADV2", "MAX_POOL_2D"]
    assert ops(rewritten(drawn(draw), SAME_PADDING)) == expected
    if is_taken:
        assert_becomes(drawn(draw), expected, SAME_PADDING)


def test_padded_channels_batches_and_values_stay() -> None:
    channels = drawn(lambda g, x: g.conv2d(g.pad(x, [(0, 0), (1, 1), (1, 1), (0, 1)]), 3, 3, padding="valid"))
    assert_refuses(channels, SAME_PADDING)

    def with_ones(g: ModelBuilder, x: Value) -> Value:
        widths = integers(g, [(0, 0), (1, 1), (1, 1), (0, 0)])
        y = one(g, "PADV2", x, widths, constant(g, 1), shape=(1, 8, 7, 4), table="PadV2Options")
        return g.conv2d(y, 3, 3, padding="valid")

    assert_refuses(drawn(with_ones), SAME_PADDING)


def test_a_padding_that_others_read_stays_for_them() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = padded(g, x, (1, 1), (1, 1))
        return g.concatenation([g.reshape(g.conv2d(y, 4, 3, padding="valid"), (1, 120)), g.reshape(y, (1, 8 * 7 * 4))])

    assert_becomes(drawn(draw), ["PAD", "CONV_2D", "RESHAPE", "RESHAPE", "CONCATENATION"], SAME_PADDING)
