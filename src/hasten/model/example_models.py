"""Ready-made models: synthetic loads for measuring a machine, and the shape of a network that users bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.model.build import ModelBuilder

if TYPE_CHECKING:
    from hasten.model.build_graph import Value

# Makes the range of int8 model inputs -4…4, which suits normalized images.
INPUT_SCALE = 4 / 127


def mobilenet_like(width: int = 16, blocks: int = 3, size: int = 32, *, dtype: str = "float32", seed: int = 0) -> bytes:
    """Return a classifier of inverted residuals, as MobileNetV2: `width` channels at first, doubled in each block."""
    g = ModelBuilder(seed)
    y = g.conv2d(scaled_input(g, (1, size, size, 3), dtype), width, 3, 2, activation="relu6")
    for block in range(blocks):
        y = _inverted_residual(g, y, width << block, stride=2 if block else 1)
        y = _inverted_residual(g, y, width << block, stride=1)
    g.output(g.softmax(g.fully_connected(g.mean(y), 10)), "probabilities")
    return g.build()


def matmul_chain(rows: int = 256, units: int = 512, layers: int = 4, *, dtype: str = "float32", seed: int = 0) -> bytes:
    """Return square matrix products, whose time is arithmetic: `layers` · `rows` · `units`² multiply-adds.

    With the defaults each layer's weights and activations fit a common second-level cache, and every weight that is
    loaded is used `rows` times.
    """
    g = ModelBuilder(seed)
    y = scaled_input(g, (rows, units), dtype)
    for _ in range(layers):
        y = g.fully_connected(y, units)
    g.output(y, "y")
    return g.build()


def stream(megabytes: float = 64, layers: int = 1, *, dtype: str = "float32") -> bytes:
    """Return additions of large tensors, whose time is memory traffic: 3 · `megabytes` a layer.

    Only float32 is bound by memory: int8 additions must rescale, and are as slow within the cache as beyond it.
    """
    g = ModelBuilder()
    shape = (1, int(megabytes * 2**20) // np.dtype(dtype).itemsize)
    y, other = scaled_input(g, shape, dtype, "x"), scaled_input(g, shape, dtype, "other")
    for _ in range(layers):
        y = g.add(y, other)
    g.output(y, "y")
    return g.build()


def scaled_input(g: ModelBuilder, shape: tuple[int, ...], dtype: str, name: str = "x") -> Value:
    """Add an input; one of int8 has the usual scale."""
    return g.input(name, shape, dtype, scale=INPUT_SCALE if dtype == "int8" else None)


def _inverted_residual(g: ModelBuilder, x: Value, channels: int, *, stride: int, expansion: int = 4) -> Value:
    y = g.conv2d(x, x.shape[-1] * expansion, activation="relu6")
    y = g.depthwise_conv2d(y, 3, stride, activation="relu6")
    y = g.conv2d(y, channels)
    return g.add(x, y) if y.shape == x.shape else y
