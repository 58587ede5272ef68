"""HARD_SWISH is found in every spelling of it, and in nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one
from tests.model_builder import ModelBuilder

from hasten.rewrites.hard_swish import HARD_SWISH

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]


def divided(g: ModelBuilder, x: Value, number: float) -> Value:
    return one(g, "DIV", x, constant(g, number), table="DivOptions")


def gate_of_extremes(g: ModelBuilder, x: Value) -> Value:
    return one(g, "MINIMUM", one(g, "MAXIMUM", g.add(constant(g, 3), x), constant(g, 0)), constant(g, [6]))


def unit_gate(g: ModelBuilder, x: Value) -> Value:
    return one(g, "RELU_0_TO_1", g.add(g.mul(x, constant(g, 1 / 6)), constant(g, 0.5)))


SPELLINGS: dict[str, Draw] = {
    "fused": lambda g, x: g.mul(g.mul(x, g.add(x, constant(g, 3), activation="relu6")), constant(g, 1 / 6)),
    "relu6": lambda g, x: g.mul(x, g.mul(g.relu6(g.add(constant(g, 3), x)), constant(g, 1 / 6))),
    "divided": lambda g, x: divided(g, g.mul(g.relu6(g.add(x, constant(g, 3))), x), 6),
    "scaled first": lambda g, x: g.mul(g.mul(x, constant(g, 1 / 6)), g.relu6(g.add(x, constant(g, 3)))),
    "subtracted": lambda g, x: divided(g, g.mul(g.relu6(g.sub(x, constant(g, -3))), x), 6),
    "extremes": lambda g, x: divided(g, g.mul(x, gate_of_extremes(g, x)), 6),
    "unit": lambda g, x: g.mul(x, unit_gate(g, x)),
}
OTHERS: dict[str, Draw] = {
    "another shift": lambda g, x: divided(g, g.mul(x, g.relu6(g.add(x, constant(g, 2)))), 6),
    "another factor": lambda g, x: divided(g, g.mul(x, g.relu6(g.add(x, constant(g, 3)))), 6.01),
    "hard sigmoid": lambda g, x: divided(g, g.relu6(g.add(x, constant(g, 3))), 6),
    "another value": lambda g, x: divided(g, g.mul(g.tanh(x), g.relu6(g.add(x, constant(g, 3)))), 6),
    "another activation": lambda g, x: divided(g, g.mul(x, g.relu(g.add(x, constant(g, 3)))), 6),
    "clamped result": lambda g, x: g.mul(
        g.mul(x, g.relu6(g.add(x, constant(g, 3)))), constant(g, 1 / 6), activation="relu"
    ),
    "a shift for each channel": lambda g, x: divided(g, g.mul(x, g.relu6(g.add(x, constant(g, [3, 3, 3, 2])))), 6),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_found(spelling: str) -> None:
    assert_becomes(drawn(SPELLINGS[spelling], spread=4), ["MUL", "HARD_SWISH"], HARD_SWISH)


@pytest.mark.parametrize("other", OTHERS)
def test_other_formulas_stay(other: str) -> None:
    assert_refuses(drawn(OTHERS[other], spread=4), HARD_SWISH)


def test_the_sum_before_it_stays() -> None:
    """The value that is gated may itself be made by arithmetic."""
    data = drawn(lambda g, x: SPELLINGS["fused"](g, g.add(g.tanh(x), x)), spread=4)
    assert_becomes(data, ["MUL", "TANH", "ADD", "HARD_SWISH"], HARD_SWISH)


def test_a_gate_that_others_read_stays() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    gate = g.relu6(g.add(x, constant(g, 3)))
    g.output(divided(g, g.mul(x, gate), 6), "y")
    g.output(gate, "gate")
    assert_refuses(g.build(), HARD_SWISH)


def test_several_and_with_an_open_batch() -> None:
    data = drawn(lambda g, x: SPELLINGS["fused"](g, g.conv2d(SPELLINGS["unit"](g, x), 4)), (-1, 4, 4, 4), spread=4)
    assert_becomes(data, ["MUL", "HARD_SWISH", "CONV_2D", "HARD_SWISH"], HARD_SWISH)
