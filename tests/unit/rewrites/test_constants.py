"""What no run can change is computed once, with the engine's own bits; the file does not grow by that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses, operators, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import Spec
from hasten.rewrites.constants import CONSTANT_FOLDING
from hasten.rewrites.rewrite import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder], Value]

CUBE = np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4)
REAL = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1).astype(np.float32)


def const(g: ModelBuilder, values: Any, dtype: str = "int32") -> Value:
    return g.constant(np.array(values, np.dtype(dtype)))


def one(g: ModelBuilder, op: str, inputs: list[Value], spec: Spec, table: str = "", **options: Any) -> Value:
    (value,) = g.operator(op, inputs, [spec], options_type=table, **options)
    return value


def moved(op: str, shape: tuple[int, ...], *parameters: Any, table: str = "", **options: object) -> Draw:
    """An operator on a constant of whole numbers and on parameters."""

    def draw(g: ModelBuilder) -> Value:
        inputs = [const(g, CUBE), *(const(g, values) for values in parameters)]
        return one(g, op, inputs, Spec(shape, "int32"), table, **options)

    return draw


def pair(op: str, table: str, dtype: str = "int32") -> Draw:
    def draw(g: ModelBuilder) -> Value:
        a = const(g, CUBE if dtype == "int32" else REAL, dtype)
        b = const(g, np.array([[3], [-2], [5]]) if dtype == "int32" else REAL[:1] * np.float32(1.7) + 2, dtype)
        return one(g, op, [a, b], Spec((2, 3, 4), dtype), table)

    return draw


def compared(g: ModelBuilder) -> Value:
    is_less = one(g, "LESS", [const(g, CUBE), const(g, 3)], Spec((2, 3, 4), "bool"), "LessOptions")
    is_not = one(g, "LOGICAL_NOT", [is_less], Spec((2, 3, 4), "bool"), "LogicalNotOptions")
    return one(g, "CAST", [is_not], Spec((2, 3, 4), "float32"), "CastOptions")


def strided(**masks: int) -> dict[str, Any]:
    return {"table": "StridedSliceOptions", **masks}


def last(
    op: str, inputs: Callable[[ModelBuilder], list[Value]], shape: tuple[int, ...], count: int, table: str
) -> Draw:
    """The last of an operator's outputs."""

    def draw(g: ModelBuilder) -> Value:
        options = {"numSplits": count} if op.startswith("SPLIT") else {"num": count, "axis": 1}
        return g.operator(op, inputs(g), [Spec(shape, "int32")] * count, options_type=table, **options)[-1]

    return draw


