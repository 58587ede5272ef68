"""Preparation changes what a file looks like to a quantizer, and no output."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from variant_models import MODELS, answers, inputs_of, model_file

from hasten.core.remark import remark
from hasten.model.edit.file import bytes_from_object, object_from_bytes, read_object
from hasten.model.reader import read_graph
from hasten.variants import words
from hasten.variants.prepare import prepare

if TYPE_CHECKING:
    from pathlib import Path


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(MODELS)), seed=st.integers(0, 2**32 - 1))
def test_outputs_stay_the_same(name: str, seed: int, tmp_path: Path) -> None:
    model = model_file(tmp_path, name)
    prepared = prepare(model, tmp_path / "prepared.tflite")
    test = inputs_of(prepared.path, 2, seed)
    expected, seen = answers(model, test), answers(prepared.path, test)
    for before, after in zip(expected, seen, strict=True):
        for old, new in zip(before.values(), after.values(), strict=True):
            np.testing.assert_array_equal(old, new)


def test_a_sound_file_needs_nothing(tmp_path: Path) -> None:
    assert prepare(model_file(tmp_path, "mobilenet"), tmp_path / "p.tflite").done == ()


def test_an_old_file_gets_its_codes_and_a_signature(tmp_path: Path) -> None:
    prepared = prepare(model_file(tmp_path, "old_schema"), tmp_path / "p.tflite")
    codes, signature = prepared.done
    assert codes.code == words.OPERATOR_CODES
    assert signature == remark(words.SIGNATURE_ADDED, signature="serving_default")
    numbers = {code.builtinCode for code in read_object(prepared.path).operatorCodes}
    assert schema.BuiltinOperator.CONV_2D in numbers


def test_float16_constants_become_float32_ones(tmp_path: Path) -> None:
    prepared = prepare(model_file(tmp_path, "float16_weights"), tmp_path / "p.tflite")
    assert prepared.done == (remark(words.FLOAT16_FOLDED, constants=2),)
    graph = read_graph(prepared.path)
    assert [node.op for node in graph.main.nodes] == ["CONV_2D", "MEAN", "FULLY_CONNECTED"]
    assert not any(tensor.dtype == "float16" for tensor in graph.main.tensors)
    assert len(graph.main.tensors) == len(read_graph(tmp_path / "float16_weights.tflite").main.tensors)


def test_bytes_that_no_tensor_uses_any_more_are_left_out_and_all_others_stay(tmp_path: Path) -> None:
    model = object_from_bytes(MODELS["float16_weights"]())
    graph = model.subgraphs[0]
    half = [tensor for tensor in graph.tensors if tensor.type == schema.TensorType.FLOAT16]
    for_readers = schema.MetadataT(name=b"also the user's", buffer=half[0].buffer)
    model.buffers.append(schema.BufferT(data=np.arange(100, dtype=np.uint8)))  # nobody says whose these are
    model.metadata = [*(model.metadata or []), for_readers]
    path = tmp_path / "m.tflite"
    path.write_bytes(bytes_from_object(model))
    prepared = read_object(prepare(path, tmp_path / "p.tflite").path)
    kept = [0 if buffer.data is None else len(buffer.data) for buffer in prepared.buffers]
    assert kept[half[0].buffer] > 0
    assert [kept[tensor.buffer] for tensor in half[1:]] == [0] * (len(half) - 1)
    assert kept[len(model.buffers) - 1] == 100


def test_a_tensor_that_nothing_uses_gets_memory(tmp_path: Path) -> None:
    model = object_from_bytes(MODELS["mobilenet"]())
    model.subgraphs[0].tensors.append(schema.TensorT(name="unused", shape=[1, 1000], buffer=0))
    path = tmp_path / "unused.tflite"
    path.write_bytes(bytes_from_object(model))
    assert prepare(path, tmp_path / "p.tflite").done == (remark(words.UNUSED_TENSORS, tensors=1),)


def test_files_packed_behind_a_model_come_along(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    with zipfile.ZipFile(model, "a") as packed:
        packed.writestr("labels.txt", "cat\ndog\n")
    prepared = prepare(model, tmp_path / "p.tflite")
    with zipfile.ZipFile(prepared.path) as packed:
        assert packed.read("labels.txt") == b"cat\ndog\n"
    assert read_graph(prepared.path).main.nodes


def test_a_signature_of_tensors_without_names(tmp_path: Path) -> None:
    model = object_from_bytes(MODELS["no_signature"]())
    for tensor in model.subgraphs[0].tensors:
        tensor.name = b""
    path = tmp_path / "nameless.tflite"
    path.write_bytes(bytes_from_object(model))
    signature = read_graph(prepare(path, tmp_path / "p.tflite").path).signature()
    assert signature is not None
    assert (list(signature.inputs), list(signature.outputs)) == (["input_0"], ["output_0"])


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_file_survives_being_read_and_written(name: str) -> None:
    once = bytes_from_object(object_from_bytes(MODELS[name]()))
    assert bytes_from_object(object_from_bytes(once)) == once
