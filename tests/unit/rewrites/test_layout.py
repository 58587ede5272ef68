"""Transposes vanish where everything between them works in either order, and outputs stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from equal import assert_equal_outputs, assert_refuses, operators, rewritten
from tests.model_builder import ModelBuilder

from hasten.model.build import like
from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import Spec
from hasten.model.edit.model import EditedModel
from hasten.rewrites.layout import LAYOUT, LAYOUT_ROUNDED
from hasten.rewrites.rewrite import EXACT, ROUNDING, apply

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

    Draw = Callable[[ModelBuilder, Value], Value]

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
SCALE = 4 / 127


def indices(g: ModelBuilder, values: Any) -> Value:
    return g.constant(np.array(values, np.int32))


def one(g: ModelBuilder, op: str, inputs: list[Value], spec: Spec, table: str = "", **options: Any) -> Value:
    (value,) = g.operator(op, inputs, [spec], options_type=table, **options)
    return value


def conv(g: ModelBuilder, x: Value, filters: int = 6, kernel: int = 3, stride: int = 1) -> Value:
    """A convolution as exporters of NCHW models write it."""
    return g.transpose(g.conv2d(g.transpose(x, NHWC), filters, kernel, stride), NCHW)


def channel_constant(g: ModelBuilder, x: Value, sizes: tuple[int, ...] | None = None) -> Value:
    values = np.linspace(-1, 1, x.shape[1]).astype(np.float32).reshape(sizes or (1, -1, 1, 1))
    if x.quantization is None:
        return g.constant(values)
    return g.constant(np.rint(values * 100).astype(np.int8), x.quantization)


def model(draw: Draw, shape: tuple[int, ...] = (1, 6, 8, 10), dtype: str = "float32") -> bytes:
    g = ModelBuilder(seed=5)
    g.output(draw(g, g.input("x", shape, dtype, scale=SCALE if dtype == "int8" else None)), "y")
    return g.build()


def network(g: ModelBuilder, x: Value) -> Value:
    """What stands between the convolutions of a detector: bias, activation, residual, pad, pool, concat, split."""
    y = conv(g, x, 8)
    y = g.swish(g.add(y, channel_constant(g, y)))
    y = g.add(y, g.relu(conv(g, y, 8)))
    y = g.pad(y, [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = g.transpose(g.max_pool2d(g.transpose(y, NHWC), 2, 2), NCHW)
    half = like(y, shape=(y.shape[0], 4, *y.shape[2:]))
    a, b = g.operator("SPLIT", [indices(g, 1), y], [half, half], options_type="SplitOptions", numSplits=2)
    return conv(g, g.concatenation([a, g.mul(a, g.logistic(b)), y], 1), 5)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("batch", [-1, 1, 2])
def test_a_network_keeps_the_transposes_of_its_ends_only(dtype: str, batch: int) -> None:
    before = model(network, (batch, 3, 8, 10), dtype)
    after = rewritten(before, LAYOUT)
    assert operators(before)["TRANSPOSE"] == 8
    assert operators(after)["TRANSPOSE"] == 2
    assert_equal_outputs(before, after, EXACT)


def test_a_network_between_nhwc_ends_has_no_transposes() -> None:
    before = model(lambda g, x: g.transpose(network(g, g.transpose(x, NCHW)), NHWC), (1, 8, 10, 3))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 0
    assert_equal_outputs(before, after, EXACT)


def test_an_open_batch_stays_open() -> None:
    after = EditedModel.from_bytes(rewritten(model(network, (-1, 3, 8, 10)), LAYOUT)).main
    computed = [index for operator in after.operators for index in operator.outputs]
    assert {after.sizes(index)[0] for index in computed} == {-1}


def split_v(g: ModelBuilder, x: Value) -> Value:
    specs = [like(x, shape=(1, size, *x.shape[2:])) for size in (1, x.shape[1] - 1)]
    inputs = [x, indices(g, [1, x.shape[1] - 1]), indices(g, -3)]
    _, rest = g.operator("SPLIT_V", inputs, specs, options_type="SplitVOptions", numSplits=2)
    return rest


def strided(g: ModelBuilder, x: Value, **masks: int) -> Value:
    """Rows for the first three dimensions only; the last one is taken whole."""
    n, c, h, w = x.shape
    inputs = [x, *(indices(g, rows) for rows in ([0, 1, -h], [n, 99, h], [1, 2, 3]))]
    return one(g, "STRIDED_SLICE", inputs, like(x, shape=(n, c // 2, -(-h // 3), w)), "StridedSliceOptions", **masks)


def unpacked(g: ModelBuilder, x: Value) -> Value:
    """Channels one by one, joined again in another order."""
    n, c, h, w = x.shape
    parts = g.operator("UNPACK", [x], [like(x, shape=(n, h, w))] * c, options_type="UnpackOptions", num=c, axis=1)
    return one(g, "PACK", list(parts[::-1]), like(x), "PackOptions", valuesCount=c, axis=-3)


def packed_constants(g: ModelBuilder, x: Value) -> Value:
    columns = [g.constant(np.linspace(number, 9, 48, dtype=np.float32).reshape(1, 6, 8)) for number in range(10)]
    return g.add(x, one(g, "PACK", columns, like(x), "PackOptions", valuesCount=10, axis=3))


def selected(g: ModelBuilder, x: Value) -> Value:
    is_less = g.less(x, channel_constant(g, x))
    return one(g, "SELECT_V2", [is_less, x, g.mul(x, x)], like(x), "SelectV2Options")


SANDWICHES: dict[str, Draw] = {
    "add": lambda g, x: g.add(x, channel_constant(g, x)),
    "add of fewer dimensions": lambda g, x: g.add(channel_constant(g, x, (-1, 1, 1)), x),
    "add of one number": lambda g, x: g.add(x, g.constant(np.array(2, np.float32))),
    "add of a row": lambda g, x: g.add(x, g.constant(np.arange(x.shape[3], dtype=np.float32))),
    "broadcast of two values": lambda g, x: g.mul(
        one(g, "REDUCE_MAX", [x, indices(g, [2, 3])], like(x, shape=(1, 6, 1, 1)), "ReducerOptions", keepDims=True), x
    ),
    "unary": lambda g, x: g.tanh(g.hard_swish(g.relu6(x))),
    "cast": lambda g, x: g.cast(g.cast(x, "int32"), "float32"),
    "select": selected,
    "prelu": lambda g, x: one(g, "PRELU", [x, channel_constant(g, x, (-1, 1, 1))], like(x)),
    "pad": lambda g, x: g.pad(x, [(0, 0), (1, 0), (0, 2), (3, 0)]),
    "padv2": lambda g, x: one(
        g,
        "PADV2",
        [x, indices(g, [(0, 0), (0, 1), (0, 0), (2, 0)]), g.constant(np.array(3, np.float32))],
        like(x, shape=(1, 7, 8, 12)),
        "PadV2Options",
    ),
    "mirror pad": lambda g, x: one(
        g,
        "MIRROR_PAD",
        [x, indices(g, [(0, 0), (0, 0), (1, 2), (2, 1)])],
        like(x, shape=(1, 6, 11, 13)),
        "MirrorPadOptions",
    ),
    "concatenation": lambda g, x: g.concatenation([x, g.relu(x)], -3),
    "concatenation with a constant": lambda g, x: g.concatenation(
        [x, g.constant(np.arange(160, dtype=np.float32).reshape(1, 2, 8, 10))], 1
    ),
    "split": split_v,
    "slice": lambda g, x: one(
        g,
        "SLICE",
        [x, indices(g, [0, 1, 2, 3]), indices(g, [1, -1, 4, 5])],
        like(x, shape=(1, 5, 4, 5)),
        "SliceOptions",
    ),
    "strided slice": strided,
    "strided slice with masks": lambda g, x: strided(g, x, endMask=0b110),
    "tile": lambda g, x: one(g, "TILE", [x, indices(g, [1, 2, 1, 3])], like(x, shape=(1, 12, 8, 30)), "TileOptions"),
    "broadcast to": lambda g, x: one(
        g,
        "BROADCAST_TO",
        [
            one(g, "REDUCE_MIN", [x, indices(g, [1])], like(x, shape=(1, 1, 8, 10)), "ReducerOptions", keepDims=True),
            indices(g, [1, 3, 8, 10]),
        ],
        like(x, shape=(1, 3, 8, 10)),
        "BroadcastToOptions",
        version=2,
    ),
    "gather": lambda g, x: one(
        g, "GATHER", [x, indices(g, [3, 3, 0])], like(x, shape=(1, 3, 8, 10)), "GatherOptions", axis=1
    ),
    "cumsum": lambda g, x: one(g, "CUMSUM", [x, indices(g, 1)], like(x), "CumsumOptions", reverse=True),
    "reverse": lambda g, x: one(g, "REVERSE_V2", [x, indices(g, [2])], like(x), "ReverseV2Options"),
    "pack": unpacked,
    "pack of constants": packed_constants,
}


@pytest.mark.parametrize("name", SANDWICHES)
def test_transposes_around_an_operator_vanish(name: str) -> None:
    before = model(lambda g, x: g.transpose(SANDWICHES[name](g, g.transpose(x, NCHW)), NHWC), (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 0
    assert_equal_outputs(before, after, EXACT)


@pytest.mark.parametrize("name", ["add", "pad", "concatenation", "split", "slice", "unary", "strided slice"])
def test_quantized_operators_move_as_well(name: str) -> None:
    before = model(lambda g, x: g.transpose(SANDWICHES[name](g, g.transpose(x, NCHW)), NHWC), (1, 8, 10, 6), "int8")
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 0
    assert_equal_outputs(before, after, EXACT)


def reduced(op: str, axes: list[int]) -> Draw:
    def draw(g: ModelBuilder, x: Value) -> Value:
        x = g.transpose(x, NCHW)
        kept = tuple(size for axis, size in enumerate(x.shape) if axis not in {gone % 4 for gone in axes})
        return one(g, op, [x, indices(g, axes)], like(x, shape=kept), "ReducerOptions")

    return draw


def arg_max(g: ModelBuilder, x: Value) -> Value:
    return one(
        g, "ARG_MAX", [g.transpose(x, NCHW), indices(g, 1)], Spec((1, 8, 10), "int32"), "ArgMaxOptions", outputType=2
    )


def first_channel(g: ModelBuilder, x: Value) -> Value:
    return one(g, "GATHER", [g.transpose(x, NCHW), indices(g, 0)], like(x, shape=(1, 8, 10)), "GatherOptions", axis=1)


def third_channel(g: ModelBuilder, x: Value) -> Value:
    inputs = [g.transpose(x, NCHW), *(indices(g, rows) for rows in ([0, 2, 0, 0], [1, 3, 8, 10], [1, 1, 1, 1]))]
    spec = like(x, shape=(1, 8, 10))
    return one(g, "STRIDED_SLICE", inputs, spec, "StridedSliceOptions", shrinkAxisMask=0b0010)


DROPPERS: dict[str, Draw] = {
    "reduce to channels": reduced("REDUCE_MAX", [2, 3]),
    "reduce to an image": reduced("REDUCE_MIN", [-3]),
    "reduce everything": reduced("REDUCE_MAX", [0, 1, 2, 3]),
    "arg max": arg_max,
    "gather": first_channel,
    "strided slice": third_channel,
}


@pytest.mark.parametrize("name", DROPPERS)
def test_a_transpose_before_an_operator_that_drops_dimensions_vanishes(name: str) -> None:
    """What is left stands in the same order."""
    before = model(DROPPERS[name], (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 0
    assert_equal_outputs(before, after, EXACT)


def shuffled(g: ModelBuilder, x: Value) -> Value:
    """The channel shuffle of ShuffleNet, in NCHW."""
    n, h, w, c = x.shape
    groups = g.reshape(g.transpose(x, NCHW), (n, 2, c // 2, h, w))
    return g.transpose(g.reshape(g.transpose(groups, (0, 2, 1, 3, 4)), (n, c, h, w)), NHWC)


def test_transposes_go_through_reshapes_that_split_a_dimension() -> None:
    before = model(shuffled, (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 1
    assert_equal_outputs(before, after, EXACT)


@pytest.mark.parametrize("batch", [-1, 2])
def test_the_end_of_a_detector_is_a_reshape(batch: int) -> None:
    """(N, C, H, W) to (N, C, H·W) to (N, H·W, C) is (N, H, W, C) to (N, H·W, C)."""

    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.conv2d(x, 6, 3)
        return g.transpose(g.reshape(g.transpose(y, NCHW), (y.shape[0], 6, 80)), (0, 2, 1))

    before = model(draw, (batch, 8, 10, 3))
    after = rewritten(before, LAYOUT)
    assert operators(after) == {"CONV_2D": 1, "RESHAPE": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_sum_is_moved_only_where_rounding_may_change() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = conv(g, x)
        weights = g.logistic(conv(g, g.mean(y, (2, 3), keep_dims=True), 6, 1))
        return conv(g, g.mul(y, weights))

    before = model(draw)
    exact, rounded = rewritten(before, LAYOUT), rewritten(before, LAYOUT_ROUNDED)
    assert operators(exact)["TRANSPOSE"] == 3
    assert operators(rounded)["TRANSPOSE"] == 2
    assert_equal_outputs(before, exact, EXACT)
    assert_equal_outputs(before, rounded, 10 * ROUNDING)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("batch", [-1, 2])
def test_dense_weights_take_the_order_of_what_is_flattened(dtype: str, batch: int) -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.relu(conv(g, x, 4))
        return g.fully_connected(g.reshape(y, (y.shape[0], 4 * 8 * 10)), 5)

    before = model(draw, (batch, 3, 8, 10), dtype)
    after = rewritten(before, LAYOUT_ROUNDED)
    assert operators(after)["TRANSPOSE"] == 1  # of the input
    assert len(after) < len(before) + 1000  # the weights are there once
    assert_equal_outputs(before, after, 10 * ROUNDING)


def test_pairs_cancel_and_others_merge() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.transpose(g.transpose(x, (1, 0, 3, 2)), (2, 3, 1, 0))
        return g.transpose(g.transpose(y, NHWC), NCHW)

    before = model(draw)
    after = rewritten(before, LAYOUT)
    assert operators(after) == {"TRANSPOSE": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_transpose_of_other_order_reads_what_is_there() -> None:
    """Two transposes in a row are one, also where a RESHAPE is between them and others read the value, too."""

    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.transpose(g.conv2d(x, 6, 3), NCHW)
        heads = g.reshape(g.relu(y), (1, 2, 3, 8, 10))
        return g.transpose(heads, (0, 1, 3, 4, 2))

    before = model(draw, (1, 8, 10, 3))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 1
    assert_equal_outputs(before, after, EXACT)


def test_rows_may_change_places_where_only_the_last_dimension_counts() -> None:
    rows = (0, 2, 1, 3)

    def draw(g: ModelBuilder, x: Value) -> Value:
        return g.transpose(g.softmax(g.fully_connected(g.relu(g.transpose(x, rows)), 7)), rows)

    before = model(draw)
    after = rewritten(before, LAYOUT)
    assert operators(after) == {"RELU": 1, "FULLY_CONNECTED": 1, "SOFTMAX": 1}
    assert_equal_outputs(before, after, EXACT)


def test_transposes_that_move_no_element_are_reshapes() -> None:
    before = model(lambda g, x: g.conv2d(g.transpose(g.mean(x, keep_dims=True), NCHW), 2), (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after) == {"MEAN": 1, "RESHAPE": 1, "CONV_2D": 1}
    assert_equal_outputs(before, after, EXACT)


def test_a_reshape_takes_in_a_transpose_that_moves_no_element() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        return g.softmax(g.reshape(g.transpose(g.mean(x, keep_dims=True), NCHW), (1, 6)))

    before = model(draw, (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after) == {"MEAN": 1, "RESHAPE": 1, "SOFTMAX": 1}
    assert_equal_outputs(before, after, EXACT)


def test_several_small_transposes_go_for_one_that_is_larger_than_each() -> None:
    """To push any one of them alone does not pay."""

    def draw(g: ModelBuilder, x: Value) -> Value:
        small = [g.transpose(g.conv2d(x, filters, 1), NCHW) for filters in (4, 4, 4)]
        joined = g.relu(g.concatenation(small, 1))
        wide = like(joined, shape=(1, 8, 8, 10))
        inputs = [joined, indices(g, [0, 0, 0, 0]), indices(g, [1, 8, 8, 10])]
        return g.softmax(one(g, "SLICE", inputs, wide, "SliceOptions"))

    before = model(draw, (1, 8, 10, 3))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 1
    assert_equal_outputs(before, after, EXACT)


def test_readers_of_both_orders_share_one_transpose() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        y = g.relu(g.transpose(g.conv2d(x, 6, 3), NCHW))
        soft = [g.softmax(y), g.softmax(g.mul(y, y))]
        return g.add(g.add(*soft), conv(g, g.tanh(y)))

    before = model(draw, (1, 8, 10, 3))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] < operators(before)["TRANSPOSE"]
    assert_equal_outputs(before, after, EXACT)


def test_outputs_of_either_order_keep_names_and_shapes() -> None:
    g = ModelBuilder()
    y = g.relu(conv(g, g.input("x", (1, 3, 8, 10))))
    g.output(y, "nchw")
    g.output(g.transpose(y, NHWC), "nhwc")
    g.output(g.transpose(g.tanh(y), NHWC), "again")
    before = g.build()
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 2
    assert_equal_outputs(before, after, EXACT)


def test_an_input_that_is_only_transposed_stays() -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 3, 8, 10))
    g.output(g.transpose(x, NHWC), "once")
    g.output(g.transpose(x, NHWC), "twice")
    assert_equal_outputs(g.build(), _applied(g.build()), EXACT)


def _applied(data: bytes) -> bytes:
    found = EditedModel.from_bytes(data)
    apply(found, [LAYOUT, LAYOUT_ROUNDED])
    return found.to_bytes()


def test_bodies_of_loops_are_rewritten() -> None:
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    count = condition.input("count", (1,), "int32")
    condition.input("x", (1, 4, 5, 3))
    condition.output(condition.less(count, condition.constant(np.array([3], np.int32))))
    count, x = body.input("count", (1,), "int32"), body.input("x", (1, 4, 5, 3))
    body.output(body.add(count, body.constant(np.array([1], np.int32))))
    body.output(body.transpose(body.relu(body.transpose(x, NCHW)), NHWC))
    _, y = g.while_loop([g.constant(np.array([0], np.int32)), g.input("x", (1, 4, 5, 3))], condition, body)
    g.output(y, "y")
    after = EditedModel.from_bytes(rewritten(g.build(), LAYOUT))
    assert [after.graphs[2].op(operator) for operator in after.graphs[2].operators] == ["ADD", "RELU"]
    assert_equal_outputs(g.build(), after.to_bytes(), EXACT)


def test_scales_of_channels_move_with_their_dimension() -> None:
    def draw(g: ModelBuilder, x: Value) -> Value:
        scales = Quantization(tuple(0.01 * (1 + channel) for channel in range(6)), (0,) * 6, 1)
        weights = g.constant(np.arange(-30, 30, 10, dtype=np.int8).reshape(1, 6, 1, 1), scales)
        return g.transpose(g.mul(g.transpose(x, NCHW), g.dequantize(weights)), NHWC)

    before = model(draw, (1, 8, 10, 6))
    after = rewritten(before, LAYOUT)
    assert operators(after)["TRANSPOSE"] == 0
    assert_equal_outputs(before, after, EXACT)


UNTOUCHED: dict[str, Draw] = {
    "one that is needed": lambda g, x: g.softmax(g.transpose(x, NHWC)),
    "a RESHAPE that mixes": lambda g, x: g.reshape(g.transpose(g.conv2d(x, 4), NCHW), (1, 4 * 8 * 8)),
    "a size that tells nothing": lambda g, x: g.add(x, g.transpose(x, (0, 2, 1, 3))),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_cannot_be_better_keeps_every_byte(name: str) -> None:
    assert_refuses(model(UNTOUCHED[name], (1, 8, 8, 10)), LAYOUT)
