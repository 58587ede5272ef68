"""PACK, TILE and PADV2 come out the same by operators that XNNPACK takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, integers, one

from hasten.rewrites.joins import JOINS

if TYPE_CHECKING:
    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value


def packed(g: ModelBuilder, x: Value, axis: int, count: int) -> Value:
    shape = list(x.shape)
    shape.insert(axis % 5, count)
    values = [x, *(g.mul(x, constant(g, number)) for number in range(2, count + 1))]
    return one(g, "PACK", *values, shape=shape, table="PackOptions", axis=axis, valuesCount=count)


@pytest.mark.parametrize("axis", [0, 2, 4, -1])
@pytest.mark.parametrize("count", [2, 3])
def test_pack(axis: int, count: int) -> None:
    data = drawn(lambda g, x: packed(g, x, axis, count))
    assert_becomes(data, [*["MUL"] * (count - 1), *["RESHAPE"] * count, "CONCATENATION"], JOINS)


def test_more_than_xnnpack_joins_stay() -> None:
    assert_refuses(drawn(lambda g, x: packed(g, x, 1, 6)), JOINS)


def tiled(g: ModelBuilder, x: Value, times: list[int]) -> Value:
    shape = [size * count for size, count in zip(x.shape, times, strict=True)]
    return one(g, "TILE", x, integers(g, times), shape=shape, table="TileOptions")


@pytest.mark.parametrize("times", [[1, 3, 1, 1], [2, 1, 1, 1], [1, 1, 1, 5]])
def test_tile(times: list[int]) -> None:
    assert_becomes(drawn(lambda g, x: tiled(g, x, times)), ["CONCATENATION"], JOINS)


@pytest.mark.parametrize("times", [[1, 2, 2, 1], [1, 6, 1, 1], [1, 1, 1, 1]])
def test_other_tiles_stay(times: list[int]) -> None:
    assert_refuses(drawn(lambda g, x: tiled(g, x, times)), JOINS)


@pytest.mark.parametrize(("value", "expected"), [(0.0, ["PAD"]), (1.0, ["PADV2"])])
def test_padding_by_zeros_is_plain(value: float, expected: list[str]) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        widths = integers(g, [(0, 0), (1, 2), (0, 0), (3, 0)])
        return one(g, "PADV2", x, widths, constant(g, value), shape=(1, 9, 5, 7), table="PadV2Options")

    if value:
        assert_refuses(drawn(draw), JOINS)
    else:
        assert_becomes(drawn(draw), expected, JOINS)


def test_an_open_batch_stays_open() -> None:
    data = drawn(lambda g, x: packed(g, x, 1, 2), (-1, 3, 2))
    assert_becomes(data, ["MUL", "RESHAPE", "RESHAPE", "CONCATENATION"], JOINS)
