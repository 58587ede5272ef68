"""Chains that only change a shape become one RESHAPE, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses, operators, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build import like
from hasten.model.build_graph import Spec
from hasten.rewrites.reshapes import RESHAPES
from hasten.rewrites.rewrite import EXACT

if TYPE_CHECKING:
    from hasten.model.build_graph import Value

SCALE = 4 / 127


def squeeze(g: ModelBuilder, x: Value, axis: int) -> Value:
    spec = like(x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))
    (value,) = g.operator("SQUEEZE", [x], [spec], options_type="SqueezeOptions", squeezeDims=[axis])
    return value


def expand(g: ModelBuilder, x: Value, axis: int) -> Value:
    spec = like(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))
    inputs = [x, g.constant(np.array(axis, np.int32))]
    (value,) = g.operator("EXPAND_DIMS", inputs, [spec], options_type="ExpandDimsOptions")
    return value


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("batch", [-1, 1, 3])
def test_a_chain_becomes_one(dtype: str, batch: int) -> None:
    g = ModelBuilder()
    x = g.input("x", (batch, 4, 6), dtype, scale=SCALE if dtype == "int8" else None)
    y = g.reshape(g.relu(x), (x.shape[0], 24))
    y = squeeze(g, expand(g, g.reshape(y, (x.shape[0], 2, 12)), 1), 1)
    g.output(g.tanh(expand(g, y, 3)), "y")
    before = g.build()
    after = rewritten(before, RESHAPES)
    assert operators(after) == {"RELU": 1, "RESHAPE": 1, "TANH": 1}
    assert_equal_outputs(before, after, EXACT)


@pytest.mark.parametrize("batch", [-1, 3])
def test_a_way_there_and_back_vanishes(batch: int) -> None:
    g = ModelBuilder()
    x = g.input("x", (batch, 4, 6))
    g.output(g.reshape(g.reshape(g.relu(x), (x.shape[0], 24)), x.shape), "y")
    before = g.build()
    after = rewritten(before, RESHAPES)
    assert operators(after) == {"RELU": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_squeeze_alone_becomes_a_reshape() -> None:
    g = ModelBuilder()
    g.output(g.softmax(squeeze(g, g.input("x", (2, 1, 5)), 1)), "y")
    before = g.build()
    after = rewritten(before, RESHAPES)
    assert operators(after) == {"RESHAPE": 1, "SOFTMAX": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_shape_that_others_read_stays() -> None:
    g = ModelBuilder()
    flat = g.reshape(g.input("x", (2, 3, 4)), (2, 12))
    g.output(g.softmax(flat), "flat")
    g.output(g.relu(g.reshape(flat, (6, 4))), "other")
    assert_refuses(g.build(), RESHAPES)


def test_an_input_that_is_an_output_stays_copied() -> None:
    g = ModelBuilder()
    x = g.input("x", (2, 3))
    g.output(g.reshape(x, (2, 3)), "y")
    assert_refuses(g.build(), RESHAPES)


def test_a_shape_that_is_known_at_run_time_only_stays() -> None:
    g = ModelBuilder()
    x, shape = g.input("x", (2, 3)), g.input("shape", (2,), "int32")
    (y,) = g.operator("RESHAPE", [g.reshape(x, (6,)), shape], [Spec((2, 3))], options_type="ReshapeOptions")
    g.output(y, "y")
    assert_refuses(g.build(), RESHAPES)
