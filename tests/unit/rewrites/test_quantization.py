"""What QUANTIZE and DEQUANTIZE undo goes; what rounds or clips stays, or is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses
from rewritten import assert_becomes, one, ops, rewritten
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.model.build_bytes import Quantization
from hasten.model.edit.model import EditedModel
from hasten.rewrites.quantization import FLOAT16_CONSTANTS, QUANTIZATION_PAIRS, REQUANTIZATIONS
from hasten.rewrites.registry import REWRITES
from hasten.rewrites.rewrite import ROUNDING, apply

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value
    from hasten.rewrites.rewrite import Rewrite

    Draw = Callable[[ModelBuilder, Value], Value]

SCALE = 4 / 127
FINE, COARSE = Quantization((SCALE / 2,), (3,)), Quantization((2 * SCALE,), (-5,))


def drawn(draw: Draw) -> bytes:
    """A model from int8 to int8."""
    g = ModelBuilder()
    x = g.input("x", (1, 6, 6, 4), "int8", scale=SCALE)
    g.output(draw(g, g.conv2d(x, 4)), "y")
    return g.build()


def back(g: ModelBuilder, x: Value, y: Value) -> Value:
    """A float value as integers of the scale of `x`."""
    assert x.quantization is not None
    return g.quantize(y, x.quantization)


def test_a_pair_of_one_scale_goes() -> None:
    data = drawn(lambda g, x: g.conv2d(back(g, x, g.dequantize(x)), 3))
    assert_becomes(data, ["CONV_2D", "CONV_2D"], QUANTIZATION_PAIRS)


def test_a_pair_before_an_output_goes() -> None:
    assert_becomes(drawn(lambda g, x: back(g, x, g.dequantize(x))), ["CONV_2D"], QUANTIZATION_PAIRS)


MOVES: dict[str, Draw] = {
    "RESHAPE": lambda g, x: g.reshape(x, (1, 36, 4)),
    "TRANSPOSE": lambda g, x: g.transpose(x, (0, 3, 1, 2)),
    "MAX_POOL_2D": lambda g, x: g.max_pool2d(x),
}


@pytest.mark.parametrize("op", MOVES)
def test_moves_are_made_with_integers(op: str) -> None:
    data = drawn(lambda g, x: back(g, x, MOVES[op](g, g.dequantize(x))))
    assert_becomes(data, ["CONV_2D", op], QUANTIZATION_PAIRS)


def test_what_computes_stays_in_floats() -> None:
    assert_refuses(drawn(lambda g, x: back(g, x, g.tanh(g.dequantize(x)))), QUANTIZATION_PAIRS)
    assert_refuses(drawn(lambda g, x: back(g, x, g.average_pool2d(g.dequantize(x)))), QUANTIZATION_PAIRS)


def test_another_scale_is_no_pair() -> None:
    data = drawn(lambda g, x: g.quantize(g.dequantize(x), COARSE))
    assert_refuses(data, QUANTIZATION_PAIRS)
    assert_becomes(data, ["CONV_2D", "QUANTIZE"], REQUANTIZATIONS)


def test_rounding_to_integers_and_back_stays() -> None:
    g = ModelBuilder()
    g.output(g.dequantize(g.quantize(g.tanh(g.input("x", (1, 8))), FINE)), "y")
    assert_refuses(g.build(), QUANTIZATION_PAIRS, REQUANTIZATIONS)


@pytest.mark.parametrize(("first", "second", "is_merged"), [(COARSE, FINE, True), (FINE, COARSE, False)])
def test_two_roundings_become_one_if_no_value_is_clipped_less(
    first: Quantization, second: Quantization, is_merged: bool
) -> None:
    data = drawn(lambda g, x: g.quantize(g.quantize(x, first), second))
    if is_merged:
        assert_becomes(data, ["CONV_2D", "QUANTIZE"], REQUANTIZATIONS)
    else:
        assert_refuses(data, REQUANTIZATIONS)


def test_signed_and_unsigned_bytes_are_a_pair() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        unsigned = one(g, "QUANTIZE", x, dtype="uint8", table="QuantizeOptions", version=2)
        return g.conv2d(back(g, x, unsigned), 3)

    model = EditedModel.from_bytes(drawn(draw))
    graph = model.main
    middle = next(operator for operator in graph.operators if graph.is_op(operator, "QUANTIZE")).outputs[0]
    # The builder's own scale has its zero at zero, which is 128 among bytes without a sign.
    graph.tensor(middle).quantization.zeroPoint = [128]
    data = model.to_bytes()
    assert_becomes(data, ["CONV_2D", "CONV_2D"], QUANTIZATION_PAIRS)


def test_float16_weights_become_constants() -> None:
    g = ModelBuilder(weights="float16")
    x = g.input("x", (1, 6, 6, 3))
    g.output(g.fully_connected(g.conv2d(x, 4, 3), 5), "y")
    data = g.build()
    assert_becomes(data, ["CONV_2D", "FULLY_CONNECTED"], FLOAT16_CONSTANTS)
    (first, _) = apply(EditedModel.from_bytes(data), [FLOAT16_CONSTANTS])["float16-constants"]
    assert first.facts["bytes"] == 4 * 3 * 3 * 3 * 2


def test_float16_weights_stay_where_no_other_rewrite_needs_their_numbers() -> None:
    """The file must not double for the one layer that takes something in."""
    g = ModelBuilder(weights="float16")
    x = g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3)
    g.output(g.conv2d(g.mul(x, g.constant(np.full(4, 0.3, np.float32))), 16, 5), "y")
    data = g.build()
    model = EditedModel.from_bytes(data)
    changes = apply(model, REWRITES)
    after = model.to_bytes()
    assert set(changes) == {"float16-constants", "affine"}
    assert ops(after) == ["CONV_2D", "DEQUANTIZE", "CONV_2D"]
    assert_equal_outputs(data, after, ROUNDING)


def test_float16_weights_alone_are_nothing_to_rewrite() -> None:
    g = ModelBuilder(weights="float16")
    g.output(g.conv2d(g.input("x", (1, 6, 6, 3)), 4, 3), "y")
    data = g.build()
    model = EditedModel.from_bytes(data)
    assert apply(model, REWRITES) == {}
    assert ops(model.to_bytes()) == ops(data)
    assert_equal_outputs(data, model.to_bytes(), 0)


@pytest.mark.parametrize("rewrite", [QUANTIZATION_PAIRS, REQUANTIZATIONS, FLOAT16_CONSTANTS])
def test_a_quantized_network_stays_as_it_is(rewrite: Rewrite) -> None:
    data = example_models.mobilenet_like(dtype="int8")
    after = rewritten(data, rewrite)
    assert ops(after) == ops(data)
    assert_equal_outputs(data, after, 0)
