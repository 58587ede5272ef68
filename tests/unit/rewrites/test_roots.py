"""POW by small exponents and divisions by roots become operators that XNNPACK takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, one

from hasten.rewrites.roots import ROOTS

if TYPE_CHECKING:
    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value


def positive(g: ModelBuilder, x: Value) -> Value:
    return g.add(one(g, "ABS", x), constant(g, 0.5))


def power(g: ModelBuilder, x: Value, exponent: float) -> Value:
    return one(g, "POW", positive(g, x), constant(g, exponent))


def root(g: ModelBuilder, x: Value) -> Value:
    return one(g, "SQRT", positive(g, x))


def divided(g: ModelBuilder, a: Value, b: Value) -> Value:
    return one(g, "DIV", a, b, table="DivOptions")


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(2, ["SQUARE"]), (3, ["SQUARE", "MUL"]), (0.5, ["SQRT"]), (-0.5, ["RSQRT"]), (-1, ["DIV"])],
)
def test_small_exponents_need_no_power(exponent: float, expected: list[str]) -> None:
    assert_becomes(drawn(lambda g, x: power(g, x, exponent)), ["ABS", "ADD", *expected], ROOTS)


@pytest.mark.parametrize("exponent", [1.5, 4.0, 0.3])
def test_other_exponents_stay(exponent: float) -> None:
    assert_refuses(drawn(lambda g, x: power(g, x, exponent)), ROOTS)
    assert_refuses(drawn(lambda g, x: one(g, "POW", positive(g, x), constant(g, [1, 2, 2, 2]))), ROOTS)


def test_divisions_by_roots_become_products() -> None:
    assert_becomes(drawn(lambda g, x: divided(g, constant(g, 1), root(g, x))), ["ABS", "ADD", "RSQRT"], ROOTS)
    assert_becomes(drawn(lambda g, x: divided(g, x, root(g, x))), ["ABS", "ADD", "RSQRT", "MUL"], ROOTS)
    assert_becomes(
        drawn(lambda g, x: divided(g, x, one(g, "POW", positive(g, x), constant(g, 0.5)))),
        ["ABS", "ADD", "RSQRT", "MUL"],
        ROOTS,
    )


def test_a_root_that_others_read_stays() -> None:
    assert_refuses(drawn(lambda g, x: g.add(y := root(g, x), divided(g, x, y))), ROOTS)
