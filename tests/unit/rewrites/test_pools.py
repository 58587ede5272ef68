"""Averages of 8-bit values over the whole image become means."""

from __future__ import annotations

import pytest
from equal import assert_refuses
from rewritten import assert_becomes, drawn
from tests.model_builder import ModelBuilder

from hasten.rewrites.pools import GLOBAL_POOLS


def pooled(kernel: int, padding: str) -> bytes:
    g = ModelBuilder()
    x = g.conv2d(g.input("x", (1, 6, 6, 3), "int8", scale=4 / 127), 4, 3)
    g.output(g.average_pool2d(x, kernel, kernel, padding=padding), "y")
    return g.build()


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_the_average_of_an_image_is_a_mean(padding: str) -> None:
    assert_becomes(pooled(6, padding), ["CONV_2D", "MEAN"], GLOBAL_POOLS)


def test_other_pools_stay() -> None:
    assert_refuses(pooled(3, "valid"), GLOBAL_POOLS)
    assert_refuses(pooled(5, "same"), GLOBAL_POOLS)
    assert_refuses(drawn(lambda g, x: g.average_pool2d(x, 4, 4), (1, 4, 4, 3)), GLOBAL_POOLS)
