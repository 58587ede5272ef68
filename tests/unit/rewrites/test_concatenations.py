"""Trees of concatenations become flat as far as XNNPACK takes them, and wide ones become trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses, operators, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build import like
from hasten.rewrites.concatenations import CONCATENATIONS, NARROW_CONCATENATIONS
from hasten.rewrites.rewrite import EXACT

if TYPE_CHECKING:
    from hasten.model.build_graph import Value

SCALE = 4 / 127


def inputs(count: int, dtype: str = "float32") -> tuple[ModelBuilder, list[Value]]:
    g = ModelBuilder()
    scale = SCALE if dtype == "int8" else None
    return g, [g.input(f"x{number}", (2, 3, 4), dtype, scale=scale) for number in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_tree_becomes_flat(dtype: str) -> None:
    g, (a, b, c, d) = inputs(4, dtype)
    tree = g.concatenation([g.concatenation([g.concatenation([a, b], 1), c], -2), d, d], 1)
    g.output(tree, "y")
    before = g.build()
    after = rewritten(before, CONCATENATIONS)
    assert operators(after) == {"CONCATENATION": 1}
    assert_equal_outputs(before, after, EXACT)


def test_no_more_inputs_than_xnnpack_takes() -> None:
    g, values = inputs(6)
    g.output(g.concatenation([g.concatenation(values[:3], 1), *values[3:]], 1), "y")
    assert_refuses(g.build(), CONCATENATIONS)


def test_other_axes_other_readers_and_activations_stay() -> None:
    g, (a, b) = inputs(2)
    inner = g.concatenation([a, b], 2)
    g.output(g.concatenation([inner, inner], 1), "other axis")
    shared = g.concatenation([a, b], 1)
    g.output(g.concatenation([shared, a], 1), "shared")
    g.output(g.relu(shared), "reader")
    (fused,) = g.operator(
        "CONCATENATION",
        [a, b],
        [like(a, shape=(2, 6, 4))],
        options_type="ConcatenationOptions",
        axis=1,
        fusedActivationFunction=1,
    )
    g.output(g.concatenation([fused, a], 1), "activation")
    assert_refuses(g.build(), CONCATENATIONS)


def test_what_was_split_is_not_joined_again() -> None:
    g, (a, b) = inputs(2)
    whole = g.add(a, b)
    parts = g.operator(
        "SPLIT",
        [g.constant(np.array(1, np.int32)), whole],
        [like(whole, shape=(2, 1, 4))] * 3,
        options_type="SplitOptions",
        numSplits=3,
    )
    g.output(g.relu(g.concatenation(parts, 1)), "y")
    before = g.build()
    after = rewritten(before, CONCATENATIONS)
    assert operators(after) == {"ADD": 1, "RELU": 1}
    assert_equal_outputs(before, after, EXACT)


def test_parts_in_another_order_stay() -> None:
    g, (a,) = inputs(1)
    axis = g.constant(np.array(2, np.int32))
    parts = g.operator("SPLIT", [axis, a], [like(a, shape=(2, 3, 2))] * 2, options_type="SplitOptions", numSplits=2)
    g.output(g.relu(g.concatenation(parts[::-1], 2)), "swapped")
    g.output(g.relu(g.concatenation(parts, 1)), "other axis")
    assert_refuses(g.build(), CONCATENATIONS)


@pytest.mark.parametrize("count", [6, 7, 26])
def test_a_wide_one_becomes_a_tree(count: int) -> None:
    g, values = inputs(count)
    g.output(g.concatenation(values, 1), "y")
    before = g.build()
    after = rewritten(before, NARROW_CONCATENATIONS)
    assert operators(after)["CONCATENATION"] > 1
    assert_equal_outputs(before, after, EXACT)
    assert_refuses(after, CONCATENATIONS, NARROW_CONCATENATIONS)
