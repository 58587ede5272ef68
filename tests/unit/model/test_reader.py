"""What the reader tells about sound models, and that nothing but a clear error comes of unsound ones."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasten.core.errors import ModelError
from hasten.model.cost import count_cost, stored_shapes
from hasten.model.reader import read_constant, read_graph

if TYPE_CHECKING:
    from hasten.model.graph import Graph

Write = Callable[[Any], Path]
fuzz = settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_refused(path: Path, *words: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_graph(path)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith("."), "a message is a sentence"
    for word in words:
        assert word in caught.value.message


def use_everything(graph: Graph) -> None:
    """Call what other rooms call; a graph that was accepted must answer all of it."""
    assert graph.inputs is not None
    assert graph.outputs is not None
    assert graph.number_format().describe()
    assert isinstance(graph.stateful, bool)
    assert isinstance(graph.custom_operators() + graph.flex_operators(), tuple)
    graph.signature()
    for subgraph in graph.subgraphs:
        assert all(isinstance(subgraph.node_location(node), str) for node in subgraph.nodes)
        for node in subgraph.nodes:
            count_cost(subgraph, node)
            count_cost(subgraph, node, stored_shapes(subgraph))
        for tensor in subgraph.tensors:
            with suppress(ModelError):
                read_constant(graph, tensor)


def test_a_model_is_read_with_names_shapes_and_options(tmp_path: Path, write_model: Write, sample: Any) -> None:
    graph = read_graph(write_model(sample))
    assert (graph.version, graph.description, graph.main.name) == (3, "sample", "main")
    assert graph.size_bytes == (tmp_path / "model.tflite").stat().st_size
    assert len(graph.sha256) == 64
    (image,) = graph.inputs
    assert (image.name, image.shape, image.shape_signature) == ("image", (1, 8, 8, 2), (-1, 8, 8, 2))
    assert image.is_dynamic
    conv, reshape, custom = graph.main.nodes
    assert (conv.op, conv.version, conv.inputs, conv.outputs) == ("CONV_2D", 2, (0, 1, 2), (3,))
    assert conv.options["padding"] == "SAME"
    assert conv.options["stride_h"] == 2
    assert conv.options["fused_activation_function"] == "RELU6"
    assert reshape.options["new_shape"] == (1, 128)
    assert (custom.op, custom.custom_code, custom.label, custom.inputs) == ("CUSTOM", "Polish", "Polish", (4, -1))
    assert graph.node_location(conv) == "convolved"


def test_weights_are_described_and_can_be_read(write_model: Write, sample: Any) -> None:
    graph = read_graph(write_model(sample))
    weights = graph.main.tensors[1]
    assert weights.quantization is not None
    assert weights.quantization.per_channel
    assert weights.quantization.scales == (0.5, 0.25, 0.125, 1.0)
    assert (weights.is_constant, weights.buffer_bytes) == (True, 72)
    values = read_constant(graph, weights)
    assert values is not None
    np.testing.assert_array_equal(values, np.arange(72, dtype=np.int8).reshape(4, 3, 3, 2))
    assert read_constant(graph, graph.inputs[0]) is None


@pytest.mark.parametrize(
    ("dtype", "raw", "expected"),
    [
        (schema.TensorType.INT4, b"\xf1\x08", [1, -1, -8]),
        (schema.TensorType.UINT4, b"\xf1\x08", [1, 15, 8]),
        (schema.TensorType.INT2, b"\x39", [1, -2, -1]),
        (schema.TensorType.BFLOAT16, b"\x80\x3f\x00\xc0\x00\x00", [1.0, -2.0, 0.0]),
        (schema.TensorType.FLOAT16, np.array([1, -2, 0.5], np.float16).tobytes(), [1.0, -2.0, 0.5]),
    ],
)
def test_small_types_are_unpacked(
    write_model: Write, add_constant: Any, sample: Any, dtype: int, raw: bytes, expected: list[float]
) -> None:
    add_constant(sample, "small", [3], dtype, raw)
    graph = read_graph(write_model(sample))
    values = read_constant(graph, graph.main.tensors[-1])
    assert values is not None
    assert values.tolist() == expected


def test_a_constant_of_the_wrong_size_is_named(write_model: Write, sample: Any) -> None:
    sample.subgraphs[0].tensors[1].shape = [4, 3, 3, 3]
    graph = read_graph(write_model(sample))
    with pytest.raises(ModelError, match="'weights' has 72 bytes"):
        read_constant(graph, graph.main.tensors[1])


def test_operator_codes_of_old_files_are_understood(write_model: Write, sample: Any) -> None:
    for code in sample.operatorCodes:
        code.builtinCode = 0
    assert [node.op for node in read_graph(write_model(sample)).main.nodes] == ["CONV_2D", "RESHAPE", "CUSTOM"]


def test_operator_codes_above_127_come_from_the_new_field(write_model: Write, sample: Any) -> None:
    sample.operatorCodes[0].deprecatedBuiltinCode = 127
    sample.operatorCodes[0].builtinCode = schema.BuiltinOperator.GELU
    assert read_graph(write_model(sample)).main.nodes[0].op == "GELU"


def test_an_operator_newer_than_the_schema_is_kept_by_number(write_model: Write, sample: Any) -> None:
    sample.operatorCodes[0].builtinCode = 5000
    graph = read_graph(write_model(sample))
    assert graph.main.nodes[0].op == "UNKNOWN_5000"
    assert count_cost(graph.main, graph.main.nodes[0]).macs is None


def test_signatures_are_found_by_key(write_model: Write, sample: Any) -> None:
    graph = read_graph(write_model(sample))
    signature = graph.signature()
    assert signature is not None
    assert signature == graph.signature("serving_default")
    assert (signature.inputs, signature.outputs) == ({"x": 0}, {"y": 5})
    with pytest.raises(ModelError) as caught:
        graph.signature("train")
    assert "serving_default" in caught.value.hint


def test_a_file_without_signatures_is_fine(write_model: Write, sample: Any) -> None:
    sample.signatureDefs = None
    assert read_graph(write_model(sample)).signature() is None


def test_flex_and_custom_operators_are_told_apart(write_model: Write, sample: Any) -> None:
    sample.operatorCodes[1].builtinCode = schema.BuiltinOperator.CUSTOM
    sample.operatorCodes[1].customCode = "FlexErf"
    graph = read_graph(write_model(sample))
    assert graph.custom_operators() == ("FlexErf", "Polish")
    assert graph.flex_operators() == ("FlexErf",)


def test_variable_tensors_make_a_model_stateful(write_model: Write, sample: Any) -> None:
    assert not read_graph(write_model(sample)).stateful
    sample.subgraphs[0].tensors[3].isVariable = True
    assert read_graph(write_model(sample)).stateful


def test_buffers_beyond_the_flatbuffer_are_found(write_model: Write, sample: Any) -> None:
    values = np.arange(72, dtype=np.int8)
    sample.buffers[1].data = None
    sample.buffers[1].offset, sample.buffers[1].size = 8192, 72
    path = write_model(sample)
    path.write_bytes(path.read_bytes().ljust(8192, b"\0") + values.tobytes())
    graph = read_graph(path)
    read = read_constant(graph, graph.main.tensors[1])
    assert read is not None
    np.testing.assert_array_equal(read.ravel(), values)
    path.write_bytes(path.read_bytes()[:-1])
    assert_refused(path, "beyond the end")


def test_names_that_are_not_utf8_are_kept_readable(tmp_path: Path, sample_bytes: bytes) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(sample_bytes.replace(b"convolved", b"conv\xff\xfeved"))
    assert read_graph(path).main.tensors[3].name == "conv\ufffd\ufffdved"


def set_float(tensor: Any) -> None:
    tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None


def set_half(tensor: Any) -> None:
    tensor.type, tensor.quantization = schema.TensorType.FLOAT16, None


@pytest.mark.parametrize(("change", "kind"), [(set_float, "float32"), (set_half, "float16")])
def test_kind_of_float_models(write_model: Write, sample: Any, change: Any, kind: str) -> None:
    change(sample.subgraphs[0].tensors[1])
    assert read_graph(write_model(sample)).number_format().describe() == kind


@pytest.mark.parametrize(
    ("computed", "kind"),
    [
        ([None, None], "int8 dynamic/weight-only"),
        (["INT8", "INT8"], "int8 static"),
        (["UINT8", "UINT8"], "uint8 static"),
        (["INT16", "INT16"], "int16"),
        (["INT8", None], "mixed"),
    ],
)
def test_kind_of_quantized_models(write_model: Write, sample: Any, computed: list[str | None], kind: str) -> None:
    for tensor, dtype in zip(sample.subgraphs[0].tensors[3:5], computed, strict=True):
        if dtype is not None:
            tensor.type = getattr(schema.TensorType, dtype)
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [0.1], [3]
    assert read_graph(write_model(sample)).number_format().describe() == kind


def test_files_that_are_no_models_are_refused(tmp_path: Path, sample_bytes: bytes) -> None:
    assert_refused(tmp_path / "absent.tflite", "no file")
    assert_refused(tmp_path, "not a file")
    path = tmp_path / "model.tflite"
    path.write_bytes(b"")
    assert_refused(path, "empty")
    for content in (b"hello, this is text\n" * 9, b"TFL", b"\0" * 64, sample_bytes.replace(b"TFL3", b"TFL9")):
        path.write_bytes(content)
        assert_refused(path, "not a TensorFlow Lite model")
    assert_refused(Path("nul\0byte.tflite"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(write_model: Write, sample: Any) -> None:
    path = write_model(sample)
    path.chmod(0)
    assert_refused(path, "Permission denied")


def break_input(model: Any) -> None:
    model.subgraphs[0].operators[0].inputs = [0, 99, 2]


def break_output(model: Any) -> None:
    model.subgraphs[0].outputs = [-1]


def break_code(model: Any) -> None:
    model.subgraphs[0].operators[0].opcodeIndex = 7


def break_buffer(model: Any) -> None:
    model.subgraphs[0].tensors[1].buffer = 50


def break_signature(model: Any) -> None:
    model.signatureDefs[0].inputs[0].tensorIndex = 77


def break_shape(model: Any) -> None:
    model.subgraphs[0].tensors[0].shape = [2**31 - 1] * 4


def break_rank(model: Any) -> None:
    model.subgraphs[0].tensors[0].shape = [1] * 1000


def break_graph(model: Any) -> None:
    model.subgraphs = []


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (break_input, "tensor 99"),
        (break_output, "tensor -1"),
        (break_code, "operator code 7"),
        (break_buffer, "buffer 50"),
        (break_signature, "tensor 77"),
        (break_shape, "impossible shape"),
        (break_rank, "1000 dimensions"),
        (break_graph, "no graph"),
    ],
)
def test_damage_is_named(write_model: Write, sample: Any, damage: Any, word: str) -> None:
    damage(sample)
    assert_refused(write_model(sample), "is damaged", word)


@pytest.mark.timeout(30)
def test_tables_that_multiply_are_refused(tmp_path: Path, sample_bytes: bytes) -> None:
    """Ten thousand subgraphs that all are one and the same table: the file stays small, the work would not."""
    data = bytearray(sample_bytes)
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 8)[0]
    old = field + struct.unpack_from("<I", data, field)[0]
    subgraph = old + 4 + struct.unpack_from("<I", data, old + 4)[0]
    subgraph_vtable = subgraph - struct.unpack_from("<i", data, subgraph)[0]
    count, vector = 10_000, len(data)
    struct.pack_into("<I", data, field, vector - field)
    # Offsets only point forward, so the table has to stand behind the list that points at it.
    table = vector + 4 + 4 * count
    data += struct.pack("<I", count) + b"".join(struct.pack("<I", 4 * (count - i)) for i in range(count))
    data += struct.pack("<i", table - subgraph_vtable) + bytes(64)
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    assert_refused(path, "is damaged", "more often than a sound file can")


def accept_or_refuse(path: Path) -> None:
    try:
        graph = read_graph(path)
    except ModelError as error:
        refusal = error
    else:
        use_everything(graph)
        return
    assert refusal.hint
    assert "\n" not in refusal.message


@fuzz
@given(cut=st.integers(1, 1000))
def test_a_truncated_file_gives_a_model_error_or_a_graph(tmp_path: Path, sample_bytes: bytes, cut: int) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(sample_bytes[:-cut])
    accept_or_refuse(path)


@fuzz
@given(
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=12),
    words=st.lists(st.tuples(st.integers(0, 2**16), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1])), max_size=3),
)
def test_a_mutated_file_gives_a_model_error_or_a_graph(
    tmp_path: Path, sample_bytes: bytes, changes: list[tuple[int, int]], words: list[tuple[int, int]]
) -> None:
    data = bytearray(sample_bytes)
    for position, value in changes:
        data[position % len(data)] = value
    for position, value in words:
        struct.pack_into("<I", data, 4 * (position % (len(data) // 4)), value)
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    accept_or_refuse(path)


def test_every_real_model_is_read(cases: Path) -> None:
    paths = sorted(cases.rglob("*.tflite"))
    assert paths
    for path in paths:
        graph = read_graph(path)
        assert graph.main.nodes
        use_everything(graph)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("01_mobilenet_v1_025_imagenet/model_float", "float32"),
        ("01_mobilenet_v1_025_imagenet/model_qat_uint8", "uint8 static"),
        ("02_kws_dscnn/model_shipped_as_float32", "int8 dynamic/weight-only"),
        ("03_resnet8_cifar10/model_int8", "int8 static"),
        ("edge/face_landmark_with_attention_unresolved_custom_op", "float16"),
    ],
)
def test_kind_of_real_models(cases: Path, name: str, kind: str) -> None:
    assert read_graph(cases / f"{name}.tflite").number_format().describe() == kind
