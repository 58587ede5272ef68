"""SELECT by comparing its own values is an extreme; any SELECT is arithmetic with a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one

from hasten.rewrites.selections import EXTREMES, MASKS

if TYPE_CHECKING:
    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

TABLES = {
    "GREATER": "GreaterOptions",
    "GREATER_EQUAL": "GreaterEqualOptions",
    "LESS": "LessOptions",
    "LESS_EQUAL": "LessEqualOptions",
}


def compared(g: ModelBuilder, op: str, a: Value, b: Value) -> Value:
    return one(g, op, a, b, dtype="bool", table=TABLES[op])


def selected(g: ModelBuilder, condition: Value, yes: Value, no: Value, op: str = "SELECT_V2") -> Value:
    table = "SelectV2Options" if op == "SELECT_V2" else "SelectOptions"
    return one(g, op, condition, yes, no, dtype="float32", table=table)


@pytest.mark.parametrize("op", TABLES)
@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("select", ["SELECT", "SELECT_V2"])
def test_the_greater_or_the_lesser_of_two(op: str, is_swapped: bool, select: str) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.tanh(x)
        condition = compared(g, op, y, x) if is_swapped else compared(g, op, x, y)
        return selected(g, condition, x, y, select)

    expected = "MAXIMUM" if op.startswith("GREATER") != is_swapped else "MINIMUM"
    assert_becomes(drawn(draw), ["TANH", expected], EXTREMES)


def test_other_choices_stay() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.tanh(x)
        return selected(g, compared(g, "LESS", x, constant(g, 0)), x, y)

    assert_refuses(drawn(draw), EXTREMES)


def test_a_choice_is_a_sum_with_a_mask() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return selected(g, compared(g, "LESS", x, constant(g, 0.2)), g.tanh(x), g.mul(x, constant(g, 3)))

    assert_becomes(drawn(draw), ["LESS", "TANH", "MUL", "CAST", "MUL", "SUB", "MUL", "ADD"], MASKS)


@pytest.mark.parametrize("is_yes", [True, False])
def test_zeros_need_no_part_of_their_own(is_yes: bool) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        zero = constant(g, 0)
        branches = (zero, g.tanh(x)) if is_yes else (g.tanh(x), zero)
        return selected(g, compared(g, "LESS", x, constant(g, 0.2)), *branches)

    assert_becomes(drawn(draw), ["TANH", "LESS", "CAST", *(["SUB"] if is_yes else []), "MUL"], MASKS)


def test_a_mask_that_broadcasts() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        mask = g.constant(np.array([[True, False, True, True]]))
        return selected(g, mask, x, constant(g, -1e9))

    assert_becomes(drawn(draw), ["CAST", "MUL", "SUB", "MUL", "ADD"], MASKS)


def test_infinite_constants_would_become_nan() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return selected(g, compared(g, "LESS", x, constant(g, 0.2)), x, constant(g, -np.inf))

    assert_refuses(drawn(draw), MASKS)
