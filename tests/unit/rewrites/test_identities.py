"""Operators that change nothing go; those that look like it stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from equal import assert_refuses
from rewritten import assert_becomes, constant, drawn, integers, one

from hasten.rewrites.identities import IDENTITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model_builder import ModelBuilder

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]


def strided(g: ModelBuilder, x: Value, step: int) -> Value:
    begin, end = ([0] * 4, list(x.shape)) if step > 0 else ([-1] * 4, [-size - 1 for size in x.shape])
    inputs = (x, integers(g, begin), integers(g, end), integers(g, [step] * 4))
    return one(g, "STRIDED_SLICE", *inputs, shape=x.shape, table="StridedSliceOptions")


def resized(g: ModelBuilder, x: Value) -> Value:
    sides = integers(g, x.shape[1:3])
    return one(g, "RESIZE_BILINEAR", x, sides, shape=x.shape, table="ResizeBilinearOptions", halfPixelCenters=True)


NOTHING: dict[str, Draw] = {
    "mul": lambda g, x: g.mul(x, constant(g, 1)),
    "mul by many": lambda g, x: g.mul(constant(g, np.ones(4)), x),
    "add": lambda g, x: g.add(x, constant(g, 0)),
    "sub": lambda g, x: g.sub(x, constant(g, 0)),
    "div": lambda g, x: one(g, "DIV", x, constant(g, 1), table="DivOptions"),
    "pad": lambda g, x: g.pad(x, [(0, 0)] * 4),
    "slice": lambda g, x: one(g, "SLICE", x, integers(g, [0] * 4), integers(g, [-1] * 4), shape=x.shape),
    "strided slice": lambda g, x: strided(g, x, 1),
    "tile": lambda g, x: one(g, "TILE", x, integers(g, [1] * 4), shape=x.shape),
    "broadcast": lambda g, x: one(g, "BROADCAST_TO", x, integers(g, x.shape), shape=x.shape, version=2),
    "resize": resized,
    "concatenation": lambda g, x: one(g, "CONCATENATION", x, table="ConcatenationOptions", axis=1),
}
SOMETHING: dict[str, Draw] = {
    "mul": lambda g, x: g.mul(x, constant(g, [1, 1, 1, 2])),
    "clamped": lambda g, x: g.mul(x, constant(g, 1), activation="relu"),
    "one less": lambda g, x: g.sub(constant(g, 0), x),
    "reversed": lambda g, x: strided(g, x, -1),
    "wider": lambda g, x: g.add(x, constant(g, np.zeros((2, 6, 5, 4)))),
}


@pytest.mark.parametrize("nothing", NOTHING)
def test_what_changes_nothing_goes(nothing: str) -> None:
    assert_becomes(drawn(lambda g, x: g.tanh(NOTHING[nothing](g, g.tanh(x)))), ["TANH", "TANH"], IDENTITIES)


@pytest.mark.parametrize("something", SOMETHING)
def test_what_changes_something_stays(something: str) -> None:
    assert_refuses(drawn(lambda g, x: g.tanh(SOMETHING[something](g, g.tanh(x)))), IDENTITIES)


def test_outputs_keep_their_tensors() -> None:
    assert_becomes(drawn(lambda g, x: NOTHING["mul"](g, g.tanh(x))), ["TANH"], IDENTITIES)
    assert_refuses(drawn(lambda g, x: NOTHING["mul"](g, x)), IDENTITIES)
