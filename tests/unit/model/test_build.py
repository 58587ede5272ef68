"""Built models load and run in LiteRT, and compute what numpy computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st
from litert_run import inputs_for, invoke, loaded, run
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.core.errors import UsageError
from hasten.model.build_bytes import DATA_ALIGNMENT, ELEMENT_TYPES, Quantization
from hasten.model.build_graph import INT8_MAX, INT8_MIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.model.build_graph import Value

    Array = NDArray[Any]
    Draw = Callable[[ModelBuilder, Value], Value]

SCALE = 4 / 127
INT8_STEPS = 1.5  # one step of rounding, and half a step for the reference's own rounding of the output


def real_values(array: Array, detail: dict[str, Any]) -> Array:
    scale, zero_point = detail["quantization"]
    return (array.astype(np.float64) - zero_point) * scale if scale else array.astype(np.float64)


def real_constants(model: bytes, rank: int) -> list[Array]:
    """Return weights (constants of the given rank) and bias (rank 1) as real numbers."""
    parsed = schema.ModelT.InitFromPackedBuf(model, 0)
    found = []
    for tensor in parsed.subgraphs[0].tensors:
        if not tensor.buffer or len(tensor.shape) not in (rank, 1):
            continue
        kind = {0: np.float32, 2: np.int32, 9: np.int8}[tensor.type]
        data = parsed.buffers[tensor.buffer].data.tobytes()
        array = np.frombuffer(data, dtype=kind).reshape(tensor.shape).astype(np.float64)
        quantization = tensor.quantization
        if quantization is not None and quantization.scale is not None:
            along = [1] * array.ndim
            along[quantization.quantizedDimension] = -1
            array = array * np.asarray(quantization.scale).reshape(along)
        found.append(array)
    return found


def windows(x: Array, kernel: int, stride: int, padding: str, fill: float = 0.0) -> Array:
    """Return every window of an NHWC array as (n, rows, columns, channels, kernel, kernel)."""
    if padding == "same":
        widths = [(0, 0)]
        for side in x.shape[1:3]:
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            widths.append((total // 2, total - total // 2))
        x = np.pad(x, [*widths, (0, 0)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))[:, ::stride, ::stride]


def activated(y: Array, activation: str | None) -> Array:
    bounds = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), "relu_n1_to_1": (-1, 1)}[activation]
    return np.clip(y, *bounds)


def one_layer(draw: Draw, shape: tuple[int, ...], dtype: str) -> bytes:
    g = ModelBuilder(seed=3)
    g.output(draw(g, g.input("x", shape, dtype, scale=SCALE if dtype == "int8" else None)), "y")
    return g.build()


def assert_computes(model: bytes, reference: Callable[..., Array], rank: int = 0) -> None:
    """Compare a model of one operator with numpy, on real numbers and within the steps of its quantization."""
    interpreter = loaded(model)
    details, (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    arrays = inputs_for(details)
    (actual,) = invoke(interpreter, arrays)
    real = [real_values(array, detail) for array, detail in zip(arrays, details, strict=True)]
    expected = reference(*real, *(real_constants(model, rank) if rank else ()))
    scale, zero_point = output["quantization"]
    assert actual.shape == expected.shape
    assert np.std(expected) > 0
    if scale:
        low, high = ((bound - zero_point) * scale for bound in (INT8_MIN, INT8_MAX))
        np.testing.assert_allclose(
            real_values(actual, output), np.clip(expected, low, high), rtol=0, atol=INT8_STEPS * scale
        )
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


DTYPES = pytest.mark.parametrize("dtype", ["float32", "int8"])
CONVOLUTIONS = pytest.mark.parametrize(
    ("kernel", "stride", "padding", "activation"),
    [
        (1, 1, "same", None),
        (3, 1, "same", "relu"),
        (3, 2, "same", "relu6"),
        (3, 2, "valid", None),
        (5, 1, "valid", None),
    ],
)


@DTYPES
@CONVOLUTIONS
def test_conv2d_is_numpys(dtype: str, kernel: int, stride: int, padding: str, activation: str | None) -> None:
    def reference(x: Array, weights: Array, bias: Array) -> Array:
        y = np.einsum("nhwcij,oijc->nhwo", windows(x, kernel, stride, padding), weights)
        return activated(y + bias, activation)

    model = one_layer(
        lambda g, x: g.conv2d(x, 6, kernel, stride, padding=padding, activation=activation), (1, 9, 8, 3), dtype
    )
    assert_computes(model, reference, rank=4)


@DTYPES
@CONVOLUTIONS
def test_depthwise_is_numpys(dtype: str, kernel: int, stride: int, padding: str, activation: str | None) -> None:
    def reference(x: Array, weights: Array, bias: Array) -> Array:
        y = np.einsum("nhwcij,ijc->nhwc", windows(x, kernel, stride, padding), weights[0])
        return activated(y + bias, activation)

    model = one_layer(
        lambda g, x: g.depthwise_conv2d(x, kernel, stride, padding=padding, activation=activation), (1, 9, 8, 3), dtype
    )
    assert_computes(model, reference, rank=4)


@DTYPES
@pytest.mark.parametrize("dilation", [2, 3])
def test_dilated_depthwise_is_numpys(dtype: str, dilation: int) -> None:
    def reference(x: Array, weights: Array, bias: Array) -> Array:
        kernel = 2 * dilation + 1
        spread = np.zeros((kernel, kernel, 3))
        spread[::dilation, ::dilation] = weights[0]
        found: Array = np.einsum("nhwcij,ijc->nhwc", windows(x, kernel, 1, "same"), spread) + bias
        return found

    model = one_layer(lambda g, x: g.depthwise_conv2d(x, 3, dilation=dilation), (1, 9, 8, 3), dtype)
    assert_computes(model, reference, rank=4)


@DTYPES
@pytest.mark.parametrize("activation", [None, "relu"])
def test_fully_connected_is_numpys(dtype: str, activation: str | None) -> None:
    model = one_layer(lambda g, x: g.fully_connected(x, 7, activation=activation), (5, 16), dtype)
    assert_computes(model, lambda x, weights, bias: activated(x @ weights.T + bias, activation), rank=2)


@DTYPES
@pytest.mark.parametrize("other", [(2, 4, 4, 3), (1, 1, 1, 3)])
@pytest.mark.parametrize(("name", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_arithmetic_is_numpys(dtype: str, other: tuple[int, ...], name: str, function: Any) -> None:
    g = ModelBuilder()
    scale = SCALE if dtype == "int8" else None
    a, b = g.input("a", (2, 4, 4, 3), dtype, scale=scale), g.input("b", other, dtype, scale=scale)
    g.output(getattr(g, name)(a, b), "y")
    assert_computes(g.build(), function)


def test_a_sum_can_take_the_range_of_another_value() -> None:
    g = ModelBuilder()
    a, b = (g.input(name, (1, 4), "int8", scale=SCALE) for name in "ab")
    joined = g.concatenation([a, g.add(a, b, range_of=a)])
    assert joined.quantization == a.quantization
    g.output(joined, "y")
    codes = schema.ModelT.InitFromPackedBuf(g.build(), 0).operatorCodes
    assert schema.BuiltinOperator.QUANTIZE not in {code.builtinCode for code in codes}
    assert_computes(g.build(), lambda a, b: np.concatenate([a, a + b], -1))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def padded(x: Array) -> Array:
    return np.pad(x, [(0, 0), (1, 2), (0, 1), (0, 0)])


def resized(x: Array, size: int, axis: int) -> Array:
    """Interpolate along an axis, with its ends kept in place."""
    old, new = np.arange(x.shape[axis]), np.linspace(0, x.shape[axis] - 1, size)
    return np.apply_along_axis(lambda line: np.interp(new, old, line), axis, x)


UNARY: dict[str, tuple[Draw, Callable[[Array], Array]]] = {
    "relu": (lambda g, x: g.relu(x), lambda x: np.maximum(x, 0)),
    "relu6": (lambda g, x: g.relu6(x), lambda x: np.clip(x, 0, 6)),
    "hard_swish": (lambda g, x: g.hard_swish(x), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "logistic": (lambda g, x: g.logistic(x), sigmoid),
    "hard_sigmoid": (lambda g, x: g.hard_sigmoid(x), lambda x: np.clip(x + 3, 0, 6) / 6),
    "tanh": (lambda g, x: g.tanh(x), np.tanh),
    "swish": (lambda g, x: g.swish(x), lambda x: x * sigmoid(x)),
    "softmax": (lambda g, x: g.softmax(x), softmax),
    "mean": (lambda g, x: g.mean(x), lambda x: x.mean((1, 2))),
    "mean_kept": (lambda g, x: g.mean(x, (-1,), keep_dims=True), lambda x: x.mean(-1, keepdims=True)),
    "max_pool2d": (lambda g, x: g.max_pool2d(x), lambda x: windows(x, 2, 2, "valid").max((-2, -1))),
    "max_pool2d_same": (
        lambda g, x: g.max_pool2d(x, 3, 2, padding="same"),
        lambda x: windows(x, 3, 2, "same", -np.inf).max((-2, -1)),
    ),
    "average_pool2d": (lambda g, x: g.average_pool2d(x, 3, 1), lambda x: windows(x, 3, 1, "valid").mean((-2, -1))),
    "resize_bilinear": (lambda g, x: g.resize_bilinear(x, 11, 9), lambda x: resized(resized(x, 11, 1), 9, 2)),
    "reshape": (lambda g, x: g.reshape(x, (2, 54)), lambda x: x.reshape(2, 54)),
    "transpose": (lambda g, x: g.transpose(x, (0, 3, 1, 2)), lambda x: x.transpose(0, 3, 1, 2)),
    "pad": (lambda g, x: g.pad(x, [(0, 0), (1, 2), (0, 1), (0, 0)]), padded),
    "concatenation": (
        lambda g, x: g.concatenation([x, g.relu(x)], axis=1),
        lambda x: np.concatenate([x, np.maximum(x, 0)], 1),
    ),
}


@DTYPES
@pytest.mark.parametrize("name", UNARY)
def test_operators_are_numpys(dtype: str, name: str) -> None:
    draw, reference = UNARY[name]
    assert_computes(one_layer(draw, (1, 6, 6, 3), dtype), reference)


def test_quantize_and_dequantize_undo_each_other() -> None:
    model = one_layer(lambda g, x: g.dequantize(g.quantize(x, Quantization((SCALE,)))), (1, 64), "float32")
    (x,), (y,) = run(model)
    np.testing.assert_allclose(y, np.clip(x, INT8_MIN * SCALE, INT8_MAX * SCALE), atol=SCALE / 2 + 1e-6)


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_smaller_weights_make_a_smaller_file_that_answers_alike(weights: str) -> None:
    def model(kind: str) -> bytes:
        g = ModelBuilder(weights=kind)
        y = g.depthwise_conv2d(g.conv2d(g.input("x", (1, 16, 16, 16)), 32, 3))
        g.output(g.fully_connected(g.mean(y), 5), "y")
        return g.build()

    _, (expected,) = run(model("float32"))
    _, (actual,) = run(model(weights))
    assert len(model(weights)) < 0.7 * len(model("float32"))
    np.testing.assert_allclose(actual, expected, atol=0.02)


def test_element_types_are_the_schemas() -> None:
    numbers = {name: number for name, number in vars(schema.TensorType).items() if not name.startswith("_")}
    assert {name.upper(): number for number, name in enumerate(ELEMENT_TYPES)} == numbers


def test_weights_are_aligned() -> None:
    model = example_models.mobilenet_like(dtype="int8")
    parsed = schema.Model.GetRootAs(model, 0)
    base = np.frombuffer(model, dtype=np.uint8).ctypes.data
    buffers = [parsed.Buffers(index) for index in range(parsed.BuffersLength())]
    offsets = [buffer.DataAsNumpy().ctypes.data - base for buffer in buffers if buffer.DataLength()]
    assert offsets
    assert {offset % DATA_ALIGNMENT for offset in offsets} == {0}


def test_same_seed_same_file(tmp_path: Path) -> None:
    assert example_models.mobilenet_like() == example_models.mobilenet_like()
    assert example_models.mobilenet_like() != example_models.mobilenet_like(seed=1)
    g = ModelBuilder()
    g.output(g.relu(g.input("x", (1, 2))))
    assert g.write(tmp_path / "model.tflite").read_bytes() == g.build()


def with_variable(g: ModelBuilder) -> ModelBuilder:
    g.output(g.read_variable(g.variable("newer than the old schema"), (1, 4)))
    return g


WRONG: dict[str, Callable[[ModelBuilder, Value], object]] = {
    "activation": lambda g, x: g.conv2d(x, 2, activation="gelu"),
    "padding": lambda g, x: g.conv2d(x, 2, padding="full"),
    "window": lambda g, x: g.max_pool2d(x, 9),
    "rank": lambda g, x: g.conv2d(g.reshape(x, (1, 48)), 2),
    "elements": lambda g, x: g.reshape(x, (1, 47)),
    "types": lambda g, x: g.add(x, g.cast(x, "int32")),
    "plain int8": lambda g, x: g.add(g.cast(x, "int8"), g.cast(x, "int8")),
    "weights of int32": lambda g, x: g.conv2d(g.cast(x, "int32"), 2),
    "element type": lambda g, x: g.cast(x, "float12"),
    "moved batch": lambda g, x: g.transpose(g.input("z", (-1, 2)), (1, 0)),
    "dynamic side": lambda g, x: g.input("z", (1, -1)),
    "foreign value": lambda g, x: g.subgraph("other").relu(x),
    "same subgraph": lambda g, x: (g.subgraph("other"), g.subgraph("other")),
    "no output": lambda g, x: g.build(),
    "old schema": lambda g, x: with_variable(g).build(old_schema=True),
    "weights": lambda g, x: ModelBuilder(weights="int3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_misuse_is_told(name: str) -> None:
    g = ModelBuilder()
    with pytest.raises(UsageError) as caught:
        WRONG[name](g, g.input("x", (1, 4, 4, 3)))
    assert caught.value.hint


STEPS: dict[str, Draw] = {
    "conv2d": lambda g, x: g.conv2d(x, 5, 3, activation="relu6"),
    "strided": lambda g, x: g.conv2d(x, 3, 3, 2),
    "depthwise": lambda g, x: g.depthwise_conv2d(x, 3, multiplier=2),
    "fully_connected": lambda g, x: g.fully_connected(x, 4),
    "residual": lambda g, x: g.add(x, g.conv2d(x, x.shape[-1])),
    "gate": lambda g, x: g.mul(x, g.logistic(g.conv2d(g.mean(x, keep_dims=True), x.shape[-1]))),
    "pool": lambda g, x: g.max_pool2d(x, 2, 1, padding="same"),
    "join": lambda g, x: g.concatenation([x, g.relu(x)]),
    "pad": lambda g, x: g.pad(x, [(0, 0), (1, 0), (0, 1), (0, 0)]),
    "turn": lambda g, x: g.transpose(x, (0, 2, 1, 3)),
    "hard_swish": lambda g, x: g.hard_swish(x),
    "swish": lambda g, x: g.swish(x),
    "softmax": lambda g, x: g.softmax(x),
}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    dtype=st.sampled_from(["float32", "int8"]),
    batch=st.sampled_from([-1, 1, 3]),
    sides=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    channels=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_any_stack_has_the_declared_shape(
    steps: list[str], dtype: str, batch: int, sides: tuple[int, int], channels: int, seed: int
) -> None:
    g = ModelBuilder(seed)
    y = g.input("x", (batch, *sides, channels), dtype, scale=SCALE if dtype == "int8" else None)
    for step in steps:
        y = STEPS[step](g, y)
    g.output(y, "y")
    _, (output,) = run(g.build())
    assert output.shape == y.shape
    assert str(output.dtype) == dtype
    assert np.isfinite(output.astype(np.float64)).all()
