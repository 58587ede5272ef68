"""Channels without weights give their bias, quantized or not: seen by running the variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of

from hasten.core.remark import remark
from hasten.model.build_graph import Spec
from hasten.model.edit.file import read_object
from hasten.variants import words
from hasten.variants.make import make_variant

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

# kind → operator, shape of the weights, axis of their channels, options
KINDS: dict[str, tuple[str, tuple[int, ...], int, str, dict[str, Any]]] = {
    "convolution": ("CONV_2D", (6, 1, 1, 4), 0, "Conv2DOptions", {"strideW": 1, "strideH": 1}),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        (1, 1, 1, 4),
        3,
        "DepthwiseConv2DOptions",
        {"strideW": 1, "strideH": 1, "depthMultiplier": 1},
    ),
    "dense": ("FULLY_CONNECTED", (5, 4), 0, "FullyConnectedOptions", {"keepNumDims": True}),
}
RECIPES = ("static_int8", "static_int8_mse", "static_int8_corrected", "static_int8_sequential")


def built(kind: str, empty: float, biases: Array, path: Path) -> Path:
    """A layer whose second channel has weights of this size, and whose biases begin with these."""
    operator, shape, axis, options_type, options = KINDS[kind]
    g = ModelBuilder(0)
    weights = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.moveaxis(weights, axis, 0)[1] *= empty
    channels = shape[axis]
    bias = np.resize(biases.astype(np.float32), channels)
    x = g.input("x", (1, 6, 6, 4))
    dilation = {"dilationWFactor": 1, "dilationHFactor": 1} if "CONV" in operator else {}
    (y,) = g.operator(
        operator,
        [x, g.constant(weights), g.constant(bias)],
        [Spec((1, 6, 6, channels))],
        options_type=options_type,
        **options,
        **dilation,
    )
    g.output(y, "y")
    path.write_bytes(g.build())
    return path


def worst_error(model: Path, variant: Path) -> float:
    """How far a channel's mean is off at most, relative to the range of all outputs."""
    samples = inputs_of(model, 20, seed=1)
    found, right = (
        np.concatenate([a["y"].reshape(-1, a["y"].shape[-1]) for a in answers(p, samples)]) for p in (variant, model)
    )
    return float(np.abs(found.mean(axis=0) - right.mean(axis=0)).max() / np.ptp(right))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("empty", [0.0, 1e-9])
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_without_weights_keeps_its_bias(kind: str, empty: float, recipe: str, tmp_path: Path) -> None:
    """The quantizer cut it off at 32 bits of a scale of nothing, and a channel that gives 3 gave 0."""
    model = built(kind, empty, np.array([0.1, 3.0, -0.2, 0.0]), tmp_path / "m.tflite")
    made = make_variant(model, recipe, tmp_path / "v.tflite", inputs_of(model, 20))
    assert worst_error(model, made.path) < 0.02
    assert remark(words.EMPTY_CHANNELS, channels=1) in made.notes
    scales = [
        scale
        for tensor in read_object(made.path).subgraphs[0].tensors
        if tensor.quantization is not None and tensor.quantization.scale is not None
        for scale in tensor.quantization.scale
    ]
    assert min(scales) > 0, "XNNPACK does not take a layer with a scale of 0"


@pytest.mark.parametrize("kind", KINDS)
def test_what_fits_stays_as_it_was(kind: str, tmp_path: Path) -> None:
    model = built(kind, 1.0, np.array([0.1, 3.0, -0.2, 0.0]), tmp_path / "m.tflite")
    made = make_variant(model, "static_int8", tmp_path / "v.tflite", inputs_of(model, 20))
    assert not [note for note in made.notes if note.code == words.EMPTY_CHANNELS]


@settings(max_examples=25, deadline=None)
@given(size=st.integers(-30, 0), bias=st.floats(-50, 50, width=32), kind=st.sampled_from(list(KINDS)))
def test_whatever_is_left_of_the_weights_the_channel_is_right(
    size: int, bias: float, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("empty")
    model = built(kind, 10.0**size, np.array([0.1, bias, -0.2, 0.0]), folder / "m.tflite")
    made = make_variant(model, "static_int8", folder / "v.tflite", inputs_of(model, 10))
    assert worst_error(model, made.path) < 0.02
