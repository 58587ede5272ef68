"""Copies along axes of size 1 go where the next operator makes them itself, or become a TILE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, integers, one

from hasten.rewrites.broadcasts import BROADCASTS, BROADCASTS_AS_TILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value


def broadcast(g: ModelBuilder, x: Value, shape: Sequence[int]) -> Value:
    return one(g, "BROADCAST_TO", x, integers(g, shape), shape=shape, version=2)


def gate(g: ModelBuilder, x: Value) -> Value:
    return g.mean(x, keep_dims=True)


@pytest.mark.parametrize("op", ["BROADCAST_TO", "TILE"])
def test_operators_that_broadcast_need_no_copies(op: str) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        small = gate(g, x)
        tiled = one(g, "TILE", small, integers(g, [1, 6, 5, 1]), shape=x.shape)
        return g.mul(x, broadcast(g, small, x.shape) if op == "BROADCAST_TO" else tiled)

    assert_becomes(drawn(draw), ["MEAN", "MUL"], BROADCASTS)


def test_copies_that_make_the_shape_stay() -> None:
    assert_refuses(drawn(lambda g, x: g.add(broadcast(g, gate(g, x), x.shape), constant(g, 1))), BROADCASTS)
    assert_refuses(drawn(lambda g, x: g.softmax(broadcast(g, gate(g, x), x.shape))), BROADCASTS)


def test_copies_of_whole_axes_stay() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        tiled = one(g, "TILE", x, integers(g, [1, 2, 1, 1]), shape=(1, 12, 5, 4))
        return g.mul(tiled, g.tanh(tiled))

    assert_refuses(drawn(draw), BROADCASTS)


def test_readers_that_need_the_copies_keep_them() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        wide = broadcast(g, gate(g, x), x.shape)
        return g.add(g.mul(x, wide), g.softmax(wide))

    assert_becomes(drawn(draw), ["MEAN", "BROADCAST_TO", "MUL", "SOFTMAX", "ADD"], BROADCASTS)


def test_a_broadcast_is_a_tile_of_as_many_axes() -> None:
    assert_becomes(drawn(lambda g, x: broadcast(g, gate(g, x), x.shape)), ["MEAN", "TILE"], BROADCASTS_AS_TILES)
    assert_becomes(drawn(lambda g, x: broadcast(g, x, (2, 3, 4)), (3, 1)), ["RESHAPE", "TILE"], BROADCASTS_AS_TILES)
