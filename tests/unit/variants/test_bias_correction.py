"""Biases that make up for what rounded weights add: seen in the means of outputs, by running the variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of, model_file

from hasten.core.remark import remark
from hasten.model.build_graph import Spec
from hasten.model.edit.file import read_object
from hasten.variants import words
from hasten.variants.make import calibrate, make_variant
from hasten.variants.selection import NodeChoice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.model.build_graph import Value

MEANS = np.array([6.0, -4.0, 9.0, -7.0])
LAYERS: dict[str, Callable[[ModelBuilder, Value], Value]] = {
    "convolution": lambda g, x: g.conv2d(x, 6, 3, padding="valid"),
    "convolution of two groups": lambda g, x: _grouped(g, x),
    "depthwise": lambda g, x: g.depthwise_conv2d(x, 3, padding="valid"),
    "depthwise, two of each": lambda g, x: g.depthwise_conv2d(x, 3, multiplier=2, padding="valid"),
    "dense": lambda g, x: g.fully_connected(x, 5),
    "dense, of all positions": lambda g, x: g.fully_connected(g.reshape(x, (1, 6 * 6 * 4)), 5),
}


def _grouped(g: ModelBuilder, x: Value) -> Value:
    source = np.random.default_rng(0)
    weights = g.constant(source.standard_normal((6, 1, 1, 2)).astype(np.float32))
    bias = g.constant(np.zeros(6, np.float32))
    options = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
    (y,) = g.operator("CONV_2D", [x, weights, bias], [Spec((1, 6, 6, 6))], options_type="Conv2DOptions", **options)
    return y


def far_from_zero(count: int, seed: int) -> list[dict[str, Any]]:
    """Inputs whose channels have means of their own."""
    source = np.random.default_rng(seed)
    return [{"x": (MEANS + source.standard_normal((1, 6, 6, 4))).astype(np.float32)} for _ in range(count)]


def mean_errors(model: Path, variant: Path) -> np.ndarray[Any, Any]:
    """How far each output channel is off on average, relative to the channels' range."""
    samples = far_from_zero(60, 1)
    found, right = (
        np.concatenate([answer["y"].reshape(-1, answer["y"].shape[-1]) for answer in answers(path, samples)])
        for path in (variant, model)
    )
    return np.asarray(np.abs((found - right).mean(axis=0)) / np.ptp(right))


@pytest.mark.parametrize("kind", LAYERS)
def test_channels_are_no_longer_shifted(kind: str, tmp_path: Path) -> None:
    shifts = {"static_int8_min_max": 0.0, "static_int8_corrected": 0.0}
    for seed in range(6):
        g = ModelBuilder(seed)
        g.output(LAYERS[kind](g, g.input("x", (1, 6, 6, 4))), "y")
        (tmp_path / "m.tflite").write_bytes(g.build())
        for recipe in shifts:
            make_variant(tmp_path / "m.tflite", recipe, tmp_path / "v.tflite", far_from_zero(20, 0))
            shifts[recipe] += float(mean_errors(tmp_path / "m.tflite", tmp_path / "v.tflite").mean())
    assert shifts["static_int8_corrected"] < 0.4 * shifts["static_int8_min_max"]


def biases(path: Path) -> list[Any]:
    """The bias tensors of the layers."""
    model = read_object(path)
    tensors = model.subgraphs[0].tensors
    return [tensors[op.inputs[2]] for op in model.subgraphs[0].operators if len(op.inputs) > 2]


def test_equal_biases_are_corrected_each_on_its_own(tmp_path: Path) -> None:
    """Equal constants may be stored once in a file."""
    model = model_file(tmp_path, "mobilenet")
    samples = inputs_of(model, 4)
    variant = make_variant(model, "static_int8_corrected", tmp_path / "v.tflite", samples)
    found = biases(tmp_path / "v.tflite")
    assert remark(words.BIASES, layers=len(found)) in variant.notes
    assert len({tensor.buffer for tensor in found}) == len(found) > 10


def test_only_what_is_quantized_is_corrected(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    known = calibrate(model, "static_int8_min_max", inputs_of(model, 4))
    variant = make_variant(model, "static_int8_corrected", tmp_path / "v.tflite", known, choice=NodeChoice(only=[0]))
    assert remark(words.BIASES, layers=1) in variant.notes
    plain = make_variant(model, "static_int8_min_max", tmp_path / "p.tflite", known, choice=NodeChoice(only=[0]))
    assert not any(note.code == words.BIASES for note in plain.notes)


@pytest.mark.parametrize(("name", "signature"), [("same_names", None), ("two_signatures", "multiply")])
def test_where_there_is_nothing_to_correct_it_says_so(name: str, signature: str | None, tmp_path: Path) -> None:
    model = model_file(tmp_path, name)
    samples = inputs_of(model, 4, signature=signature)
    variant = make_variant(model, "static_int8_corrected", tmp_path / "v.tflite", samples, signature=signature)
    assert remark(words.BIASES, layers=0) in variant.notes


def test_models_of_any_batch_are_corrected(tmp_path: Path) -> None:
    model = model_file(tmp_path, "dynamic_batch")
    variant = make_variant(model, "static_int8_corrected", tmp_path / "v.tflite", inputs_of(model, 4))
    assert remark(words.BIASES, layers=2) in variant.notes
