"""Networks as exporters of NCHW models write them: a TRANSPOSE before and after each convolution, pool and resize, and
everything else in NCHW between them. Their weights are random; their shapes are those of real networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.model.build import like
from hasten.model.example_models import scaled_input
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from hasten.model.build_graph import Value

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
ANCHORS, PREDICTED = 3, 8


def detector(width: int = 16, depth: int = 1, size: int = 64, *, dtype: str = "float32", seed: int = 0) -> bytes:
    """Return a detector of the YOLO kind: a stem of strided slices, residual stages, pools, two scales, two heads."""
    g = ModelBuilder(seed)
    y = _conv(g, _focus(g, scaled_input(g, (1, 3, size, size), dtype)), width, 3)
    stages = []
    for stage in range(3):
        y = _residual_stage(g, _conv(g, y, width << (stage + 1), 3, 2), depth)
        stages.append(y)
    y = _pyramid(g, y)
    wide = g.concatenation([_upsampled(g, _conv(g, y, width << 2)), stages[1]], 1)
    wide = _residual_stage(g, _conv(g, wide, width << 2), depth)
    g.output(g.concatenation([_head(g, wide), _head(g, y)], 1), "boxes")
    return g.build()


def squeezed(width: int = 16, blocks: int = 3, size: int = 32, *, dtype: str = "float32", seed: int = 0) -> bytes:
    """Return a classifier with squeeze-and-excite, as MobileNetV3; its last layer reads a flattened NCHW value."""
    g = ModelBuilder(seed)
    y = _conv(g, scaled_input(g, (1, 3, size, size), dtype), width, 3, 2)
    for block in range(blocks):
        expanded = _conv(g, y, 2 * y.shape[1])
        z = g.transpose(g.depthwise_conv2d(g.transpose(expanded, TO_NHWC), 3, 2 if block else 1), TO_NCHW)
        weights = _conv(g, g.mean(z, (2, 3), keep_dims=True), max(1, y.shape[1] // 4))
        z = g.mul(z, g.logistic(_layer(g, weights, z.shape[1])))
        z = _layer(g, z, width << block)
        y = g.add(y, z) if y.shape == z.shape else z
    flat = g.reshape(y, (1, int(np.prod(y.shape))))
    g.output(g.softmax(g.fully_connected(flat, 10)), "probabilities")
    return g.build()


def shuffled(width: int = 16, units: int = 4, size: int = 32, *, dtype: str = "float32", seed: int = 0) -> bytes:
    """Return a classifier of channel splits and shuffles, as ShuffleNet V2."""
    g = ModelBuilder(seed)
    y = _conv(g, scaled_input(g, (1, 3, size, size), dtype), width, 3, 2)
    for _ in range(units):
        half = like(y, shape=(1, width // 2, *y.shape[2:]))
        axis = g.constant(np.array(1, np.int32))
        kept, z = g.operator("SPLIT", [axis, y], [half, half], options_type="SplitOptions", numSplits=2)
        z = g.transpose(g.depthwise_conv2d(g.transpose(_conv(g, z, width // 2), TO_NHWC), 3), TO_NCHW)
        y = _shuffle(g, g.concatenation([kept, _conv(g, z, width // 2)], 1))
    g.output(g.softmax(g.fully_connected(g.mean(y, (2, 3)), 10)), "probabilities")
    return g.build()


def _layer(g: ModelBuilder, x: Value, filters: int, kernel: int = 1, stride: int = 1) -> Value:
    """A convolution whose padding is an operator of its own, as PyTorch pads."""
    around = kernel // 2
    if around:
        x = g.pad(x, [(0, 0), (0, 0), (around, around), (around, around)])
    return g.transpose(g.conv2d(g.transpose(x, TO_NHWC), filters, kernel, stride, padding="valid"), TO_NCHW)


def _conv(g: ModelBuilder, x: Value, filters: int, kernel: int = 1, stride: int = 1) -> Value:
    return g.swish(_layer(g, x, filters, kernel, stride))


def _focus(g: ModelBuilder, x: Value) -> Value:
    """Rows first, then columns of the rows: six slices."""
    even, odd = (_every_second(g, x, 2, row) for row in (0, 1))
    return g.concatenation([_every_second(g, rows, 3, column) for column in (0, 1) for rows in (even, odd)], 1)


def _every_second(g: ModelBuilder, x: Value, axis: int, begin: int) -> Value:
    rows = np.array([[0, size, 1] for size in x.shape], np.int32)
    rows[axis] = (begin, x.shape[axis], 2)
    shape = tuple(size // 2 if place == axis else size for place, size in enumerate(x.shape))
    inputs = [x, *(g.constant(np.ascontiguousarray(rows[:, column])) for column in range(3))]
    (value,) = g.operator("STRIDED_SLICE", inputs, [like(x, shape=shape)], options_type="StridedSliceOptions")
    return value


def _residual_stage(g: ModelBuilder, x: Value, depth: int) -> Value:
    half = x.shape[1] // 2
    y = _conv(g, x, half)
    for _ in range(depth):
        y = g.add(y, _conv(g, _conv(g, y, half), half, 3))
    return _conv(g, g.concatenation([y, _conv(g, x, half)], 1), x.shape[1])


def _pyramid(g: ModelBuilder, x: Value) -> Value:
    y = _conv(g, x, x.shape[1] // 2)
    pools = [
        g.transpose(g.max_pool2d(g.transpose(y, TO_NHWC), kernel, 1, padding="same"), TO_NCHW) for kernel in (3, 5)
    ]
    return _conv(g, g.concatenation([y, *pools], 1), x.shape[1])


def _upsampled(g: ModelBuilder, x: Value) -> Value:
    y = g.transpose(x, TO_NHWC)
    sides = [2 * side for side in y.shape[1:3]]
    inputs = [y, g.constant(np.array(sides, np.int32))]
    spec = like(y, shape=(y.shape[0], *sides, y.shape[3]))
    (value,) = g.operator("RESIZE_NEAREST_NEIGHBOR", inputs, [spec], options_type="ResizeNearestNeighborOptions")
    return g.transpose(value, TO_NCHW)


def _head(g: ModelBuilder, x: Value) -> Value:
    y = _layer(g, x, ANCHORS * PREDICTED)
    height, width = y.shape[2:]
    y = g.transpose(g.reshape(y, (1, ANCHORS, PREDICTED, height, width)), (0, 1, 3, 4, 2))
    return g.reshape(g.logistic(y), (1, ANCHORS * height * width, PREDICTED))


def _shuffle(g: ModelBuilder, x: Value) -> Value:
    batch, channels, height, width = x.shape
    pairs = g.transpose(g.reshape(x, (batch, 2, channels // 2, height, width)), (0, 2, 1, 3, 4))
    return g.reshape(pairs, x.shape)
