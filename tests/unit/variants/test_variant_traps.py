"""Files that quantizers stumble over: each works, or ends in a sentence that says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests import example_models
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of, int8_weights, model_file, worst_error

from hasten.core.errors import ModelError
from hasten.core.remark import remark
from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph
from hasten.variants import words
from hasten.variants.already_quantized import AlreadyQuantizedError
from hasten.variants.io_types import IoTypes
from hasten.variants.make import make_variant
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("recipe", ["dynamic_int8", "static_int8_min_max"])
@pytest.mark.parametrize("name", ["old_schema", "float16_weights", "embedding", "dynamic_batch"])
def test_odd_files_are_quantized_all_the_same(name: str, recipe: str, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, name), tmp_path / "v.tflite"
    variant = make_variant(model, recipe, out, inputs_of(model, 30))
    if (name, recipe) == ("embedding", "dynamic_int8"):
        assert "stay float32 (in 1 GATHER)" in " ".join(words.told(variant.notes))
    else:
        assert variant.weight_shares["int8"] > 0.3
    test = inputs_of(model, 3, seed=4)
    test_outputs, seen = answers(model, test), answers(out, test)
    expected = [dict(zip(s, e.values(), strict=True)) for e, s in zip(test_outputs, seen, strict=True)]
    assert worst_error(expected, seen) < 0.15


@pytest.mark.parametrize("recipe", ["float16", "weight_only_int8", "dynamic_int8"])
def test_what_stays_float32_is_told_by_the_operators_that_read_it(recipe: str, tmp_path: Path) -> None:
    """float16 weights have a DEQUANTIZE behind them, biases stay float32 by design: neither is what stayed."""
    g = ModelBuilder()
    ids = g.input("ids", (1, 4), "int32")
    table = g.constant(np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32))
    (rows,) = g.operator("GATHER", [table, ids], [Spec((1, 4, 16))], options_type="GatherOptions", axis=0)
    g.output(g.fully_connected(g.fully_connected(rows, 64), 16), "y")
    g.write(tmp_path / "m.tflite")
    variant = make_variant(tmp_path / "m.tflite", recipe, tmp_path / "v.tflite")
    biases, matrices = 4 * (64 + 16), {"float16": 2, "weight_only_int8": 1, "dynamic_int8": 1}[recipe] * 2 * 64 * 16
    share = 4 * 64 * 16 / (4 * 64 * 16 + biases + matrices)
    assert variant.notes == (remark(words.FLOAT_WEIGHTS, share=share, operators=[["GATHER", 1]]),)


def test_biases_alone_are_not_worth_a_note(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.fully_connected(g.input("x", (1, 4)), 64), "y")
    g.write(tmp_path / "m.tflite")
    variant = make_variant(tmp_path / "m.tflite", "float16", tmp_path / "v.tflite")
    assert variant.weight_shares["float32"] > 0.3
    assert variant.notes == ()


@pytest.mark.parametrize("io_types", [IoTypes(), IoTypes("int8", "int8")])
def test_token_ids_stay_integers(io_types: IoTypes, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "embedding"), tmp_path / "v.tflite"
    make_variant(model, "static_int8", out, inputs_of(model, 8), io_types=io_types)
    (ids,) = read_graph(out).inputs
    assert (ids.dtype, ids.quantization) == ("int32", None)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_scalar_input_is_calibrated(shape: tuple[int, ...], tmp_path: Path) -> None:
    g = ModelBuilder()
    scale, x = g.input("scale", ()), g.input("x", (1, 16))
    g.output(g.mul(g.fully_connected(x, 8), scale), "y")
    g.write(tmp_path / "m.tflite")
    source = np.random.default_rng(0)
    data = [
        {"scale": np.full(shape, 0.5, np.float32), "x": source.standard_normal((1, 16)).astype(np.float32)}
        for _ in range(8)
    ]
    variant = make_variant(tmp_path / "m.tflite", "static_int8_min_max", tmp_path / "v.tflite", data)
    assert variant.weight_shares["int8"] > 0.3
    found, _ = read_graph(tmp_path / "v.tflite").inputs
    assert found.shape == ()


def test_an_open_batch_stays_open(tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "dynamic_batch"), tmp_path / "v.tflite"
    make_variant(model, "static_int8_min_max", out, inputs_of(model, 30))
    graph = read_graph(out)
    assert [tensor.shape_signature[0] for tensor in (*graph.inputs, *graph.outputs)] == [-1, -1]
    batch = {"x": np.concatenate([sample["x"] for sample in inputs_of(model, 3, seed=4)])}
    (expected,), (seen,) = answers(model, [batch]), answers(out, [batch])
    assert seen["y"].shape == (3, 3)
    np.testing.assert_allclose(seen["y"], expected["y"], atol=0.1 * np.abs(expected["y"]).max())


def test_one_signature_of_several_is_quantized(tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "two_signatures"), tmp_path / "v.tflite"
    data = inputs_of(model, 20, signature="multiply")
    variant = make_variant(model, "static_int8_min_max", out, data, signature="multiply")
    assert remark(words.OTHER_GRAPHS, signature="multiply", graphs=1, total=2) in variant.notes
    assert worst_error(answers(model, data, "multiply"), answers(out, data, "multiply")) < 0.05
    other = inputs_of(model, 3, signature="double")
    assert worst_error(answers(model, other, "double"), answers(out, other, "double")) == 0


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_state_is_kept(dtype: str, tmp_path: Path) -> None:
    """Its output is written to the state too, which the quantizer forgets when it sets the output's type."""
    model, out = model_file(tmp_path, "accumulator"), tmp_path / "v.tflite"
    data = [{"x": np.full((1, 4), value, np.float32)} for value in (1, -2, 3, 0.5)]
    variant = make_variant(model, "static_int8_min_max", out, data, io_types=IoTypes("float32", dtype))
    assert remark(words.STATEFUL) in variant.notes
    (output,) = read_graph(out).outputs
    assert output.dtype == dtype
    seen = [answer["y"].astype(np.float64) for answer in answers(out, data)]
    if output.quantization is not None:
        seen = [(y - output.quantization.zero_points[0]) * output.quantization.scales[0] for y in seen]
    np.testing.assert_allclose([y[0, 0] for y in seen], [1, -1, 2, 2.5], atol=0.1)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (example_models.mobilenet_like(dtype="int8"), "already quantized: int8 static"),
        (int8_weights(), "its weights are int8, although inputs and outputs are float"),
    ],
    ids=["int8", "int8_weights"],
)
@pytest.mark.parametrize("recipe", ["dynamic_int8", "static_int8"])
def test_a_quantized_model_is_called_so(model: bytes, sentence: str, recipe: str, tmp_path: Path) -> None:
    path = tmp_path / "float32.tflite"
    path.write_bytes(model)
    with pytest.raises(AlreadyQuantizedError, match=sentence):
        make_variant(path, recipe, tmp_path / "v.tflite", inputs_of(path, 1))


@pytest.mark.parametrize("name", ["counting_loop", "branch"])
@pytest.mark.parametrize("recipe", ["dynamic_int8", "static_int8"])
def test_a_model_with_nothing_to_quantize_is_called_so(name: str, recipe: str, tmp_path: Path) -> None:
    model = model_file(tmp_path, name)
    with pytest.raises(NothingToChangeError, match="changes nothing"):
        make_variant(model, recipe, tmp_path / "v.tflite", inputs_of(model, 2))


def test_an_operator_without_a_kernel_cannot_be_calibrated(tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(example_models.custom_operator("Strange"))
    with pytest.raises(ModelError, match="unresolved custom op: Strange"):
        make_variant(path, "static_int8", tmp_path / "v.tflite", inputs_of(path, 1))


def test_an_unknown_signature_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no signature 'other'"):
        make_variant(model_file(tmp_path, "mobilenet"), "float16", tmp_path / "v.tflite", signature="other")
