"""Layer norms are found in all their spellings with the right constants, and long ones are shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, integers, one

from hasten.model.edit.model import EditedModel
from hasten.rewrites.layer_norm import LAYER_NORM, layer_norms
from hasten.rewrites.rewrite import apply
from hasten.rewrites.roots import ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]

SHAPE = (1, 7, 12)
EPSILON = 1e-3
SCALE, SHIFT = np.linspace(0.5, 1.5, 12), np.linspace(-1, 1, 12)
FEWEST = ["MEAN", "SUB", "SQUARE", "MEAN", "ADD", "RSQRT", "MUL", "MUL", "ADD"]


def mean(g: ModelBuilder, x: Value) -> Value:
    return g.mean(x, [-1], keep_dims=True)


def mean_by_sum(g: ModelBuilder, x: Value) -> Value:
    total = one(g, "SUM", x, integers(g, [2]), shape=(*x.shape[:-1], 1), table="ReducerOptions", keepDims=True)
    return g.mul(total, constant(g, 1 / x.shape[-1]))


def mean_reshaped(g: ModelBuilder, x: Value) -> Value:
    return g.reshape(g.mean(x, [-1]), (*x.shape[:-1], 1))


def inverse(g: ModelBuilder, variance: Value) -> Value:
    return one(g, "RSQRT", g.add(variance, constant(g, EPSILON)))


def of_keras(g: ModelBuilder, x: Value) -> Value:
    """x·i + (shift - mean·i), with i = scale / deviation."""
    m = mean(g, x)
    i = g.mul(inverse(g, mean(g, one(g, "SQUARED_DIFFERENCE", x, m))), constant(g, SCALE))
    return g.add(g.mul(x, i), g.sub(constant(g, SHIFT), g.mul(m, i)))


def plain(g: ModelBuilder, x: Value, mean_of: Draw = mean, *, square: str = "SQUARE") -> Value:
    centered = g.sub(x, mean_of(g, x))
    squares = g.mul(centered, centered) if square == "MUL" else one(g, "SQUARE", centered)
    normal = g.mul(centered, inverse(g, mean_of(g, squares)))
    return g.add(g.mul(normal, constant(g, SCALE)), constant(g, SHIFT))


def divided(g: ModelBuilder, x: Value) -> Value:
    centered = g.sub(x, mean(g, x))
    raised = g.add(mean(g, g.mul(centered, centered)), constant(g, EPSILON))
    normal = one(g, "DIV", centered, one(g, "POW", raised, constant(g, 0.5)), table="DivOptions")
    return g.add(g.mul(normal, constant(g, SCALE)), constant(g, SHIFT))


SPELLINGS: dict[str, Draw] = {
    "keras": of_keras,
    "plain": plain,
    "product": lambda g, x: plain(g, x, square="MUL"),
    "sums": lambda g, x: plain(g, x, mean_by_sum),
    "reshaped means": lambda g, x: plain(g, x, mean_reshaped),
    "divided": divided,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found_with_its_constants(spelling: str) -> None:
    model = EditedModel.from_bytes(drawn(SPELLINGS[spelling], SHAPE))
    apply(model, [ROOTS])
    (found,) = layer_norms(model.main)
    assert found.x == model.main.inputs[0]
    assert found.axes == (2,)
    assert found.epsilon == pytest.approx(EPSILON)
    assert found.scale is not None
    assert found.shift is not None
    np.testing.assert_allclose(found.scale.reshape(-1), SCALE, rtol=1e-6)
    np.testing.assert_allclose(found.shift.reshape(-1), SHIFT, rtol=1e-6, atol=1e-7)
    assert found.operators[-1].outputs == model.main.outputs


@pytest.mark.parametrize("spelling", ["keras", "sums", "reshaped means"])
def test_long_spellings_are_shortened(spelling: str) -> None:
    assert_becomes(drawn(SPELLINGS[spelling], SHAPE), FEWEST, LAYER_NORM)


def test_short_spellings_stay() -> None:
    assert_refuses(drawn(plain, SHAPE), LAYER_NORM)
    assert_refuses(drawn(lambda g, x: plain(g, x, square="MUL"), SHAPE), LAYER_NORM)


def test_a_norm_without_scale_and_shift() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        m = mean(g, x)
        i = inverse(g, mean(g, one(g, "SQUARED_DIFFERENCE", x, m)))
        return g.sub(g.mul(x, i), g.mul(m, i))

    assert_becomes(drawn(draw, SHAPE), FEWEST[:-2], LAYER_NORM)


def test_one_number_as_scale_and_an_open_batch() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        m = mean(g, x)
        i = g.mul(inverse(g, mean(g, one(g, "SQUARED_DIFFERENCE", x, m))), constant(g, 3))
        return g.add(g.mul(x, i), g.sub(constant(g, 1), g.mul(m, i)))

    assert_becomes(drawn(draw, (-1, 7, 12)), FEWEST, LAYER_NORM)


def test_other_formulas_stay() -> None:
    def with_another_mean(g: ModelBuilder, x: Value) -> Value:
        m = mean(g, g.tanh(x))
        i = g.mul(inverse(g, mean(g, one(g, "SQUARED_DIFFERENCE", x, m))), constant(g, SCALE))
        return g.add(g.mul(x, i), g.sub(constant(g, SHIFT), g.mul(m, i)))

    def over_other_axes(g: ModelBuilder, x: Value) -> Value:
        m = g.mean(x, [1], keep_dims=True)
        i = g.mul(inverse(g, mean(g, one(g, "SQUARED_DIFFERENCE", x, m))), constant(g, SCALE))
        return g.add(g.mul(x, i), g.sub(constant(g, SHIFT), g.mul(m, i)))

    assert_refuses(drawn(with_another_mean, SHAPE), LAYER_NORM)
    assert_refuses(drawn(over_other_axes, SHAPE), LAYER_NORM)
