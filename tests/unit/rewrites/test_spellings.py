"""Formulas are found in whatever order their sums and products are written."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from equal import assert_equal_outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import constant, one, ops, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Value
from hasten.rewrites.gelu import GELU
from hasten.rewrites.hard_swish import HARD_SWISH
from hasten.rewrites.layer_norm import LAYER_NORM

if TYPE_CHECKING:
    from collections.abc import Sequence

    Part = Value | float


class Speller:
    """Writes sums and products in an order that is drawn."""

    def __init__(self, draw: st.DrawFn, g: ModelBuilder) -> None:
        self._draw, self._g = draw, g

    def product(self, *parts: Part) -> Value:
        return self._joined(parts, "MUL")

    def total(self, *parts: Part) -> Value:
        return self._joined(parts, "ADD")

    def _joined(self, parts: Sequence[Part], op: str) -> Value:
        left = list(parts)
        while len(left) > 1:
            left = self._draw(st.permutations(left))
            first, second = left.pop(), left.pop()
            left.append(self._pair(first, second, op))
        (found,) = left
        assert isinstance(found, Value)
        return found

    def _pair(self, first: Part, second: Part, op: str) -> Part:
        g, is_product = self._g, op == "MUL"
        if isinstance(first, Value) and isinstance(second, Value):
            if first is second and is_product and self._draw(st.booleans()):
                return one(g, "SQUARE", first)
            return g.mul(first, second) if is_product else g.add(first, second)
        if isinstance(first, Value):
            first, second = second, first
        assert not isinstance(first, Value)
        if not isinstance(second, Value):
            return first * second if is_product else first + second
        if self._draw(st.booleans()):  # the opposite operator, by the opposite constant
            if is_product:
                return one(g, "DIV", second, constant(g, 1 / first), table="DivOptions")
            return g.sub(second, constant(g, -first))
        operands = self._draw(st.permutations([second, constant(g, first)]))
        return g.mul(*operands) if is_product else g.add(*operands)


@st.composite
def hard_swishes(draw: st.DrawFn) -> bytes:
    g = ModelBuilder()
    spell = Speller(draw, g)
    x = g.tanh(g.input("x", (1, 4, 6)))
    x = g.mul(x, constant(g, 5))
    g.output(spell.product(x, g.relu6(spell.total(x, 3.0)), 1 / 6), "y")
    return g.build()


@st.composite
def gelus(draw: st.DrawFn) -> bytes:
    g = ModelBuilder()
    spell = Speller(draw, g)
    x = g.input("x", (1, 4, 6))
    cube = spell.product(0.044715, x, x, x)
    argument = spell.product(sqrt(2 / pi), spell.total(x, cube))
    g.output(spell.product(0.5, x, spell.total(1.0, g.tanh(argument))), "y")
    return g.build()


@st.composite
def layer_norms(draw: st.DrawFn) -> bytes:
    """A norm as x·i - mean·i + shift, whose scale is in i."""
    g = ModelBuilder()
    spell = Speller(draw, g)
    x = g.input("x", (1, 4, 6))
    mean = g.mean(x, [-1], keep_dims=True)
    variance = g.mean(one(g, "SQUARED_DIFFERENCE", x, mean), [-1], keep_dims=True)
    inverse = one(g, "RSQRT", spell.total(variance, 1e-3))
    scale, shift = constant(g, [1, 2, 3, 4, 5, 6]), constant(g, [6, 5, 4, 3, 2, 1])
    parts = [spell.product(x, inverse, scale), spell.product(mean, inverse, scale, -1.0), shift]
    g.output(spell.total(*parts), "y")
    return g.build()


@given(data=hard_swishes())
@settings(max_examples=50, deadline=None)
def test_hard_swish(data: bytes) -> None:
    after = rewritten(data, HARD_SWISH)
    assert ops(after) == ["TANH", "MUL", "HARD_SWISH"]
    assert_equal_outputs(data, after, HARD_SWISH.tolerance)


@given(data=gelus())
@settings(max_examples=50, deadline=None)
def test_gelu(data: bytes) -> None:
    after = rewritten(data, GELU)
    assert ops(after) == ["GELU"]
    assert_equal_outputs(data, after, GELU.tolerance)


@given(data=layer_norms())
@settings(max_examples=50, deadline=None)
def test_layer_norm(data: bytes) -> None:
    after = rewritten(data, LAYER_NORM)
    assert ops(after) == ["MEAN", "SUB", "SQUARE", "MEAN", "ADD", "RSQRT", "MUL", "MUL", "ADD"]
    # The difference of two large products loses digits in the original.
    assert_equal_outputs(data, after, 10 * LAYER_NORM.tolerance)
