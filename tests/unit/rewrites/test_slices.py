"""Parts of values come out the same by SLICE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from equal import assert_equal_outputs, assert_refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritten import assert_becomes, drawn, integers, one, ops, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec
from hasten.rewrites.slices import SLICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.build_graph import Value

AXES = st.integers(0, 3)


def shapes(x: Value, axis: int, sizes: Sequence[int]) -> list[Spec]:
    return [
        Spec(
            tuple(much if place == axis else size for place, size in enumerate(x.shape)),
            "float32",
            None,
            x.dynamic_batch,
        )
        for much in sizes
    ]


def split(g: ModelBuilder, x: Value, axis: int, parts: int) -> tuple[Value, ...]:
    inputs = [integers(g, axis), x]
    specs = shapes(x, axis, [x.shape[axis] // parts] * parts)
    return g.operator("SPLIT", inputs, specs, options_type="SplitOptions", numSplits=parts)


def all_out(draw: Any, shape: tuple[int, ...] = (2, 6, 4, 4)) -> bytes:
    """A model with every part as an output."""
    g = ModelBuilder()
    for value in draw(g, g.tanh(g.input("x", shape))):
        g.output(value)
    return g.build()


@pytest.mark.parametrize(("axis", "parts"), [(0, 2), (1, 3), (-1, 4), (3, 2)])
def test_split(axis: int, parts: int) -> None:
    data = all_out(lambda g, x: split(g, x, axis % 4, parts))
    assert_becomes(data, ["TANH", *["SLICE"] * parts], SLICES)


def test_split_by_sizes() -> None:
    def draw(g: ModelBuilder, x: Value) -> tuple[Value, ...]:
        inputs = [x, integers(g, [1, 3, 2]), integers(g, 1)]
        return g.operator("SPLIT_V", inputs, shapes(x, 1, [1, 3, 2]), options_type="SplitVOptions", numSplits=3)

    assert_becomes(all_out(draw), ["TANH", "SLICE", "SLICE", "SLICE"], SLICES)


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_unpack(axis: int) -> None:
    def draw(g: ModelBuilder, x: Value) -> tuple[Value, ...]:
        place = axis % 4
        spec = Spec(tuple(size for at, size in enumerate(x.shape) if at != place))
        count = x.shape[place]
        return g.operator("UNPACK", [x], [spec] * count, options_type="UnpackOptions", num=count, axis=axis)

    count = (2, 6, 4, 4)[axis]
    assert_becomes(all_out(draw), ["TANH", *["SLICE", "RESHAPE"] * count], SLICES)


def test_a_part_that_nobody_reads_is_left_out() -> None:
    assert_becomes(all_out(lambda g, x: split(g, x, 1, 3)[1:]), ["TANH", "SLICE", "SLICE"], SLICES)


@pytest.mark.parametrize(("indices", "expected"), [([2, 3], ["SLICE"]), (3, ["SLICE", "RESHAPE"])])
def test_gather_of_neighbors(indices: Any, expected: list[str]) -> None:
    kept = (2,) if isinstance(indices, list) else ()

    def draw(g: ModelBuilder, x: Value) -> list[Value]:
        shape = (2, *kept, 4, 4)
        return [one(g, "GATHER", x, integers(g, indices), shape=shape, table="GatherOptions", axis=1)]

    assert_becomes(all_out(draw), ["TANH", *expected], SLICES)


@pytest.mark.parametrize("indices", [[3, 2], [0, 2], [1, 1]])
def test_other_gathers_stay(indices: list[int]) -> None:
    def draw(g: ModelBuilder, x: Value) -> list[Value]:
        return [one(g, "GATHER", x, integers(g, indices), shape=(2, 2, 4, 4), table="GatherOptions", axis=1)]

    assert_refuses(all_out(draw), SLICES)


@given(axis=AXES, index=st.integers(-4, 3), begins=st.tuples(*[st.integers(-4, 2)] * 4), masked=st.booleans())
@settings(max_examples=40, deadline=None)
def test_slices_that_drop_an_axis(axis: int, index: int, begins: tuple[int, ...], masked: bool) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        begin = [index if place == axis else first for place, first in enumerate(begins)]
        end = [index + 1 if place == axis else 4 for place in range(4)]
        other = (axis + 1) % 4
        masks: dict[str, Any] = {"shrinkAxisMask": 1 << axis, "beginMask": 1 << other if masked else 0}
        first = [0 if masked and place == other else first % 4 for place, first in enumerate(begin)]
        shape = tuple(4 - first[place] for place in range(4) if place != axis)
        inputs = (x, integers(g, begin), integers(g, end), integers(g, [1] * 4))
        return one(g, "STRIDED_SLICE", *inputs, shape=shape, table="StridedSliceOptions", **masks)

    data = drawn(draw, (4, 4, 4, 4))
    after = rewritten(data, SLICES)
    assert "STRIDED_SLICE" not in ops(after)
    assert_equal_outputs(data, after, 0)


def test_values_of_an_open_batch_stay() -> None:
    """XNNPACK takes no SLICE whose sizes are open."""
    assert_refuses(all_out(lambda g, x: split(g, x, 1, 2), (-1, 6, 4, 4)), SLICES)


def test_shapes_that_are_worked_out_and_single_numbers_stay() -> None:
    """The engine knows shapes before a run, and a RESHAPE cannot name a shape of no dimensions."""
    g = ModelBuilder()
    x = g.input("x", (4,))
    for value in g.operator("UNPACK", [g.tanh(x)], [Spec(())] * 4, options_type="UnpackOptions", num=4):
        g.output(value)
    shape = one(g, "SHAPE", x, shape=(1,), dtype="int32", table="ShapeOptions", outType=2)
    rows = [integers(g, [place]) for place in (0, 1, 1)]
    g.output(one(g, "STRIDED_SLICE", shape, *rows, shape=(), table="StridedSliceOptions", shrinkAxisMask=1))
    assert_refuses(g.build(), SLICES)
