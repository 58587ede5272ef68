"""Draws one operator after another into a small model: the steps of `equal.small_graphs`.

A step takes values that are there, and adds what it computes; a step that fits none of them adds nothing.
"""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from tests.model_builder import ModelBuilder

from hasten.model.build import like
from hasten.model.build_graph import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

    from hasten.model.build_graph import Value

    Step = Callable[["Drawing", Value], Sequence[Value]]

SCALE = 4 / 127
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
MOST_ELEMENTS = 1500


class Drawing:
    """A model that grows: every value is open to further operators, and the last ones are outputs."""

    def __init__(self, draw: DrawFn, dtype: str, shape: tuple[int, ...]) -> None:
        self.draw = draw
        self.g = ModelBuilder(seed=draw(st.integers(0, 3)))
        self.values = [self.g.input("x", shape, dtype, scale=SCALE if dtype == "int8" else None)]

    def add(self, step: Step) -> None:
        """Take a step from some value; what gets too large is not kept for others to read."""
        found = step(self, self.draw(st.sampled_from(self.values)))
        self.values += [value for value in found if prod(value.shape) <= MOST_ELEMENTS]

    def build(self) -> bytes:
        """The model: its last value is an output, others may be."""
        if len(self.values) == 1:
            self.values.append(self.g.relu(self.values[0]))
        *others, last = self.values[1:]
        for value in others:
            if self.draw(st.integers(0, 5)) == 0:
                self.g.output(value)
        self.g.output(last)
        return self.g.build()

    # -- what several steps need

    def axis(self, x: Value) -> int:
        """An axis that is known in size."""
        return self.draw(st.integers(1 if x.dynamic_batch else 0, len(x.shape) - 1))

    def order(self, x: Value) -> tuple[int, ...]:
        """An order of dimensions; the common ones are drawn more often."""
        common = [order for order in (NHWC, NCHW) if len(x.shape) == len(order)]
        orders = [order for order in permutations(range(len(x.shape))) if not x.dynamic_batch or order[0] == 0]
        return self.draw(st.sampled_from(common * 3 + orders))

    def constant(self, x: Value, shape: tuple[int, ...]) -> Value:
        """A constant that can be an operand of `x`."""
        values = np.asarray(np.random.default_rng(prod(shape)).standard_normal(shape), np.float32)
        if x.quantization is None:
            return self.g.constant(values)
        return self.g.constant((values * 30).astype(np.int8), x.quantization)

    def indices(self, values: Sequence[int] | Sequence[Sequence[int]] | int) -> Value:
        return self.g.constant(np.array(values, np.int32))

    def one(self, op: str, inputs: list[Value], spec: Spec, table: str, **options: Any) -> Value:
        (value,) = self.g.operator(op, inputs, [spec], options_type=table, **options)
        return value


def unary(d: Drawing, x: Value) -> list[Value]:
    names = ("relu", "relu6", "logistic", "tanh", "hard_swish")
    return [getattr(d.g, d.draw(st.sampled_from(names)))(x)]


def with_constant(d: Drawing, x: Value) -> list[Value]:
    """An operand that broadcasts along some dimensions, and may have fewer of them; kernels take four for sure."""
    if len(x.shape) > 4:
        return []
    sizes = tuple(1 if d.draw(st.booleans()) or (axis == 0 and x.dynamic_batch) else x.shape[axis] for axis in axes(x))
    shape = sizes[d.draw(st.integers(0, len(sizes))) :]
    operands = [x, d.constant(x, shape)]
    return [getattr(d.g, d.draw(st.sampled_from(("add", "mul", "sub"))))(*d.draw(st.permutations(operands)))]


def with_other(d: Drawing, x: Value) -> list[Value]:
    other = d.draw(st.sampled_from([value for value in d.values if value.shape == x.shape]))
    return [getattr(d.g, d.draw(st.sampled_from(("add", "mul"))))(x, other)]


def convolution(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) != 4:
        return []
    filters, kernel = d.draw(st.integers(1, 6)), d.draw(st.sampled_from((1, 3)))
    return [d.g.conv2d(x, filters, kernel, activation=d.draw(st.sampled_from((None, "relu"))))]


def window(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) != 4:
        return []
    name = d.draw(st.sampled_from(("depthwise_conv2d", "max_pool2d", "average_pool2d")))
    return [getattr(d.g, name)(x, 3, d.draw(st.integers(1, 2)), padding="same")]


