"""LOGISTIC and SiLU are found in formulas by EXP and TANH."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one

from hasten.rewrites.logistic import LOGISTIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]


def divided(g: ModelBuilder, a: Value, b: Value) -> Value:
    return one(g, "DIV", a, b, table="DivOptions")


def denominator(g: ModelBuilder, x: Value) -> Value:
    return g.add(one(g, "EXP", one(g, "NEG", x)), constant(g, 1))


def other_denominator(g: ModelBuilder, x: Value) -> Value:
    return g.add(constant(g, 1), one(g, "EXP", g.mul(x, constant(g, -1))))


def third_denominator(g: ModelBuilder, x: Value) -> Value:
    return g.sub(one(g, "EXP", g.sub(constant(g, 0), x)), constant(g, -1))


def half_tanh(g: ModelBuilder, x: Value) -> Value:
    return g.tanh(g.mul(x, constant(g, 0.5)))


SIGMOIDS: dict[str, Draw] = {
    "exp": lambda g, x: divided(g, constant(g, 1), denominator(g, x)),
    "swapped": lambda g, x: divided(g, constant(g, 1), other_denominator(g, x)),
    "by differences": lambda g, x: divided(g, constant(g, 1), third_denominator(g, x)),
    "tanh": lambda g, x: g.mul(g.add(half_tanh(g, x), constant(g, 1)), constant(g, 0.5)),
    "spread tanh": lambda g, x: g.add(constant(g, 0.5), g.mul(constant(g, 0.5), half_tanh(g, x))),
}
SILUS: dict[str, Draw] = {
    "divided": lambda g, x: divided(g, x, denominator(g, x)),
    "swapped": lambda g, x: divided(g, x, other_denominator(g, x)),
    "tanh": lambda g, x: g.mul(g.mul(constant(g, 0.5), x), g.add(half_tanh(g, x), constant(g, 1))),
}


@pytest.mark.parametrize("spelling", SIGMOIDS)
def test_every_sigmoid_is_found(spelling: str) -> None:
    assert_becomes(drawn(SIGMOIDS[spelling], spread=3), ["MUL", "LOGISTIC"], LOGISTIC)


@pytest.mark.parametrize("spelling", SILUS)
def test_every_silu_is_found(spelling: str) -> None:
    assert_becomes(drawn(SILUS[spelling], spread=3), ["MUL", "LOGISTIC", "MUL"], LOGISTIC)


def test_a_sigmoid_of_one_value_may_gate_another() -> None:
    data = drawn(lambda g, x: divided(g, g.conv2d(x, 4), denominator(g, x)))
    assert_becomes(data, ["CONV_2D", "LOGISTIC", "MUL"], LOGISTIC)


def test_quick_gelu_becomes_a_sigmoid() -> None:
    data = drawn(lambda g, x: divided(g, x, denominator(g, g.mul(x, constant(g, 1.702)))))
    assert_becomes(data, ["MUL", "LOGISTIC", "MUL"], LOGISTIC)


def test_other_formulas_stay() -> None:
    plus_two: Draw = lambda g, x: divided(g, x, g.add(one(g, "EXP", one(g, "NEG", x)), constant(g, 2)))  # noqa: E731
    assert_refuses(drawn(plus_two), LOGISTIC)
    assert_refuses(drawn(lambda g, x: divided(g, denominator(g, x), x)), LOGISTIC)
    assert_refuses(drawn(lambda g, x: g.add(g.tanh(x), constant(g, 1))), LOGISTIC)
    assert_refuses(drawn(lambda g, x: g.add(d := denominator(g, x), divided(g, x, d))), LOGISTIC)
