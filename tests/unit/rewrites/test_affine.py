"""Factors and shifts by constants go into layers, before or behind them, where paddings allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import assert_becomes, constant, convolution, drawn, one, ops, rewritten
from tests.model_builder import ModelBuilder

from hasten.rewrites.affine import AFFINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]

VECTOR = np.array([0.5, -1.5, 2.0, 1.25])


def divided(g: ModelBuilder, a: Value, b: Value) -> Value:
    return one(g, "DIV", a, b, table="DivOptions")


LAYERS: dict[str, Draw] = {
    "CONV_2D": lambda g, x: g.conv2d(x, 4, 3),
    "DEPTHWISE_CONV_2D": lambda g, x: g.depthwise_conv2d(x),
    "FULLY_CONNECTED": lambda g, x: g.fully_connected(x, 4),
}
AFFINE_OPERATORS: dict[str, Draw] = {
    "mul": lambda g, x: g.mul(x, constant(g, VECTOR)),
    "mul swapped": lambda g, x: g.mul(constant(g, VECTOR.reshape(1, 1, 1, 4)), x),
    "mul by one number": lambda g, x: g.mul(x, constant(g, 0.3)),
    "add": lambda g, x: g.add(constant(g, VECTOR), x),
    "sub": lambda g, x: g.sub(x, constant(g, VECTOR)),
    "sub from": lambda g, x: g.sub(constant(g, VECTOR), x),
    "div": lambda g, x: divided(g, x, constant(g, VECTOR)),
}


@pytest.mark.parametrize("affine", AFFINE_OPERATORS)
@pytest.mark.parametrize("layer", LAYERS)
def test_what_follows_a_layer_goes_into_it(layer: str, affine: str) -> None:
    data = drawn(lambda g, x: AFFINE_OPERATORS[affine](g, LAYERS[layer](g, x)))
    assert_becomes(data, [layer], AFFINE)


def test_a_batch_norm_with_its_activation_goes_into_the_layer() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return g.add(g.mul(g.conv2d(x, 4), constant(g, VECTOR)), constant(g, 0.1 * VECTOR), activation="relu6")

    assert_becomes(drawn(draw), ["CONV_2D"], AFFINE)


@pytest.mark.parametrize(("factor", "expected"), [(2.0, ["CONV_2D"]), (-2.0, ["CONV_2D", "MUL"])])
def test_only_positive_factors_pass_a_relu(factor: float, expected: list[str]) -> None:
    data = drawn(lambda g, x: g.mul(g.conv2d(x, 4, activation="relu"), constant(g, factor)))
    assert ops(rewritten(data, AFFINE)) == expected
    if len(expected) == 1:
        assert_becomes(data, expected, AFFINE)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("affine", ["mul", "div", "mul by one number"])
def test_factors_before_a_layer_go_into_it_whatever_the_padding(layer: str, affine: str) -> None:
    data = drawn(lambda g, x: LAYERS[layer](g, AFFINE_OPERATORS[affine](g, x)))
    assert_becomes(data, [layer], AFFINE)


@pytest.mark.parametrize("affine", AFFINE_OPERATORS)
def test_shifts_before_a_layer_go_into_it_without_padding(affine: str) -> None:
    unpadded: dict[str, Draw] = {
        "CONV_2D": lambda g, x: g.conv2d(x, 4, 3, padding="valid"),
        "DEPTHWISE_CONV_2D": lambda g, x: g.depthwise_conv2d(x, padding="valid", multiplier=2),
        "FULLY_CONNECTED": LAYERS["FULLY_CONNECTED"],
    }
    for op, layer in unpadded.items():

        def draw(g: ModelBuilder, x: Value, layer: Draw = layer) -> Value:
            return layer(g, AFFINE_OPERATORS[affine](g, x))

        assert_becomes(drawn(draw), [op], AFFINE)


def test_shifts_before_a_padded_layer_stay() -> None:
    assert_refuses(drawn(lambda g, x: g.conv2d(g.add(x, constant(g, VECTOR)), 4, 3)), AFFINE)


def test_padding_that_pads_nothing_is_no_padding() -> None:
    data = drawn(lambda g, x: g.conv2d(g.add(x, constant(g, VECTOR)), 4, 1))
    assert_becomes(data, ["CONV_2D"], AFFINE)


def test_all_readers_take_it_in_or_none() -> None:
    def both(g: ModelBuilder, x: Value, second: Draw) -> Value:
        scaled = g.mul(x, constant(g, VECTOR))
        return g.add(g.conv2d(scaled, 4), second(g, scaled))

    assert_becomes(
        drawn(lambda g, x: both(g, x, LAYERS["DEPTHWISE_CONV_2D"])), ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD"], AFFINE
    )
    assert_refuses(drawn(lambda g, x: both(g, x, lambda g, y: g.tanh(y))), AFFINE)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g, x: g.mul(g.conv2d(x, 4), constant(g, np.arange(1, 6).reshape(1, 1, 5, 1))),
        lambda g, x: g.mul(g.conv2d(x, 1), constant(g, VECTOR)),
        lambda g, x: g.add(g.conv2d(x, 4, activation="relu6"), constant(g, VECTOR)),
        lambda g, x: divided(g, constant(g, 1), g.conv2d(x, 4)),
        lambda g, x: g.mul(y := g.conv2d(x, 4), g.mul(y, constant(g, VECTOR))),
    ],
)
def test_what_is_not_the_same_for_all_places_stays(draw: Draw) -> None:
    assert_refuses(drawn(draw), AFFINE)


def test_integers_and_shared_weights_are_left_alone() -> None:
    g = ModelBuilder(weights="int8")
    g.output(g.mul(g.conv2d(g.input("x", (1, 4, 4, 3)), 4), constant(g, VECTOR)), "y")
    assert_refuses(g.build(), AFFINE)

    def draw(g: ModelBuilder, x: Value) -> Value:
        weights, bias = constant(g, np.eye(4).reshape(4, 1, 1, 4)), constant(g, np.ones(4))
        layers = [
            one(g, "CONV_2D", x, weights, bias, shape=x.shape, table="Conv2DOptions", strideW=1, strideH=1)
            for _ in range(2)
        ]
        return g.add(g.mul(layers[0], constant(g, VECTOR)), layers[1])

    assert_becomes(drawn(draw), ["CONV_2D", "CONV_2D", "ADD"], AFFINE)


@pytest.mark.parametrize(
    ("has_bias", "affine", "is_folded"), [(True, "add", True), (False, "mul", True), (False, "add", False)]
)
def test_transposed_convolutions_take_shifts_into_the_bias_they_have(
    has_bias: bool, affine: str, is_folded: bool
) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        random = np.random.default_rng(3)
        shape = (1, 12, 10, 4)
        inputs = [g.constant(np.array(shape, np.int32)), constant(g, random.standard_normal((4, 2, 2, 4))), x]
        inputs += [constant(g, random.standard_normal(4))] if has_bias else []
        options = {"padding": 0, "strideW": 2, "strideH": 2}
        y = one(
            g,
            "TRANSPOSE_CONV",
            *inputs,
            shape=shape,
            dtype="float32",
            table="TransposeConvOptions",
            version=3,
            **options,
        )
        return AFFINE_OPERATORS[affine](g, y)

    if is_folded:
        assert_becomes(drawn(draw), ["TRANSPOSE_CONV"], AFFINE)
    else:
        assert_refuses(drawn(draw), AFFINE)


def test_a_layer_without_a_bias_gets_one() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        weights = constant(g, np.eye(4))
        y = one(g, "FULLY_CONNECTED", x, weights, shape=x.shape, table="FullyConnectedOptions", keepNumDims=True)
        return g.add(y, constant(g, VECTOR))

    assert_becomes(drawn(draw), ["FULLY_CONNECTED"], AFFINE)


@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    stride=st.integers(1, 3),
    padding=st.sampled_from(["same", "valid"]),
    steps=st.lists(st.sampled_from(sorted(AFFINE_OPERATORS)), min_size=1, max_size=3),
    place=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_any_chain_around_any_convolution_keeps_the_outputs(
    kernel: tuple[int, int], stride: int, padding: str, steps: list[str], place: int
) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        for step in steps[:place]:
            x = AFFINE_OPERATORS[step](g, x)
        x = convolution(g, x, kernel, 4, stride=stride, padding=padding)
        for step in steps[place:]:
            x = AFFINE_OPERATORS[step](g, x)
        return x

    data = drawn(draw)
    found = ops(rewritten(data, AFFINE))
    assert found.count("CONV_2D") == 1
    assert_becomes(data, found, AFFINE)
