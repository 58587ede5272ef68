"""The formula of a value is right however it is spelled, and a pattern takes nothing that others read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import constant, one
from tests.model_builder import ModelBuilder

from hasten.model.edit.model import EditedModel
from hasten.rewrites.patterns import clamped, cone, polynomial, same_polynomial

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hasten.model.build_graph import Value
    from hasten.model.edit.graph import EditedGraph
    from hasten.rewrites.patterns import Polynomial

    Array = NDArray[Any]

STEPS: dict[str, Callable[..., Array]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "NEG": np.negative,
    "SQUARE": np.square,
    "SQUARED_DIFFERENCE": lambda first, second: (first - second) ** 2,
}
TABLES = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def graph_of(g: ModelBuilder, *values: Value) -> EditedGraph:
    for value in values:
        g.output(value)
    return EditedModel.from_bytes(g.build()).main


def evaluated(found: Polynomial, x: Array) -> Array:
    total = np.zeros_like(x)
    for term, factor in found.items():
        total = total + factor * x ** len(term)
    return total


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.sampled_from([-2.0, -0.5, 0.25, 1.0, 3.0])),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_the_polynomial_of_a_value_is_its_formula(steps: list[tuple[str, int, float]]) -> None:
    g = ModelBuilder()
    numbers = np.linspace(-1, 1, 8)
    drawn = [(g.input("x", (1, 8)), numbers)]
    largest = 1.0
    for op, place, number in steps:
        first = drawn[place % len(drawn)]
        other = (constant(g, number), np.full(8, number)) if place % 2 or op == "DIV" else drawn[-1]
        inputs = [first] if op in {"NEG", "SQUARE"} else [first, other]
        made = one(g, op, *(value for value, _ in inputs), table=TABLES.get(op, ""))
        drawn.append((made, STEPS[op](*(values for _, values in inputs))))
        largest = max(largest, float(np.abs(drawn[-1][1]).max()))
    graph = graph_of(g, drawn[-1][0])
    found = polynomial(graph, graph.outputs[0], graph.inputs)
    if found is not None:  # else it has too many terms
        # Both are rounded: in relation to the largest number on the way.
        scale = max(largest, sum(map(abs, found.values())))
        np.testing.assert_allclose(evaluated(found, numbers) / scale, drawn[-1][1] / scale, atol=1e-9)


def test_spellings_of_one_formula_are_one_polynomial() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    three = constant(g, 3)
    spellings = [
        g.mul(g.add(x, three), x),
        g.mul(x, g.add(three, x)),
        g.add(g.mul(x, x), g.mul(three, x)),
        g.sub(one(g, "SQUARE", x), one(g, "DIV", x, constant(g, -1 / 3), table="DivOptions")),
        g.add(one(g, "POW", x, constant(g, 2.0)), g.mul(constant(g, np.full((1, 4), 3)), x)),
    ]
    graph = graph_of(g, *spellings)
    (leaf,) = graph.inputs
    for tensor in graph.outputs:
        assert same_polynomial(polynomial(graph, tensor, [leaf]), {(leaf, leaf): 1.0, (leaf,): 3.0})


def test_what_is_no_polynomial_has_none() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    odd = [
        one(g, "DIV", x, x, table="DivOptions"),
        g.tanh(x),
        g.add(x, x, activation="relu"),
        one(g, "POW", x, constant(g, 0.5)),
        one(g, "DIV", x, constant(g, 0), table="DivOptions"),
    ]
    graph = graph_of(g, *odd)
    assert [polynomial(graph, tensor, graph.inputs) for tensor in graph.outputs] == [None] * len(odd)


def test_a_constant_that_is_no_scalar_stays_a_factor() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    graph = graph_of(g, g.mul(x, constant(g, [1, 2, 3, 4])))
    found = polynomial(graph, graph.outputs[0], graph.inputs)
    assert found is not None
    ((term, factor),) = found.items()
    assert (len(term), factor) == (2, 1.0)


@pytest.mark.parametrize("factor", [1 + 1e-4, 1 - 1e-5, -1.0])
def test_other_constants_are_another_formula(factor: float) -> None:
    assert same_polynomial({(3,): 1 / 6}, {(3,): np.float32(1 / 6)})
    assert not same_polynomial({(3,): factor / 6}, {(3,): 1 / 6})


def test_clamps_add_up_in_any_order() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    six, zero = constant(g, 6), constant(g, 0)
    values = [
        one(g, "MINIMUM", one(g, "MAXIMUM", zero, x), six),
        one(g, "MAXIMUM", one(g, "MINIMUM", x, six), zero),
        one(g, "MINIMUM", six, g.relu(x)),
        g.relu(g.relu6(x)),
    ]
    graph = graph_of(g, *values)
    for tensor in graph.outputs:
        found = clamped(graph, tensor)
        assert (found.tensor, found.low, found.high, found.is_fused) == (graph.inputs[0], 0.0, 6.0, False)


def test_a_cone_ends_where_others_read() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    inner = g.tanh(x)
    graph = graph_of(g, g.mul(x, g.logistic(inner)), g.logistic(g.tanh(inner)))
    shared, alone = (graph.producer(index) for index in graph.outputs)
    assert cone(graph, shared, graph.inputs) is None
    assert cone(graph, alone, graph.inputs) is None
    assert cone(graph, shared, [*graph.inputs, graph.operators[0].outputs[0]]) is not None
    chain = cone(graph, alone, [graph.operators[0].outputs[0]])
    assert chain is not None
    assert [graph.op(operator) for operator in chain] == ["TANH", "LOGISTIC"]
