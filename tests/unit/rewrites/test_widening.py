"""Convolutions with few outputs and a wide kernel are widened, keep their outputs, and others are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_equal_outputs, assert_refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import assert_becomes, convolution, drawn, ops, rewritten

from hasten.model.edit.model import EditedModel
from hasten.rewrites.rewrite import apply
from hasten.rewrites.widening import WIDENING

if TYPE_CHECKING:
    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value


def columns(data: bytes) -> int:
    (change,) = apply(EditedModel.from_bytes(data), [WIDENING])["widening"]
    return int(change.facts["columns"])


def test_a_filter_over_time_fills_all_lanes() -> None:
    data = drawn(lambda g, x: convolution(g, x, (1, 32), 1, padding="valid"), (1, 1, 95, 1))
    assert columns(data) == 16
    assert_becomes(data, ["CONV_2D", "RESHAPE"], WIDENING)


def test_eight_channels_become_sixteen() -> None:
    data = drawn(lambda g, x: convolution(g, x, (3, 39), 8, activation=1), (1, 4, 44, 8))
    assert columns(data) == 2
    assert_becomes(data, ["PAD", "CONV_2D", "RESHAPE"], WIDENING)


def test_time_along_the_height() -> None:
    data = drawn(lambda g, x: convolution(g, x, (32, 1), 1, padding="valid"), (1, 95, 1, 1))
    assert_becomes(data, ["CONV_2D", "RESHAPE"], WIDENING)


def test_rows_of_several_columns_stay_where_they_are() -> None:
    assert_refuses(drawn(lambda g, x: convolution(g, x, (16, 1), 1), (1, 32, 4, 1)), WIDENING)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [3, 8, 16, 32])
def test_stems_of_image_models_are_refused(channels: int, stride: int) -> None:
    assert_refuses(drawn(lambda g, x: g.conv2d(x, channels, 3, stride), (1, 32, 32, 3)), WIDENING)


def test_what_has_all_its_lanes_filled_is_refused() -> None:
    assert_refuses(drawn(lambda g, x: convolution(g, x, (1, 32), 16), (1, 1, 64, 2)), WIDENING)


def test_a_number_of_columns_without_divisors_is_cut_to_size() -> None:
    data = drawn(lambda g, x: convolution(g, x, (1, 32), 1), (1, 1, 67, 1))
    assert_becomes(data, ["PAD", "CONV_2D", "RESHAPE", "SLICE"], WIDENING)


def test_an_open_batch_stays_open_and_open_widths_are_refused() -> None:
    assert_becomes(
        drawn(lambda g, x: convolution(g, x, (1, 32), 1), (-1, 2, 64, 1)), ["PAD", "CONV_2D", "RESHAPE"], WIDENING
    )
    model = EditedModel.from_bytes(drawn(lambda g, x: convolution(g, x, (1, 32), 1), (1, 2, 64, 1)))
    model.main.tensor(model.main.inputs[0]).shapeSignature = [1, 2, -1, 1]
    assert apply(model, [WIDENING]) == {}


@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(5, 20)),
    channels=st.integers(1, 10),
    sizes=st.tuples(st.integers(3, 5), st.integers(20, 50), st.integers(1, 3)),
    stride=st.integers(1, 4),
    padding=st.sampled_from(["same", "valid"]),
    activation=st.sampled_from([0, 1, 3]),
)
@settings(max_examples=40, deadline=None)
def test_outputs_stay_for_all_sizes(
    kernel: tuple[int, int], channels: int, sizes: tuple[int, int, int], stride: int, padding: str, activation: int
) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return convolution(g, x, kernel, channels, stride=stride, padding=padding, activation=activation)

    data = drawn(draw, (2, *sizes))
    after = rewritten(data, WIDENING)
    assert ops(after).count("CONV_2D") == 1
    assert_equal_outputs(data, after, WIDENING.tolerance)
