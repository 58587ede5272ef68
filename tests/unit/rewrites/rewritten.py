"""Drawing models for rewrites, applying them, and asking what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from equal import assert_equal_outputs, assert_refuses
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec
from hasten.model.edit.model import EditedModel
from hasten.rewrites.rewrite import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.model.build_graph import Value
    from hasten.rewrites.rewrite import Rewrite

SHAPE = (1, 6, 5, 4)


def drawn(draw: Callable[[ModelBuilder, Value], Value], shape: Sequence[int] = SHAPE, *, spread: float = 1.0) -> bytes:
    """A model from one input to one output; what is drawn starts from normal values with a deviation of `spread`."""
    g = ModelBuilder()
    x = g.input("x", shape)
    g.output(draw(g, x if spread == 1 else g.mul(x, constant(g, spread))), "y")
    return g.build()


def constant(g: ModelBuilder, values: Any) -> Value:
    """A float constant."""
    return g.constant(np.asarray(values, np.float32))


def integers(g: ModelBuilder, values: Any) -> Value:
    """A constant of axes, sizes or indices."""
    return g.constant(np.asarray(values, np.int32))


def one(
    g: ModelBuilder,
    code: str,
    *inputs: Value,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    table: str = "",
    **options: Any,
) -> Value:
    """Any operator with one output; of the inputs' broadcast shape and the first one's type, unless told."""
    sizes = np.broadcast_shapes(*(value.shape for value in inputs)) if shape is None else tuple(shape)
    first = inputs[0]
    spec = Spec(sizes, dtype or first.dtype, first.quantization, any(value.dynamic_batch for value in inputs))
    (made,) = g.operator(code, inputs, [spec], options_type=table, **options)
    return made


def convolution(
    g: ModelBuilder,
    x: Value,
    kernel: tuple[int, int],
    channels: int,
    *,
    stride: int = 1,
    padding: str = "same",
    activation: int = 0,
) -> Value:
    """CONV_2D with a kernel of any height and width; the stride is that of the width."""
    random = np.random.default_rng(7)
    height, width = kernel
    weights = constant(g, random.standard_normal((channels, height, width, x.shape[3])) / (height * width) ** 0.5)
    bias = constant(g, random.standard_normal(channels))
    rows = x.shape[1] if padding == "same" else x.shape[1] - height + 1
    columns = -(-x.shape[2] // stride) if padding == "same" else (x.shape[2] - width) // stride + 1
    options: dict[str, Any] = {"padding": 0 if padding == "same" else 1, "strideW": stride, "strideH": 1}
    shape = (x.shape[0], rows, columns, channels)
    return one(
        g,
        "CONV_2D",
        x,
        weights,
        bias,
        shape=shape,
        table="Conv2DOptions",
        fusedActivationFunction=activation,
        **options,
    )


def rewritten(data: bytes, *rewrites: Rewrite) -> bytes:
    """The file after these rewrites."""
    model = EditedModel.from_bytes(data)
    apply(model, rewrites)
    return model.to_bytes()


def ops(data: bytes) -> list[str]:
    """The operators of a file's main graph."""
    graph = EditedModel.from_bytes(data).main
    return [graph.op(operator) for operator in graph.operators]


def assert_becomes(data: bytes, expected: Sequence[str], *rewrites: Rewrite) -> bytes:
    """These operators are left, the outputs are what they were, and a second try finds nothing."""
    after = rewritten(data, *rewrites)
    assert ops(after) == list(expected)
    assert_equal_outputs(data, after, max(rewrite.tolerance for rewrite in rewrites))
    assert_refuses(after, *(rewrite for rewrite in rewrites if not rewrite.is_form))
    return after
