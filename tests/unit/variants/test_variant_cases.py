"""Variants of trained models keep what they should, and real files with traps are seen for what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from hasten import demo
from hasten.core.remark import remark
from hasten.model.reader import read_graph
from hasten.variants import words
from hasten.variants.already_quantized import AlreadyQuantizedError
from hasten.variants.make import make_variant

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]


def accuracy(path: Path, images: Array, labels: Array) -> float:
    interpreter = Interpreter(model_path=str(path))
    runner = interpreter.get_signature_runner(next(iter(interpreter.get_signature_list())))
    (name,) = runner.get_input_details()
    right = 0
    for image, label in zip(images, labels, strict=True):
        (scores,) = runner(**{name: image[None]}).values()
        right += int(scores[0].argmax() == label)
    return right / len(labels)


@pytest.mark.parametrize("recipe", ["static_int8", "dynamic_int8", "static_int16"])
def test_the_demo_keeps_its_accuracy(recipe: str, tmp_path: Path) -> None:
    calibration = np.load(demo.CALIBRATION)["x"].astype(np.float32)[:40]
    data = np.load(demo.DATA)
    out = tmp_path / "v.tflite"
    make_variant(demo.MODEL, recipe, out, [{"image": image[None]} for image in calibration])
    count = 20 if recipe == "static_int16" else 150  # the engine has slow kernels for int16
    assert accuracy(out, data["x"][:count].astype(np.float32), data["y"][:count]) >= 0.95


def test_keyword_spotting_keeps_its_accuracy(cases: Path, tmp_path: Path) -> None:
    data = np.load(cases / "02_kws_dscnn" / "data.npz")
    sounds = ((data["x_int8"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    model, out = cases / "02_kws_dscnn" / "model_float.tflite", tmp_path / "v.tflite"
    signature = read_graph(model).signature()
    assert signature is not None
    (name,) = signature.inputs
    make_variant(model, "static_int8", out, [{name: sound[None]} for sound in sounds[::10]])
    assert accuracy(out, sounds, data["y"]) == pytest.approx(0.909, abs=0.015)


def test_an_old_file_is_not_read_as_additions(cases: Path, tmp_path: Path) -> None:
    model, out = cases / "01_mobilenet_v1_025_imagenet" / "model_float.tflite", tmp_path / "v.tflite"
    variant = make_variant(model, "dynamic_int8", out)
    assert variant.notes[0].code == words.OPERATOR_CODES
    assert variant.weight_shares["int8"] > 0.9
    nodes = read_graph(model).main.nodes
    assert [node.op for node in read_graph(out).main.nodes] == [node.op for node in nodes]


def test_operators_without_an_integer_form_are_named(cases: Path, tmp_path: Path) -> None:
    model = cases / "01_mobilenet_v1_025_imagenet" / "model_float.tflite"
    image = np.zeros((1, 224, 224, 3), np.float32)
    variant = make_variant(model, "static_int8", tmp_path / "v.tflite", [{"input": image}])
    assert "no integer form of 1 SQUEEZE" in " ".join(words.told(variant.notes))
    operators = [node.op for node in read_graph(variant.path).main.nodes]
    assert (operators.count("QUANTIZE"), operators.count("DEQUANTIZE")) == (2, 2)


def test_float16_files_of_before_2020_are_folded(cases: Path, tmp_path: Path) -> None:
    model = cases / "edge" / "face_landmark_with_attention_unresolved_custom_op.tflite"
    variant = make_variant(model, "dynamic_int8", tmp_path / "v.tflite")
    assert remark(words.FLOAT16_FOLDED, constants=371) in variant.notes
    assert variant.weight_shares["int8"] > 0.9


def test_an_lstm_stays_float_and_that_is_said(cases: Path, tmp_path: Path) -> None:
    model = cases / "06_mnist_lstm" / "model_float.tflite"
    variant = make_variant(model, "dynamic_int8", tmp_path / "v.tflite")
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in " ".join(words.told(variant.notes))
    assert "keeps state" in " ".join(words.told(variant.notes))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("02_kws_dscnn/model_shipped_as_float32.tflite", "its weights are int8, although inputs and outputs are float"),
        ("07_ssd_mobilenet_v1_coco/model_uint8.tflite", "uint8 static"),
        ("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq.tflite", "int8 static"),
        ("08_mobilenet_v2_imagenet_uint8/model_tf1_qat.tflite", "uint8 static"),
        ("06_mnist_lstm/model_int8.tflite", "int8 static"),
    ],
)
def test_quantized_files_are_called_so(name: str, kind: str, cases: Path, tmp_path: Path) -> None:
    with pytest.raises(AlreadyQuantizedError, match=kind):
        make_variant(cases / name, "dynamic_int8", tmp_path / "v.tflite")
