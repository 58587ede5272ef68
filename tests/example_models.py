"""Models for tests and benchmarks: shapes of networks, and tiny models with one feature each that a tool must cope with
(state, loops, odd types, old files). Those that hasten itself uses are here as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.model.build_graph import Spec
from hasten.model.edit.file import bytes_from_object, object_from_bytes
from hasten.model.example_models import INPUT_SCALE, matmul_chain, mobilenet_like, scaled_input, stream
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from hasten.model.build_graph import Value

__all__ = [
    "INPUT_SCALE",
    "PASS_THROUGH_TYPES",
    "aborting",
    "accumulator",
    "branch",
    "cast_to_float",
    "counting_loop",
    "custom_operator",
    "dynamic_batch",
    "efficientnet_like",
    "flex_operator",
    "matmul_chain",
    "mobilenet_like",
    "no_signature",
    "old_schema",
    "one_operator",
    "open_image",
    "open_sound",
    "pass_through",
    "repeated",
    "stream",
    "two_signatures",
]

# What LiteRT 2.3.0 does with the element types of the schema, found by running each in a process of its own:
#   RESHAPE  Interpreter: all but bfloat16 and int2, which its Python binding cannot fill. CompiledModel: all but string
#            (no buffer can be made) and complex128 (the file is refused).
#   CAST     to and from float32: all but string, complex128, uint64 and the two float8.
#   ADD      float32, float16, int16, int32, int64, and quantized int8; plain int8 and uint8 abort the process.
#   MUL      those, and complex64, uint32, plain int8 and uint8.
# The bindings have blind spots of their own: Interpreter shows int4 and float8 as int8, and CompiledModel's tensor
# details say "unknown" for complex64, uint64, int4, uint4 and int2.
PASS_THROUGH_TYPES = (
    *("float32", "float16", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "string"),
)


def one_operator() -> bytes:
    """Return the smallest model that computes: a single ADD of two vectors of four."""
    g = ModelBuilder()
    g.output(g.add(g.input("a", (1, 4)), g.input("b", (1, 4))), "sum")
    return g.build()


def efficientnet_like(
    width: int = 16, blocks: int = 3, size: int = 32, *, dtype: str = "float32", seed: int = 0
) -> bytes:
    """Return a classifier of inverted residuals with squeeze-and-excite and swish, as EfficientNet."""
    g = ModelBuilder(seed)
    y = g.swish(g.conv2d(scaled_input(g, (1, size, size, 3), dtype), width, 3, 2))
    for block in range(blocks):
        y = _squeezed_residual(g, y, width << block, stride=2 if block else 1)
        y = _squeezed_residual(g, y, width << block, stride=1)
    g.output(g.softmax(g.fully_connected(g.mean(y), 10)), "probabilities")
    return g.build()


def repeated(
    layers: int, *, size: int = 28, channels: int = 32, kernel: int = 3, dtype: str = "float32", seed: int = 0
) -> bytes:
    """Return a chain of equal convolutions; 42 layers are truly 5 % slower than 40."""
    g = ModelBuilder(seed)
    y = scaled_input(g, (1, size, size, channels), dtype)
    for _ in range(layers):
        y = g.conv2d(y, channels, kernel, activation="relu6")
    g.output(y, "y")
    return g.build()


def pass_through(dtype: str, shape: tuple[int, ...] = (1, 4)) -> bytes:
    """Return a model that hands its input on with another shape: a RESHAPE, which nearly every type has."""
    g = ModelBuilder()
    g.output(g.reshape(g.input("x", shape, dtype), shape[::-1]), "y")
    return g.build()


def aborting() -> bytes:
    """Return a model that kills the process which runs it: LiteRT 2.3.0 aborts on an ADD of int8 without a scale."""
    g = ModelBuilder()
    x = g.input("x", (1, 4), "int8")
    (y,) = g.operator("ADD", [x, x], [Spec((1, 4), "int8")], options_type="AddOptions")
    g.output(y, "y")
    return g.build()


def cast_to_float(dtype: str, shape: tuple[int, ...] = (1, 4)) -> bytes:
    """Return a model that converts its input to float32."""
    g = ModelBuilder()
    g.output(g.cast(g.input("x", shape, dtype), "float32"), "y")
    return g.build()


def accumulator(size: int = 4) -> bytes:
    """Return a stateful model: it answers with the sum of all inputs since it was loaded."""
    g = ModelBuilder()
    x = g.input("x", (1, size))
    start = g.subgraph("start")
    start.assign_variable(start.variable("total"), start.constant(np.zeros((1, size), dtype=np.float32)))
    g.call_once(start)
    total = g.variable("total")
    y = g.add(g.read_variable(total, (1, size)), x)
    g.assign_variable(total, y)
    g.output(y, "y")
    return g.build()


def counting_loop(rounds: int = 5) -> bytes:
    """Return a model with a WHILE that doubles its input `rounds` times."""
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    count = condition.input("count", (1,), "int32")
    condition.input("x", (1, 4))
    condition.output(condition.less(count, condition.constant(np.array([rounds], dtype=np.int32))))
    count, x = body.input("count", (1,), "int32"), body.input("x", (1, 4))
    body.output(body.add(count, body.constant(np.array([1], dtype=np.int32))))
    body.output(body.add(x, x))
    values = [g.constant(np.array([0], dtype=np.int32)), g.input("x", (1, 4))]
    _, y = g.while_loop(values, condition, body)
    g.output(y, "y")
    return g.build()


def branch() -> bytes:
    """Return a model with an IF: it doubles its input where `flag` holds, and squares it otherwise."""
    g = ModelBuilder()
    then, otherwise = g.subgraph("then"), g.subgraph("otherwise")
    x = then.input("x", (1, 4))
    then.output(then.add(x, x))
    x = otherwise.input("x", (1, 4))
    otherwise.output(otherwise.mul(x, x))
    flag, x = g.input("flag", (), "bool"), g.input("x", (1, 4))
    g.output(g.if_else(flag, [x], then, otherwise, Spec((1, 4))), "y")
    return g.build()


def two_signatures() -> bytes:
    """Return a model that offers two things: `double`, and `multiply` with two inputs and two outputs."""
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(x, x), "doubled")
    multiply = g.subgraph("multiply", signature="multiply")
    a, b = multiply.input("a", (1, 4)), multiply.input("b", (1, 4))
    multiply.output(multiply.mul(a, b), "product")
    multiply.output(multiply.add(a, b), "sum")
    return g.build("double")


def no_signature() -> bytes:
    """Return a model as old converters wrote it: inputs and outputs have names of tensors only."""
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(x, x))
    return g.build(None)


def dynamic_batch(units: int = 3) -> bytes:
    """Return a model whose batch is decided at run time: -1 in the shape signature, 1 in the shape."""
    g = ModelBuilder()
    y = g.conv2d(g.input("x", (-1, 8, 8, 3)), 4, 3, 2, activation="relu")
    g.output(g.fully_connected(g.reshape(y, (1, 64)), units), "y")
    return g.build()


def open_sound(length: int = 16000, *, unset: bool = False) -> bytes:
    """Return a model of sounds whose length the file leaves open, but which runs with one length only."""
    g = ModelBuilder()
    x = g.input("audio", (length,))
    g.output(g.fully_connected(g.reshape(x, (1, length)), 4), "y")
    return _opened(g.build(), (0,), unset=unset)


def open_image(*, side: int = 0) -> bytes:
    """Return a model of images of any size; or of one that only its last layer knows (`side`)."""
    g = ModelBuilder()
    y = g.conv2d(g.input("image", (1, side or 32, side or 32, 3)), 4, 3, 8)
    y = g.reshape(y, (1, int(np.prod(y.shape)))) if side else g.mean(y)
    g.output(g.fully_connected(y, 4), "y")
    return _opened(g.build(), (0, 1, 2))


def _opened(model: bytes, axes: tuple[int, ...], *, unset: bool = False) -> bytes:
    """The model with these dimensions of its input open: 1 in the shape and -1 in its signature, as converters write
    it; or -1 in both (`unset`), as LiteRT does not take it."""
    found = object_from_bytes(model)
    tensor = found.subgraphs[0].tensors[found.subgraphs[0].inputs[0]]
    sizes = list(tensor.shape)
    tensor.shapeSignature = [-1 if axis in axes else size for axis, size in enumerate(sizes)]
    tensor.shape = [(-1 if unset else 1) if axis in axes else size for axis, size in enumerate(sizes)]
    return bytes_from_object(found)


def old_schema() -> bytes:
    """Return a file of before 2020: operator codes are in the field that newer files deprecate, and no signature."""
    g = ModelBuilder(description="TOCO Converted.")
    y = g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3, 2, activation="relu6")
    g.output(g.softmax(g.reshape(y, (1, 64))))
    return g.build(None, old_schema=True)


def custom_operator(code: str = "Unknown") -> bytes:
    """Return a model with an operator between builtin ones that needs a kernel from elsewhere."""
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    y = g.custom(code, [g.add(x, x)], (1, 4))
    g.output(g.add(y, x), "y")
    return g.build()


def flex_operator() -> bytes:
    """Return a model with an operator of TensorFlow itself, which needs the Flex delegate."""
    return custom_operator("FlexErf")


def _squeezed_residual(g: ModelBuilder, x: Value, channels: int, *, stride: int, expansion: int = 4) -> Value:
    y = g.swish(g.conv2d(x, x.shape[-1] * expansion))
    y = g.swish(g.depthwise_conv2d(y, 3, stride))
    squeezed = g.swish(g.conv2d(g.mean(y, keep_dims=True), max(1, x.shape[-1] // 4)))
    y = g.mul(y, g.logistic(g.conv2d(squeezed, y.shape[-1])))
    y = g.conv2d(y, channels)
    return g.add(x, y) if y.shape == x.shape else y
