"""Operators that GPU delegates refuse come out the same by others."""

from __future__ import annotations

from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one

from hasten.rewrites.plain_forms import READ_ONCE, UNIT_CLAMPS


def test_a_clamp_to_one_by_two_operators() -> None:
    assert_becomes(drawn(lambda g, x: one(g, "RELU_0_TO_1", x)), ["RELU", "MINIMUM"], UNIT_CLAMPS)


def test_a_value_is_read_once() -> None:
    assert_becomes(drawn(lambda g, x: g.mul(x, x)), ["SQUARE"], READ_ONCE)
    assert_becomes(drawn(lambda g, x: g.add(x, x, activation="relu6")), ["MUL"], READ_ONCE)


def test_two_values_and_clamped_squares_stay() -> None:
    assert_refuses(drawn(lambda g, x: g.mul(x, constant(g, 2))), READ_ONCE)
    assert_refuses(drawn(lambda g, x: g.mul(x, x, activation="relu6")), READ_ONCE)
