"""A small but rich model, made with the schema's own object API, for the tests of the reader and what it feeds; and
hasten's own kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from hasten.core.failure import Failure
from hasten.custom_kernels.build import build_own, native_toolchain

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


@pytest.fixture(scope="session")
def own_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where hasten's own kernels are built: once for all workers of a run."""
    if isinstance(native_toolchain(), Failure):
        pytest.skip("there is no C compiler to build kernels with")
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "own_kernels"


@pytest.fixture(scope="session")
def own_library(own_kernels: Path) -> str:
    """What a plan names for hasten's own kernels."""
    built = build_own(own_kernels)
    assert not isinstance(built, Failure), built
    return str(built.path)


def sample_tensor(name: str, shape: list[int], dtype: int = schema.TensorType.FLOAT32, buffer: int = 0) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, shape, dtype, buffer
    return tensor


def sample_buffer(data: bytes = b"") -> Any:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8) if data else None
    return buffer


def sample_code(builtin: int, custom: str | None = None) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 2
    code.customCode = custom
    return code


def sample_operator(code: int, inputs: list[int], outputs: list[int], options: Any = None) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, inputs, outputs
    if options is not None:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        operator.builtinOptions = options
    return operator


def sample_signature(key: str, inputs: dict[str, int], outputs: dict[str, int]) -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = key, 0
    for names, field in ((inputs, "inputs"), (outputs, "outputs")):
        maps = []
        for name, index in names.items():
            item = schema.TensorMapT()
            item.name, item.tensorIndex = name, index
            maps.append(item)
        setattr(signature, field, maps)
    return signature


def sample_model() -> Any:
    """A 3x3 convolution on [?, 8, 8, 2], a reshape, and a custom operator."""
    conv = schema.Conv2DOptionsT()
    conv.padding, conv.strideH, conv.strideW = schema.Padding.SAME, 2, 1
    conv.fusedActivationFunction = schema.ActivationFunctionType.RELU6
    reshape = schema.ReshapeOptionsT()
    reshape.newShape = [1, 128]
    image = sample_tensor("image", [1, 8, 8, 2])
    image.shapeSignature = [-1, 8, 8, 2]
    weights = sample_tensor("weights", [4, 3, 3, 2], schema.TensorType.INT8, buffer=1)
    weights.quantization = schema.QuantizationParametersT()
    weights.quantization.scale, weights.quantization.zeroPoint = [0.5, 0.25, 0.125, 1.0], [0, 0, 0, 0]
    subgraph = schema.SubGraphT()
    subgraph.name = "main"
    subgraph.tensors = [
        image,
        weights,
        sample_tensor("bias", [4], buffer=2),
        sample_tensor("convolved", [1, 4, 8, 4]),
        sample_tensor("flat", [1, 128]),
        sample_tensor("result", [1, 128]),
        sample_tensor("new_shape", [2], schema.TensorType.INT32, buffer=3),
    ]
    subgraph.inputs, subgraph.outputs = [0], [5]
    subgraph.operators = [
        sample_operator(0, [0, 1, 2], [3], conv),
        sample_operator(1, [3, 6], [4], reshape),
        sample_operator(2, [4, -1], [5]),
    ]
    operators = schema.BuiltinOperator
    model = schema.ModelT()
    model.version, model.description = 3, "sample"
    model.operatorCodes = [
        sample_code(operators.CONV_2D),
        sample_code(operators.RESHAPE),
        sample_code(operators.CUSTOM, "Polish"),
    ]
    model.subgraphs = [subgraph]
    model.buffers = [
        sample_buffer(),
        sample_buffer(np.arange(72, dtype=np.int8).tobytes()),
        sample_buffer(np.array([1, 2, 3, 4], np.float32).tobytes()),
        sample_buffer(np.array([1, 128], np.int32).tobytes()),
    ]
    model.signatureDefs = [sample_signature("serving_default", {"x": 0}, {"y": 5})]
    return model


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


@pytest.fixture
def sample() -> Any:
    return sample_model()


@pytest.fixture(scope="session")
def sample_bytes() -> bytes:
    return packed(sample_model())


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[[Any], Path]:
    def write(model: Any) -> Path:
        path = tmp_path / "model.tflite"
        path.write_bytes(packed(model))
        return path

    return write


@pytest.fixture
def add_constant() -> Callable[..., None]:
    """Append a constant tensor, with a buffer of its own, to the primary subgraph."""

    def add(model: Any, name: str, shape: list[int], dtype: int, raw: bytes) -> None:
        model.buffers.append(sample_buffer(raw))
        model.subgraphs[0].tensors.append(sample_tensor(name, shape, dtype, buffer=len(model.buffers) - 1))

    return add


@pytest.fixture
def cases() -> Path:
    if not CASES.is_dir():
        pytest.skip(f"the folder of real models {CASES} is not there")
    return CASES
