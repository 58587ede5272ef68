"""Activations are fused where kernels can clamp, and found where they are spelled with MAXIMUM and MINIMUM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses
from rewritten import assert_becomes, constant, drawn, one, ops, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec, signed_range
from hasten.rewrites.activations import ACTIVATION_FUSION, CLAMPS, RELU_0_TO_1

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

PRODUCERS: dict[str, Callable[[ModelBuilder, Value], Value]] = {
    "CONV_2D": lambda g, x: g.conv2d(x, 5, 3),
    "DEPTHWISE_CONV_2D": lambda g, x: g.depthwise_conv2d(x),
    "FULLY_CONNECTED": lambda g, x: g.fully_connected(x, 3),
    "ADD": lambda g, x: g.add(x, constant(g, 0.3)),
    "SUB": lambda g, x: g.sub(x, constant(g, 0.3)),
    "MUL": lambda g, x: g.mul(x, constant(g, -2)),
    "DIV": lambda g, x: one(g, "DIV", x, constant(g, 0.1), table="DivOptions"),
    "AVERAGE_POOL_2D": lambda g, x: g.average_pool2d(x),
    "MAX_POOL_2D": lambda g, x: g.max_pool2d(x),
}


@pytest.mark.parametrize("op", ["RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_an_activation_goes_into_its_producer(producer: str, op: str) -> None:
    data = drawn(lambda g, x: one(g, op, PRODUCERS[producer](g, x)))
    assert_becomes(data, [producer], ACTIVATION_FUSION)


@pytest.mark.parametrize(("own", "outer"), [("relu", "RELU6"), ("relu6", "RELU"), ("relu6", "RELU6")])
def test_two_activations_become_one(own: str, outer: str) -> None:
    data = drawn(lambda g, x: one(g, outer, g.conv2d(x, 5, activation=own)))
    assert_becomes(data, ["CONV_2D"], ACTIVATION_FUSION)


def test_a_clamp_that_no_activation_has_stays() -> None:
    assert_refuses(drawn(lambda g, x: one(g, "RELU", g.conv2d(x, 5, activation="relu_n1_to_1"))), ACTIVATION_FUSION)


def test_what_others_read_stays_as_it_is() -> None:
    g = ModelBuilder()
    y = g.conv2d(g.input("x", (1, 4, 4, 3)), 5)
    g.output(g.relu(y), "clamped")
    g.output(y, "whole")
    assert_refuses(g.build(), ACTIVATION_FUSION)
    assert_refuses(drawn(lambda g, x: g.add(y := g.conv2d(x, 4), g.relu(y))), ACTIVATION_FUSION)


def test_operators_that_cannot_clamp_are_left_alone() -> None:
    assert_refuses(drawn(lambda g, x: g.relu(g.concatenation([x, x]))), ACTIVATION_FUSION)
    assert_refuses(drawn(lambda g, x: g.relu(g.tanh(x))), ACTIVATION_FUSION)
    assert_refuses(drawn(lambda g, x: g.relu(x)), ACTIVATION_FUSION)


@pytest.mark.parametrize("is_same", [True, False])
def test_integers_are_fused_where_both_scales_are_one(is_same: bool) -> None:
    g = ModelBuilder()
    y = g.conv2d(g.input("x", (1, 6, 6, 3), "int8", scale=4 / 127), 5, 3)
    assert y.quantization is not None
    quantization = y.quantization if is_same else signed_range(2.0)
    (clamped,) = g.operator("RELU", [y], [Spec(y.shape, "int8", quantization)], version=2)
    g.output(clamped, "y")
    data = g.build()
    if not is_same:
        assert_refuses(data, ACTIVATION_FUSION)
        return
    after = rewritten(data, ACTIVATION_FUSION)
    assert ops(after) == ["CONV_2D"]
    assert_equal_outputs(data, after, 0)


def test_an_open_batch_stays_open() -> None:
    data = drawn(lambda g, x: g.relu(g.conv2d(x, 5)), (-1, 4, 4, 3))
    assert_becomes(data, ["CONV_2D"], ACTIVATION_FUSION)


def test_maximum_and_minimum_are_activations() -> None:
    def spelled(low: float, high: float | None) -> bytes:
        def draw(g: ModelBuilder, x: Value) -> Value:
            y = one(g, "MAXIMUM", constant(g, low), g.mul(g.tanh(x), constant(g, 9)))
            return y if high is None else one(g, "MINIMUM", y, constant(g, [high]))

        return drawn(draw)

    assert_becomes(spelled(0, None), ["TANH", "MUL", "RELU"], CLAMPS)
    assert_becomes(spelled(0, 6), ["TANH", "MUL", "RELU6"], CLAMPS)
    assert_becomes(spelled(-1, 1), ["TANH", "MUL", "RELU_N1_TO_1"], CLAMPS)
    assert_becomes(spelled(0, 6), ["TANH", "MUL"], CLAMPS, ACTIVATION_FUSION)
    assert_becomes(spelled(0, 5), ["TANH", "MUL", "RELU", "MINIMUM"], CLAMPS)
    assert_becomes(spelled(0, 1), ["TANH", "MUL", "RELU", "MINIMUM"], CLAMPS)
    assert_becomes(spelled(0, 1), ["TANH", "MUL", "RELU_0_TO_1"], RELU_0_TO_1)
    assert_becomes(spelled(0, 1), ["TANH", "MUL", "RELU_0_TO_1"], CLAMPS, RELU_0_TO_1)


def test_a_limit_for_each_channel_is_no_activation() -> None:
    assert_refuses(drawn(lambda g, x: one(g, "MAXIMUM", x, constant(g, [0, 0, 0, 1]))), CLAMPS)


def test_a_limit_that_makes_the_value_larger_is_no_activation() -> None:
    zeros = np.zeros((1, 1, 5, 4))
    assert_refuses(drawn(lambda g, x: one(g, "MAXIMUM", x, constant(g, zeros)), (1, 1, 1, 4)), CLAMPS)