FOLDED: dict[str, Draw] = {
    "reshape": moved("RESHAPE", (4, 6), [4, 6], table="ReshapeOptions"),
    "expand dims": moved("EXPAND_DIMS", (2, 1, 3, 4), 1, table="ExpandDimsOptions"),
    "squeeze": lambda g: one(
        g, "SQUEEZE", [const(g, CUBE[:1])], Spec((3, 4), "int32"), "SqueezeOptions", squeezeDims=[0]
    ),
    "transpose": moved("TRANSPOSE", (4, 2, 3), [2, 0, 1], table="TransposeOptions"),
    "slice": moved("SLICE", (1, 2, 4), [1, 1, 0], [1, 2, -1], table="SliceOptions"),
    "strided slice": moved("STRIDED_SLICE", (1, 2, 2), [1, 0, 3], [2, 3, -9], [1, 2, -2], **strided()),
    "strided slice with masks": moved(
        "STRIDED_SLICE", (2, 4), [9, 1], [0, 2], [1, 1], **strided(beginMask=1, endMask=1, shrinkAxisMask=2)
    ),
    "gather": moved("GATHER", (2, 2, 4), [2, 0], table="GatherOptions", axis=1),
    "gather one": moved("GATHER", (2, 3), 3, table="GatherOptions", axis=-1),
    "tile": moved("TILE", (2, 6, 4), [1, 2, 1], table="TileOptions"),
    "broadcast to": moved("BROADCAST_TO", (3, 2, 3, 4), [3, 2, 3, 4], table="BroadcastToOptions", version=2),
    "pad": moved("PAD", (3, 3, 6), [(1, 0), (0, 0), (0, 2)], table="PadOptions"),
    "pack": lambda g: one(
        g, "PACK", [const(g, CUBE)] * 2, Spec((2, 2, 3, 4), "int32"), "PackOptions", valuesCount=2, axis=1
    ),
    "unpack": last("UNPACK", lambda g: [const(g, CUBE)], (2, 4), 3, "UnpackOptions"),
    "split": last("SPLIT", lambda g: [const(g, 2), const(g, CUBE)], (2, 3, 2), 2, "SplitOptions"),
    "split by sizes": last(
        "SPLIT_V", lambda g: [const(g, CUBE.reshape(6, 4)), const(g, [3, 3]), const(g, 0)], (3, 4), 2, "SplitVOptions"
    ),
    "concatenation": lambda g: one(
        g,
        "CONCATENATION",
        [const(g, CUBE), const(g, CUBE[:, :1])],
        Spec((2, 4, 4), "int32"),
        "ConcatenationOptions",
        axis=-2,
    ),
    "fill": lambda g: one(g, "FILL", [const(g, [2, 3]), const(g, 7)], Spec((2, 3), "int32"), "FillOptions"),
    "range": lambda g: one(g, "RANGE", [const(g, 9), const(g, -2), const(g, -3)], Spec((4,), "int32"), "RangeOptions"),
    "cast": lambda g: one(g, "CAST", [const(g, CUBE, "int64")], Spec((2, 3, 4), "int32"), "CastOptions"),
    "comparison": compared,
    "add": pair("ADD", "AddOptions"),
    "sub": pair("SUB", "SubOptions"),
    "mul": pair("MUL", "MulOptions"),
    "maximum": pair("MAXIMUM", "MaximumMinimumOptions"),
    "minimum": pair("MINIMUM", "MaximumMinimumOptions"),
    "floor div": pair("FLOOR_DIV", "FloorDivOptions"),
    "floor mod": pair("FLOOR_MOD", "FloorModOptions"),
    "div": pair("DIV", "DivOptions"),
    "add of reals": pair("ADD", "AddOptions", "float32"),
    "sub of reals": pair("SUB", "SubOptions", "float32"),
    "mul of reals": pair("MUL", "MulOptions", "float32"),
    "sum": moved("SUM", (2, 4), [1], table="ReducerOptions"),
    "product": moved("REDUCE_PROD", (2, 1, 1), [1, -1], table="ReducerOptions", keepDims=True),
    "largest": moved("REDUCE_MAX", (3,), [0, 2], table="ReducerOptions"),
}


def used(draw: Draw) -> bytes:
    """A model that adds a constant to its input, so that the constant is computed and not just handed out."""
    g = ModelBuilder()
    value = draw(g)
    x = g.input("x", value.shape, value.dtype)
    g.output(one(g, "ADD", [x, value], Spec(value.shape, value.dtype), "AddOptions"), "y")
    return g.build()