def foreign(d: Drawing, x: Value) -> list[Value]:
    """A layer of an NCHW export, between its transposes."""
    if len(x.shape) != 4:
        return []
    layers = d.draw(st.sampled_from((convolution, window, resize)))(d, d.g.transpose(x, NHWC))
    return [d.g.transpose(layer, NCHW) for layer in layers]


def resize(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) != 4 or prod(x.shape) * 4 > MOST_ELEMENTS:
        return []
    sides = [2 * side for side in x.shape[1:3]]
    spec = like(x, shape=(x.shape[0], *sides, x.shape[3]))
    return [d.one("RESIZE_NEAREST_NEIGHBOR", [x, d.indices(sides)], spec, "ResizeNearestNeighborOptions")]


def transpose(d: Drawing, x: Value) -> list[Value]:
    return [d.g.transpose(x, d.order(x))] if len(x.shape) > 1 else []


def reshape(d: Drawing, x: Value) -> list[Value]:
    """Two neighbors become one dimension, one becomes two, or one of size 1 comes in."""
    shape, first = list(x.shape), 1 if x.dynamic_batch else 0
    kind = d.draw(st.sampled_from(("merge", "split", "add")))
    if kind == "merge" and len(shape) > first + 1:
        axis = d.draw(st.integers(first, len(shape) - 2))
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif kind == "split" and len(shape) > first and len(shape) < 5:
        axis = d.draw(st.integers(first, len(shape) - 1))
        factor = d.draw(st.sampled_from([size for size in (1, 2, 3, 5) if shape[axis] % size == 0]))
        shape[axis : axis + 1] = [factor, shape[axis] // factor]
    elif len(shape) < 5:
        shape.insert(d.draw(st.integers(first, len(shape))), 1)
    return [d.g.reshape(x, shape)]


def squeeze(d: Drawing, x: Value) -> list[Value]:
    ones = [axis for axis in axes(x) if x.shape[axis] == 1 and not (axis == 0 and x.dynamic_batch)]
    if not ones or len(x.shape) == 1:
        return []
    gone = d.draw(st.sampled_from(ones))
    shape = tuple(size for axis, size in enumerate(x.shape) if axis != gone)
    return [d.one("SQUEEZE", [x], like(x, shape=shape), "SqueezeOptions", squeezeDims=[gone])]


def expand(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) > 4:
        return []
    axis = d.draw(st.integers(1, len(x.shape)))
    spec = like(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))
    return [d.one("EXPAND_DIMS", [x, d.indices(axis)], spec, "ExpandDimsOptions")]


def pad(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) > 4 or (len(x.shape) == 1 and x.dynamic_batch):
        return []
    widths = [(0, 0)] * len(x.shape)
    widths[d.axis(x)] = d.draw(st.sampled_from(((0, 1), (1, 1), (2, 0))))
    return [d.g.pad(x, widths)]


def join(d: Drawing, x: Value) -> list[Value]:
    alike = [value for value in d.values if value.shape == x.shape and value.quantization == x.quantization]
    others = d.draw(st.lists(st.sampled_from(alike), min_size=1, max_size=5))
    return [d.g.concatenation([x, *others], d.axis(x))] if len(x.shape) > (1 if x.dynamic_batch else 0) else []


