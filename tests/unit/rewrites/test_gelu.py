"""GELU is found in its formulas by tanh, sigmoid and error function."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from litert_run import invoke, loaded
from rewritten import assert_becomes, constant, drawn, one, ops, rewritten

from hasten.rewrites.gelu import GELU

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]

SCALE = sqrt(2 / pi)


def cubed(g: ModelBuilder, x: Value) -> Value:
    return g.mul(g.mul(x, x), x)


def argument(g: ModelBuilder, x: Value) -> Value:
    return g.mul(constant(g, SCALE), g.add(x, g.mul(constant(g, 0.044715), cubed(g, x))))


def factored_argument(g: ModelBuilder, x: Value) -> Value:
    inner = g.add(g.mul(one(g, "SQUARE", x), constant(g, SCALE * 0.044715)), constant(g, SCALE))
    return g.mul(inner, x)


def by_power(g: ModelBuilder, x: Value) -> Value:
    return g.mul(g.add(g.mul(one(g, "POW", x, constant(g, 3)), constant(g, 0.044715)), x), constant(g, SCALE))


def whole(g: ModelBuilder, x: Value, value: Value) -> Value:
    return g.mul(g.mul(constant(g, 0.5), x), g.add(constant(g, 1), value))


SPELLINGS: dict[str, Draw] = {
    "tanh": lambda g, x: whole(g, x, g.tanh(argument(g, x))),
    "factored": lambda g, x: whole(g, x, g.tanh(factored_argument(g, x))),
    "power": lambda g, x: whole(g, x, g.tanh(by_power(g, x))),
    "half last": lambda g, x: g.mul(g.mul(g.add(g.tanh(argument(g, x)), constant(g, 1)), x), constant(g, 0.5)),
    "spread out": lambda g, x: g.add(
        g.mul(x, constant(g, 0.5)), g.mul(constant(g, 0.5), g.mul(x, g.tanh(argument(g, x))))
    ),
    "sigmoid": lambda g, x: g.mul(x, g.logistic(g.mul(argument(g, x), constant(g, 2)))),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found(spelling: str) -> None:
    assert_becomes(drawn(SPELLINGS[spelling], spread=3), ["MUL", "GELU"], GELU)


def test_other_formulas_stay() -> None:
    quick: Draw = lambda g, x: g.mul(x, g.logistic(g.mul(x, constant(g, 1.702))))  # noqa: E731
    assert_refuses(drawn(quick), GELU)
    assert_refuses(drawn(lambda g, x: whole(g, x, g.tanh(g.mul(x, constant(g, SCALE))))), GELU)
    assert_refuses(drawn(lambda g, x: whole(g, x, g.tanh(argument(g, g.tanh(x))))), GELU)


@pytest.mark.parametrize("name", ["FlexErf", "Erf"])
def test_the_error_function_becomes_the_exact_form(name: str) -> None:
    """The original needs a kernel that LiteRT does not have, so that numbers are compared with the formula."""
    from math import erf

    def draw(g: ModelBuilder, x: Value) -> Value:
        return whole(g, x, g.custom(name, [g.mul(x, constant(g, sqrt(0.5)))], x.shape))

    after = rewritten(drawn(draw, (1, 64)), GELU)
    assert ops(after) == ["GELU"]
    x = np.linspace(-4, 4, 64, dtype=np.float32)[None]
    (found,) = invoke(loaded(after), [x])
    expected = [0.5 * value * (1 + erf(value / sqrt(2))) for value in x[0].tolist()]
    np.testing.assert_allclose(found[0], expected, atol=4e-6)


A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def approximated(g: ModelBuilder, x: Value, factors: tuple[float, ...] = A, *, is_negated_first: bool = True) -> Value:
    """The error function as some converters write it, where it has no operator."""
    z = g.mul(x, constant(g, sqrt(0.5)))
    t = one(
        g,
        "DIV",
        constant(g, 1),
        g.add(g.mul(one(g, "ABS", z), constant(g, 0.3275911)), constant(g, 1)),
        table="DivOptions",
    )
    square = g.mul(one(g, "NEG", z), z) if is_negated_first else one(g, "NEG", one(g, "SQUARE", z))
    y = g.mul(t, constant(g, factors[-1]))
    for factor in factors[-2::-1]:
        y = g.mul(g.add(y, constant(g, factor)), t)
    y = g.sub(constant(g, 1), g.mul(y, one(g, "EXP", square)))
    return whole(g, x, g.mul(one(g, "SIGN", z), y))


@pytest.mark.parametrize("is_negated_first", [True, False])
def test_the_error_function_is_found_in_its_approximation(is_negated_first: bool) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return approximated(g, x, is_negated_first=is_negated_first)

    assert_becomes(drawn(draw, spread=2), ["MUL", "GELU"], GELU)


def test_another_approximation_stays() -> None:
    assert_refuses(drawn(lambda g, x: approximated(g, x, (0.25, *A[1:]))), GELU)


def test_other_custom_operators_stay() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return whole(g, x, g.custom("Mine", [g.mul(x, constant(g, sqrt(0.5)))], x.shape))

    assert_refuses(drawn(draw), GELU)
