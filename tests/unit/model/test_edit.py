"""Files that went through the editor: what was not asked for stays, what was changed is sound, and parts can be cut."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from litert_run import inputs_for, invoke, loaded, run
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten import demo
from hasten.core.errors import ModelError, UsageError
from hasten.model.edit.cut import cut_out, make_private
from hasten.model.edit.graph import options
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_constant, read_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.model.edit.graph import EditedGraph
    from hasten.model.graph import Graph

MODELS: dict[str, Callable[[], bytes]] = {
    "demo": demo.MODEL.read_bytes,
    "mobilenet": example_models.mobilenet_like,
    "mobilenet int8": lambda: example_models.mobilenet_like(dtype="int8"),
    "efficientnet": example_models.efficientnet_like,
    "loop": example_models.counting_loop,
    "branch": example_models.branch,
    "two signatures": example_models.two_signatures,
    "no signature": example_models.no_signature,
    "dynamic batch": example_models.dynamic_batch,
    "state": example_models.accumulator,
    "old": example_models.old_schema,
}


def edited(draw: Callable[[ModelBuilder], Any]) -> EditedModel:
    builder = ModelBuilder()
    draw(builder)
    return EditedModel.from_bytes(builder.build())


def graph_of(data: bytes, folder: Path) -> Graph:
    (folder / "m.tflite").write_bytes(data)
    return read_graph(folder / "m.tflite")


def ops(graph: EditedGraph) -> list[str]:
    return [graph.op(operator) for operator in graph.operators]


# -- what nobody changed


@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_keeps_outputs_and_all_that_is_declared(name: str, tmp_path: Path) -> None:
    data = MODELS[name]()
    model = EditedModel.from_bytes(data)
    model.clean()
    again = model.to_bytes()
    inputs, expected = run(data)
    for seen, wanted in zip(invoke(loaded(again), inputs), expected, strict=True):
        np.testing.assert_array_equal(seen, wanted)
    before, after = graph_of(data, tmp_path), graph_of(again, tmp_path)
    assert [[node.op for node in one.nodes] for one in after.subgraphs] == [
        [node.op for node in one.nodes] for one in before.subgraphs
    ]
    assert [(entry.key, list(entry.inputs), list(entry.outputs)) for entry in after.signatures] == [
        (entry.key, list(entry.inputs), list(entry.outputs)) for entry in before.signatures
    ]
    for one, other in zip((*before.inputs, *before.outputs), (*after.inputs, *after.outputs), strict=True):
        assert (one.name, one.shape_signature, one.dtype, one.quantization) == (
            other.name,
            other.shape_signature,
            other.dtype,
            other.quantization,
        )


def test_real_models_survive_a_round_trip(cases: Path) -> None:
    for path in sorted(cases.rglob("*.tflite")):
        again = EditedModel.read(path).to_bytes()
        try:
            first = loaded(path.read_bytes())
        except (RuntimeError, ValueError):  # some are there for being odd
            continue
        second = loaded(again)
        inputs = inputs_for(first.get_input_details())
        for wanted, seen in zip(invoke(first, inputs), invoke(second, inputs), strict=True):
            np.testing.assert_array_equal(seen, wanted, err_msg=path.name)


def test_files_packed_behind_a_model_come_along_and_bytes_are_repeatable(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(example_models.mobilenet_like())
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr(zipfile.ZipInfo("labels.txt", (2020, 1, 2, 3, 4, 6)), "cat\ndog\n")
    first, second = (EditedModel.read(path).to_bytes() for _ in range(2))
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as packed:
        assert packed.read("labels.txt") == b"cat\ndog\n"
        assert packed.getinfo("labels.txt").date_time == (2020, 1, 2, 3, 4, 6)


def _bomb(content: bytes) -> bytes:
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"{number}.txt", bytes(30 * 2**20))
    return packed.getvalue()


def _packed(content: bytes) -> bytes:
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.txt", "cat dog " * 100)
    return packed.getvalue()


def _encrypted(content: bytes) -> bytes:
    packed = bytearray(_packed(content))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.rindex(signature) + flags] |= 1
    return bytes(packed)


def _damaged(content: bytes) -> bytes:
    packed = bytearray(_packed(content))
    start = packed.rindex(b"labels.txt", 0, packed.rindex(b"PK\x01\x02")) + len("labels.txt")
    packed[start : start + 8] = b"\xff" * 8
    return bytes(packed)


@pytest.mark.parametrize("spoil", [_bomb, _encrypted, _damaged])
def test_a_strangers_archive_behind_a_model_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(spoil(example_models.mobilenet_like()))
    with pytest.raises(ModelError, match=r"The files packed in m\.tflite"):
        EditedModel.read(path)


def test_a_list_of_metadata_may_point_beyond_the_end(tmp_path: Path) -> None:
    model = EditedModel.from_bytes(example_models.mobilenet_like())
    model.record.metadataBuffer = [3, 4000]
    again = EditedModel.from_bytes(model.to_bytes())
    again.clean()
    assert list(again.record.metadataBuffer) == [3, 4000]
    assert graph_of(again.to_bytes(), tmp_path).main.nodes


# -- changes


def test_what_no_output_needs_goes_and_the_rest_stays(tmp_path: Path) -> None:
    def draw(g: ModelBuilder) -> None:
        x = g.input("x", (1, 8, 8, 3))
        g.conv2d(x, 4, 3)
        g.output(g.relu(g.tanh(x)), "y")

    model = edited(draw)
    before = len(model.to_bytes())
    assert model.main.unneeded() == [model.main.operators[0]]
    model.clean()
    graph = graph_of(model.to_bytes(), tmp_path)
    assert [node.op for node in graph.main.nodes] == ["TANH", "RELU"]
    assert len(graph.main.tensors) == 3
    assert graph.size_bytes < before
    signature = graph.signature()
    assert signature is not None
    assert list(signature.outputs.values()) == list(graph.main.outputs)


@pytest.mark.parametrize("last", [False, True])
def test_an_operator_that_changes_nothing_is_taken_out_and_outputs_keep_their_names(last: bool) -> None:
    def draw(g: ModelBuilder) -> None:
        same = g.reshape(g.tanh(g.input("x", (1, 4))), (1, 4))
        g.output(same if last else g.relu(same), "y")

    model = edited(draw)
    inputs, expected = run(model.to_bytes())
    name = model.main.name(model.main.outputs[0])
    reshape = model.main.operators[1]
    assert model.main.take_out(reshape, reshape.inputs[0])
    model.clean()
    assert ops(model.main) == ["TANH"] if last else ["TANH", "RELU"]
    assert model.main.name(model.main.outputs[0]) == name
    np.testing.assert_array_equal(invoke(loaded(model.to_bytes()), inputs)[0], expected[0])


def test_an_input_is_not_made_an_output() -> None:
    model = edited(lambda g: g.output(g.reshape(g.input("x", (1, 4)), (1, 4)), "y"))
    reshape = model.main.operators[0]
    assert not model.main.take_out(reshape, reshape.inputs[0])
    assert ops(model.main) == ["RESHAPE"]


def test_new_operators_and_constants_run(tmp_path: Path) -> None:
    model = edited(lambda g: g.output(g.tanh(g.input("x", (1, 4))), "y"))
    graph = model.main
    tanh = graph.operators[0]
    scaled = graph.add_tensor((1, 4), like=tanh.inputs[0], name="scaled")
    factor = graph.add_constant(np.array([1, 2, 3, 4], np.float32), "factor")
    made = graph.insert("MUL", [tanh.inputs[0], factor], [scaled], before=tanh, chosen=options("MulOptions"))
    graph.set_input(tanh, 0, scaled)
    assert made.nodes == tanh.nodes == (0,)
    assert graph.producer(scaled) is made
    assert graph.only_reader(scaled) is tanh
    inputs, outputs = run(model.to_bytes())
    np.testing.assert_allclose(outputs[0], np.tanh(inputs[0] * [1, 2, 3, 4]), rtol=1e-5, atol=1e-6)


def test_names_of_new_tensors_are_unique() -> None:
    model = edited(lambda g: g.output(g.tanh(g.input("x", (1, 4))), "y"))
    made = [model.main.add_tensor((1, 4), like=0, name="x") for _ in range(3)]
    names = [model.main.name(index) for index in range(len(model.main.record.tensors))]
    assert len(set(names)) == len(names) == 2 + len(made)


def test_outputs_that_nobody_wants_are_dropped_with_what_they_cost(tmp_path: Path) -> None:
    def draw(g: ModelBuilder) -> None:
        x = g.input("x", (1, 4))
        g.output(g.tanh(x), "small")
        g.output(g.fully_connected(x, 8), "large")

    model = edited(draw)
    model.main.keep_outputs(model.main.outputs[:1])
    model.clean()
    graph = graph_of(model.to_bytes(), tmp_path)
    signature = graph.signature()
    assert signature is not None
    assert list(signature.outputs) == ["small"]
    assert [node.op for node in graph.main.nodes] == ["TANH"]


def test_an_order_that_cannot_run_is_refused() -> None:
    model = edited(lambda g: g.output(g.relu(g.tanh(g.input("x", (1, 4)))), "y"))
    model.main.operators.reverse()
    with pytest.raises(ModelError, match="does not find its inputs"):
        model.to_bytes()


# -- parts


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("middle", [0, 4, 9])
def test_two_parts_after_each_other_give_what_the_whole_gives(dtype: str, middle: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(example_models.mobilenet_like(dtype=dtype))
    last = len(read_graph(path).main.nodes) - 1
    inputs, expected = run(path.read_bytes())
    between = invoke(loaded(cut_out(path, 0, middle).to_bytes()), inputs)
    outputs = invoke(loaded(cut_out(path, middle + 1, last).to_bytes()), between)
    np.testing.assert_array_equal(outputs[0], expected[0])


def test_a_part_has_the_names_of_its_tensors_and_nothing_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(example_models.mobilenet_like())
    whole = read_graph(path)
    part = graph_of(cut_out(path, 3, 5).to_bytes(), tmp_path)
    assert [node.op for node in part.main.nodes] == [node.op for node in whole.main.nodes[3:6]]
    signature = part.signature()
    assert signature is not None
    inside = {index for node in whole.main.nodes[3:6] for index in node.outputs}
    outside = {index for node in (*whole.main.nodes[:3], *whole.main.nodes[6:]) for index in node.inputs}
    assert set(signature.outputs) == {whole.main.tensors[index].name for index in inside & outside}
    assert part.size_bytes < whole.size_bytes / 2


@pytest.mark.parametrize(("first", "last"), [(-1, 2), (3, 2), (0, 1000)])
def test_a_range_that_is_not_there_is_refused(first: int, last: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(example_models.mobilenet_like())
    with pytest.raises(UsageError, match="has no nodes"):
        cut_out(path, first, last)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_private_model_has_no_weight_and_no_name_of_the_original(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "secret.tflite"
    path.write_bytes(example_models.mobilenet_like(dtype=dtype))
    whole = read_graph(path)
    model = EditedModel.read(path)
    make_private(model)
    data = model.to_bytes()
    private = graph_of(data, tmp_path)
    for one, other in zip(whole.main.tensors, private.main.tensors, strict=True):
        assert (one.shape, one.dtype, one.quantization) == (other.shape, other.dtype, other.quantization)
        assert one.name not in {tensor.name for tensor in private.main.tensors}
        before, after = read_constant(whole, one), read_constant(private, other)
        if one.is_weight and before is not None and after is not None and before.size > 64:
            assert before.tobytes()[:256] not in data
            assert after.std() == pytest.approx(before.std(), rel=0.35)
    assert b"probabilities" not in data
    assert np.isfinite(run(data)[1][0].astype(np.float64)).all()


@pytest.mark.parametrize("public", ["", "odml.rms_norm"])
def test_a_private_model_has_no_name_inside_options(public: str) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = EditedModel.from_bytes(example_models.mobilenet_like())
    flex, composite, call, *_ = model.main.operators
    index = len(model.record.operatorCodes)
    model.record.operatorCodes.append(
        schema.OperatorCodeT(customCode="FlexErf", builtinCode=schema.BuiltinOperator.CUSTOM)
    )
    flex.opcodeIndex, flex.customOptions = index, np.frombuffer(b"secret_node", np.uint8)
    composite.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    composite.builtinOptions2 = schema.StableHLOCompositeOptionsT(
        name=public or "secret_block", compositeAttributes=np.frombuffer(b"scale" if public else b"secret", np.uint8)
    )
    call.builtinOptions2Type = schema.BuiltinOptions2.StablehloCustomCallOptions
    call.builtinOptions2 = schema.StablehloCustomCallOptionsT(
        callTargetName="secret_call", backendConfig="secret", customAttributes=np.frombuffer(b"secret", np.uint8)
    )
    make_private(model)
    data = model.to_bytes()
    assert b"secret" not in data
    assert b"FlexErf" in data, "TensorFlow's own"
    assert (b"scale" in data) == (b"odml.rms_norm" in data) == bool(public)