def split(d: Drawing, x: Value) -> list[Value]:
    axis = d.axis(x) if len(x.shape) > 1 else 0
    counts = [count for count in (2, 3) if x.shape[axis] % count == 0]
    if not counts or (x.dynamic_batch and axis == 0):
        return []
    parts = d.draw(st.sampled_from(counts))
    shape = tuple(size // parts if place == axis else size for place, size in enumerate(x.shape))
    specs = [like(x, shape=shape)] * parts
    values = d.g.operator("SPLIT", [d.indices(axis), x], specs, options_type="SplitOptions", numSplits=parts)
    if len(values) > 1 and d.draw(st.booleans()):
        return [d.g.concatenation(values, axis)]
    return list(values)


def reduce(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) < 2:
        return []
    gone = sorted(d.draw(st.sets(st.integers(1, len(x.shape) - 1), min_size=1, max_size=2)))
    keep = d.draw(st.booleans())
    if d.draw(st.booleans()):
        return [d.g.mean(x, gone, keep_dims=keep)]
    shape = tuple(1 if axis in gone else size for axis, size in enumerate(x.shape) if keep or axis not in gone)
    inputs = [x, d.indices(gone)]
    return [d.one("REDUCE_MAX", inputs, like(x, shape=shape), "ReducerOptions", keepDims=keep)]


def cut(d: Drawing, x: Value) -> list[Value]:
    """A SLICE along one dimension."""
    if len(x.shape) < 2 or len(x.shape) > 4:
        return []
    axis = d.axis(x)
    begin = d.draw(st.integers(0, x.shape[axis] - 1))
    begins, sizes = [0] * len(x.shape), [-1] * len(x.shape)
    begins[axis] = begin
    shape = tuple(size - begin if place == axis else size for place, size in enumerate(x.shape))
    return [d.one("SLICE", [x, d.indices(begins), d.indices(sizes)], like(x, shape=shape), "SliceOptions")]


def stride(d: Drawing, x: Value) -> list[Value]:
    """A STRIDED_SLICE along one dimension, which may drop it."""
    if len(x.shape) < 2 or len(x.shape) > 4:
        return []
    axis, step = d.axis(x), d.draw(st.integers(1, 2))
    begin = d.draw(st.integers(0, x.shape[axis] - 1))
    is_one = d.draw(st.integers(0, 3)) == 0 and not (axis == 0 and x.dynamic_batch)
    begins, strides = [0] * len(x.shape), [1] * len(x.shape)
    begins[axis], strides[axis] = begin, 1 if is_one else step
    ends = list(x.shape)
    taken = len(range(begin, x.shape[axis], step))
    if is_one:
        ends[axis] = begin + 1
        shape = tuple(size for place, size in enumerate(x.shape) if place != axis)
    else:
        shape = tuple(taken if place == axis else size for place, size in enumerate(x.shape))
    # Dimensions that are taken whole are masked, as an open batch must be.
    whole = sum(1 << place for place in axes(x) if place != axis)
    masks = {"beginMask": whole, "endMask": whole, "shrinkAxisMask": 1 << axis if is_one else 0}
    inputs = [x, d.indices(begins), d.indices(ends), d.indices(strides)]
    return [d.one("STRIDED_SLICE", inputs, like(x, shape=shape), "StridedSliceOptions", **masks)]


def focus(d: Drawing, x: Value) -> list[Value]:
    """A stem of space to depth by slices, in any order of its parts."""
    if len(x.shape) != 4 or x.dynamic_batch:
        return []
    first, second = d.draw(st.sampled_from(((1, 2), (2, 3))))
    if x.shape[first] % 2 or x.shape[second] % 2:
        return []
    parts = d.draw(st.permutations([(i, j) for i in (0, 1) for j in (0, 1)]))
    sliced = [every_second(d, every_second(d, x, first, i), second, j) for i, j in parts]
    return [d.g.concatenation(sliced, 3 if first == 1 else 1)]


def every_second(d: Drawing, x: Value, axis: int, begin: int) -> Value:
    begins, strides, ends = [0] * 4, [1] * 4, list(x.shape)
    begins[axis], strides[axis] = begin, 2
    shape = tuple(size // 2 if place == axis else size for place, size in enumerate(x.shape))
    inputs = [x, d.indices(begins), d.indices(ends), d.indices(strides)]
    return d.one("STRIDED_SLICE", inputs, like(x, shape=shape), "StridedSliceOptions")


def softmax(d: Drawing, x: Value) -> list[Value]:
    return [d.g.softmax(x)] if 2 <= len(x.shape) <= 4 else []


def dense(d: Drawing, x: Value) -> list[Value]:
    """What flattens, and the layer behind it."""
    flat = d.g.reshape(x, (x.shape[0], prod(x.shape[1:])))
    return [d.g.fully_connected(flat, d.draw(st.integers(1, 4)))]


def prelu(d: Drawing, x: Value) -> list[Value]:
    if len(x.shape) != 4 or x.dtype != "float32":
        return []
    sizes = tuple(size if d.draw(st.booleans()) else 1 for size in x.shape[1:])
    return [d.one("PRELU", [x, d.constant(x, sizes)], like(x), "")]


def shape_chain(d: Drawing, x: Value) -> list[Value]:
    """A RESHAPE to the shape that another value has."""
    if x.dynamic_batch:
        return []
    shape = d.one("SHAPE", [x], Spec((len(x.shape),), "int32"), "ShapeOptions", outType=2)
    flat = d.g.reshape(x, (prod(x.shape),))
    return [d.one("RESHAPE", [flat, shape], like(x), "ReshapeOptions")]


def axes(x: Value) -> range:
    return range(len(x.shape))


# The more a step has to do with what rewrites look for, the more often it stands here.
DRAWN: tuple[Step, ...] = (
    *(unary, with_constant, with_constant, with_other, convolution, window, foreign, foreign, foreign, resize),
    *(transpose, transpose, reshape, reshape, squeeze, expand, pad, join, join, split, reduce, reduce, cut, stride),
    *(focus, softmax, dense, prelu, shape_chain),
)
