"""LEAKY_RELU is found in its spellings, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one

from hasten.rewrites.leaky_relu import LEAKY_RELU

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]

SLOPE = 0.1


def scaled(g: ModelBuilder, x: Value, slope: float = SLOPE) -> Value:
    return g.mul(constant(g, slope), x)


def prelu(g: ModelBuilder, x: Value, slopes: list[float]) -> Value:
    return one(g, "PRELU", x, constant(g, np.asarray(slopes).reshape(1, 1, -1)))


def chosen(g: ModelBuilder, x: Value, op: str, yes: Value, no: Value) -> Value:
    zero = constant(g, 0)
    condition = one(g, op, x, zero, dtype="bool", table="GreaterOptions" if op == "GREATER" else "LessOptions")
    return one(g, "SELECT_V2", condition, yes, no, dtype="float32", table="SelectV2Options")


SPELLINGS: dict[str, Draw] = {
    "maximum": lambda g, x: one(g, "MAXIMUM", x, scaled(g, x)),
    "swapped": lambda g, x: one(g, "MAXIMUM", scaled(g, x), x),
    "minimum": lambda g, x: one(g, "MINIMUM", x, scaled(g, x, 1.5)),
    "two relus": lambda g, x: g.sub(g.relu(x), scaled(g, g.relu(one(g, "NEG", x)))),
    "negative slope": lambda g, x: g.add(scaled(g, g.relu(one(g, "NEG", x)), -SLOPE), g.relu(x)),
    "two halves": lambda g, x: g.add(g.relu(x), scaled(g, one(g, "MINIMUM", x, constant(g, 0)))),
    "select": lambda g, x: chosen(g, x, "GREATER", x, scaled(g, x)),
    "select less": lambda g, x: chosen(g, x, "LESS", scaled(g, x), x),
    "prelu": lambda g, x: prelu(g, x, [SLOPE] * 4),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found(spelling: str) -> None:
    assert_becomes(drawn(lambda g, x: SPELLINGS[spelling](g, g.tanh(x))), ["TANH", "LEAKY_RELU"], LEAKY_RELU)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g, x: one(g, "MAXIMUM", x, scaled(g, x, 1.5)),
        lambda g, x: one(g, "MINIMUM", x, scaled(g, x)),
        lambda g, x: one(g, "MAXIMUM", x, scaled(g, g.tanh(x))),
        lambda g, x: prelu(g, x, [0.1, 0.1, 0.1, 0.2]),
        lambda g, x: prelu(g, x, [-0.1] * 4),
        lambda g, x: chosen(g, x, "GREATER", scaled(g, x), x),
        lambda g, x: g.sub(scaled(g, g.relu(one(g, "NEG", x))), g.relu(x)),
        lambda g, x: g.add(g.relu(x), g.relu(one(g, "NEG", x))),
    ],
)
def test_other_formulas_stay(draw: Draw) -> None:
    assert_refuses(drawn(draw), LEAKY_RELU)
