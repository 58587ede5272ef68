"""Slices that are the whole of a tensor become a TRANSPOSE; all others stay slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses, operators, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build import like
from hasten.rewrites.layout import LAYOUT
from hasten.rewrites.rewrite import EXACT, ROUNDING
from hasten.rewrites.stems import SPACE_TO_DEPTH, SPACE_TO_DEPTH_REORDERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.build_graph import Value

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
SCALE = 4 / 127
COLUMNS_LAST = [(0, 0), (0, 1), (1, 0), (1, 1)]
YOLO = [(0, 0), (1, 0), (0, 1), (1, 1)]


def every(g: ModelBuilder, x: Value, blocks: dict[int, tuple[int, int]]) -> Value:
    """Every n-th element from a begin on, by axis: `{1: (begin, n)}`."""
    rows = [[blocks.get(axis, (0, 1))[0], size, blocks.get(axis, (0, 1))[1]] for axis, size in enumerate(x.shape)]
    begins, ends, strides = (g.constant(np.array(values, np.int32)) for values in zip(*rows, strict=True))
    # The batch is masked: it may be open.
    shape = tuple(len(range(*row)) for row in rows)
    spec = like(x, shape=shape)
    options = {"beginMask": 1, "endMask": 1}
    (value,) = g.operator(
        "STRIDED_SLICE", [x, begins, ends, strides], [spec], options_type="StridedSliceOptions", **options
    )
    return value


def stem(
    g: ModelBuilder, x: Value, parts: Sequence[tuple[int, int]], *, axes: tuple[int, int], block: int = 2
) -> Value:
    first, second = axes
    sliced = [every(g, x, {first: (i, block), second: (j, block)}) for i, j in parts]
    return g.concatenation(sliced, 3 if axes == (1, 2) else 1)


def yolo(g: ModelBuilder, x: Value) -> Value:
    """As PyTorch exports it: rows first, then columns of the rows; six slices."""
    even, odd = (every(g, x, {1: (row, 2)}) for row in (0, 1))
    return g.concatenation([every(g, half, {2: (column, 2)}) for column in (0, 1) for half in (even, odd)], 3)


def graph(shape: tuple[int, ...], dtype: str = "float32") -> tuple[ModelBuilder, Value]:
    g = ModelBuilder(seed=2)
    return g, g.input("x", shape, dtype, scale=SCALE if dtype == "int8" else None)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("batch", [-1, 1, 2])
def test_six_slices_become_one_transpose(dtype: str, batch: int) -> None:
    g, x = graph((batch, 8, 6, 3), dtype)
    g.output(g.conv2d(yolo(g, x), 4, 3), "y")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(before)["STRIDED_SLICE"] == 6
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "CONV_2D": 1}
    assert_equal_outputs(before, after, EXACT)


@pytest.mark.parametrize("parts", [COLUMNS_LAST, YOLO])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)])
def test_slices_in_any_order_that_counts_along_axes(parts: list[tuple[int, int]], axes: tuple[int, int]) -> None:
    g, x = graph((1, 4, 6, 8))
    g.output(g.relu(stem(g, x, parts, axes=axes)), "y")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "RELU": 1}
    assert_equal_outputs(before, after, EXACT)


def test_larger_blocks() -> None:
    g, x = graph((1, 9, 6, 2))
    g.output(stem(g, x, [(i, j) for i in range(3) for j in range(3)], axes=(1, 2), block=3), "y")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1}
    assert_equal_outputs(before, after, EXACT)


@pytest.mark.parametrize(
    ("axis", "left"), [(1, {"RESHAPE": 2, "TRANSPOSE": 1}), (2, {"RESHAPE": 1}), (3, {"RESHAPE": 2, "TRANSPOSE": 1})]
)
def test_blocks_along_one_axis(axis: int, left: dict[str, int]) -> None:
    """Rows that are joined side by side stay where they are in memory."""
    g, x = graph((1, 8, 5, 3))
    g.output(g.concatenation([every(g, x, {1: (row, 4)}) for row in range(4)], axis), "y")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(after) == left
    assert_equal_outputs(before, after, EXACT)


def test_a_transpose_behind_a_stem_is_taken_in() -> None:
    g, x = graph((1, 3, 8, 6))
    g.output(g.conv2d(g.transpose(stem(g, x, YOLO, axes=(2, 3)), NHWC), 4, 3), "y")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "CONV_2D": 1}
    assert_equal_outputs(before, after, EXACT)


def test_the_stem_of_an_nchw_export_has_one_transpose_in_all() -> None:
    g, x = graph((1, 8, 6, 3))
    y = stem(g, g.transpose(x, NCHW), YOLO, axes=(2, 3))
    y = g.transpose(g.conv2d(g.transpose(y, NHWC), 4, 3), NCHW)
    g.output(g.transpose(g.relu(y), NHWC), "y")
    before = g.build()
    after = rewritten(before, LAYOUT, SPACE_TO_DEPTH)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "CONV_2D": 1, "RELU": 1}
    assert_equal_outputs(before, after, EXACT)


def test_slices_that_others_read_stay_for_them() -> None:
    g, x = graph((1, 8, 6, 3))
    even, odd = (every(g, x, {1: (row, 2)}) for row in (0, 1))
    g.output(g.concatenation([even, odd], 3), "joined")
    g.output(g.relu(odd), "odd")
    before = g.build()
    after = rewritten(before, SPACE_TO_DEPTH)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "STRIDED_SLICE": 1, "RELU": 1}
    assert_equal_outputs(before, after, EXACT)


def test_an_order_that_no_transpose_gives_is_left_to_the_convolution() -> None:
    g, x = graph((1, 8, 6, 3))
    g.output(g.conv2d(stem(g, x, [(0, 0), (0, 1), (1, 1), (1, 0)], axes=(1, 2)), 4, 3), "y")
    before = g.build()
    assert_refuses(before, SPACE_TO_DEPTH)
    after = rewritten(before, SPACE_TO_DEPTH_REORDERED)
    assert operators(after) == {"RESHAPE": 2, "TRANSPOSE": 1, "CONV_2D": 1}
    assert_equal_outputs(before, after, 10 * ROUNDING)


def refused(name: str) -> bytes:
    g, x = graph((1, 8, 6, 3))
    whole = {(i, j): every(g, x, {1: (i, 2), 2: (j, 2)}) for i, j in COLUMNS_LAST}
    parts = list(whole.values())
    if name == "a part that is missing":
        parts = parts[:3]
    elif name == "a part that comes twice":
        parts[3] = parts[2]
    elif name == "a part that is changed":
        parts[1] = g.relu(parts[1])
    elif name == "rows that are left over":
        parts = [every(g, x, {1: (row, 3)}) for row in (0, 1)]  # of rows 0, 3, 6 and 1, 4, 7
    elif name == "an order that nobody undoes":
        parts[2], parts[3] = parts[3], parts[2]
    g.output(g.relu(g.concatenation(parts, 3)), "y")
    return g.build()


@pytest.mark.parametrize(
    "name",
    [
        "a part that is missing",
        "a part that comes twice",
        "a part that is changed",
        "rows that are left over",
        "an order that nobody undoes",
    ],
)
def test_slices_that_are_not_the_whole_stay(name: str) -> None:
    assert_refuses(refused(name), SPACE_TO_DEPTH, SPACE_TO_DEPTH_REORDERED)