@pytest.mark.parametrize("name", FOLDED)
def test_what_numpy_computes_is_what_the_engine_computes(name: str) -> None:
    before = used(FOLDED[name])
    after = rewritten(before, CONSTANT_FOLDING)
    assert operators(after) == {"ADD": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_shape_that_the_model_works_out_is_a_constant() -> None:
    """As exporters write `x.view(x.shape[0], -1)`."""
    g = ModelBuilder()
    x = g.input("x", (2, 3, 4))
    shape = one(g, "SHAPE", [x], Spec((3,), "int32"), "ShapeOptions", outType=2)
    rows = [const(g, [place]) for place in (0, 1, 1)]
    first = one(g, "STRIDED_SLICE", [shape, *rows], Spec((), "int32"), "StridedSliceOptions", shrinkAxisMask=1)
    whole = one(g, "REDUCE_PROD", [shape, const(g, [0])], Spec((), "int32"), "ReducerOptions")
    rest = one(g, "FLOOR_DIV", [whole, first], Spec((), "int32"), "FloorDivOptions")
    target = one(g, "PACK", [first, rest], Spec((2,), "int32"), "PackOptions", valuesCount=2, axis=0)
    g.output(one(g, "RESHAPE", [x, target], Spec((2, 12)), "ReshapeOptions"), "y")
    before = g.build()
    after = rewritten(before, CONSTANT_FOLDING)
    assert operators(after) == {"RESHAPE": 1}
    assert_equal_outputs(before, after, EXACT)


def test_the_rank_of_an_open_batch_is_known_and_its_shape_is_not() -> None:
    g = ModelBuilder()
    x = g.input("x", (-1, 3))
    g.output(g.add(x, x), "y")
    shape = one(g, "SHAPE", [x], Spec((2,), "int32"), "ShapeOptions", outType=2)
    g.output(one(g, "ADD", [shape, const(g, [0, 0])], Spec((2,), "int32"), "AddOptions"), "shape")
    rank = one(g, "RANK", [x], Spec((), "int32"), "RankOptions")
    g.output(one(g, "ADD", [shape, rank], Spec((2,), "int32"), "AddOptions"), "sum")
    before = g.build()
    after = rewritten(before, CONSTANT_FOLDING)
    assert operators(after) == {"ADD": 3, "SHAPE": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_constant_keeps_its_scale_when_it_is_moved() -> None:
    g = ModelBuilder()
    scale = Quantization((0.05,), (3,))
    values = g.constant(np.arange(-12, 12, dtype=np.int8).reshape(6, 4), scale)
    turned = one(g, "TRANSPOSE", [values, const(g, [1, 0])], Spec((4, 6), "int8", scale), "TransposeOptions")
    g.output(g.add(g.input("x", (4, 6), "int8", scale=0.03), turned), "y")
    before = g.build()
    after = rewritten(before, CONSTANT_FOLDING)
    assert operators(after) == {"ADD": 1}
    assert_equal_outputs(before, after, EXACT)


def large(g: ModelBuilder) -> Value:
    return one(g, "FILL", [const(g, [5000, 5000]), const(g, 1)], Spec((5000, 5000), "int32"), "FillOptions")


def by_zero(g: ModelBuilder) -> Value:
    return one(g, "FLOOR_DIV", [const(g, [4, 2]), const(g, [2, 0])], Spec((2,), "int32"), "FloorDivOptions")


def clamped(g: ModelBuilder) -> Value:
    return one(g, "ADD", [const(g, REAL, "float32")] * 2, Spec((2, 3, 4)), "AddOptions", fusedActivationFunction=1)


def rounded(g: ModelBuilder) -> Value:
    """Kernels may approximate it."""
    return one(g, "RSQRT", [const(g, REAL + 2, "float32")], Spec((2, 3, 4)))


def half(g: ModelBuilder) -> Value:
    """Weights of float16 are half as large as the constants that they would become; `float16-constants` has them."""
    return one(g, "DEQUANTIZE", [const(g, REAL, "float16")], Spec((2, 3, 4)), "DequantizeOptions")


@pytest.mark.parametrize("draw", [large, by_zero, clamped, rounded, half])
def test_what_would_grow_fail_or_differ_stays(draw: Draw) -> None:
    assert_refuses(used(draw), CONSTANT_FOLDING)


def test_an_output_stays_computed() -> None:
    g = ModelBuilder()
    g.output(g.relu(g.input("x", (1, 2))), "y")
    g.output(one(g, "PACK", [const(g, 3)] * 2, Spec((2,), "int32"), "PackOptions", valuesCount=2), "fixed")
    assert_refuses(g.build(), CONSTANT_FOLDING)


def test_many_small_constants_do_not_make_a_large_file() -> None:
    def draw(g: ModelBuilder) -> Value:
        fills = [
            one(g, "FILL", [const(g, [8192]), const(g, number)], Spec((8192,), "int32"), "FillOptions")
            for number in range(20)
        ]
        return one(g, "ADD_N", fills, Spec((8192,), "int32"), "AddNOptions")

    before = used(draw)
    after = rewritten(before, CONSTANT_FOLDING)
    assert len(after) - len(before) < 9 * 64 * 1024
    assert operators(after)["FILL"] > 0
