"""Every recipe makes a file that runs, answers nearly the same, and holds its weights in the promised type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from variant_models import answers, inputs_of, model_file, worst_error

from hasten.core.errors import DataError, UsageError
from hasten.core.plan import Workload
from hasten.core.remark import remark
from hasten.data.tensor_forms import forms_from_graph, real_from_bytes, stored_from_real
from hasten.model.reader import read_graph
from hasten.variants import words
from hasten.variants.io_types import IoTypes
from hasten.variants.make import calibrate, make_variant
from hasten.variants.recipes import RECIPE_NAMES, RECIPES, recipe_from_name, same_kernels, variant_name
from hasten.variants.selection import NodeChoice
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.variants.recipes import Recipe

# Of random weights, which int4 suits badly.
ERRORS = {"float16": 0.01, "weight_only_int4": 1.0, "weight_only_int4_gptq": 1.0, "static_int8_mse": 0.2}


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        recipe_from_name("int8")
    assert all(name in caught.value.hint for name in RECIPE_NAMES)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_keeps_its_promise(recipe: Recipe, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "variant.tflite"
    variant = make_variant(model, recipe, out, inputs_of(model, 40))
    assert variant.path == out
    assert variant.size_bytes == out.stat().st_size < model.stat().st_size
    assert 0 < variant.zipped_bytes < variant.size_bytes
    assert variant.weight_shares[recipe.weights] > 0.4
    assert sum(variant.weight_shares.values()) == pytest.approx(1)
    test = inputs_of(model, 5, seed=9)
    assert worst_error(answers(model, test), answers(out, test)) < ERRORS.get(recipe.name, 0.1)


@pytest.mark.parametrize(
    ("dtype", "recipe"), [("int8", "static_int8"), ("uint8", "static_int8"), ("int16", "static_int16")]
)
def test_the_types_at_the_border_are_as_chosen(dtype: str, recipe: str, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "variant.tflite"
    make_variant(model, recipe, out, inputs_of(model, 8), io_types=IoTypes(dtype, "float32"))
    graph = read_graph(out)
    assert [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)] == [dtype, "float32"]
    make_variant(model, recipe, out, inputs_of(model, 8), io_types=IoTypes("float32", dtype))
    graph = read_graph(out)
    assert [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)] == ["float32", dtype]
    assert [tensor.name for tensor in graph.outputs] == [tensor.name for tensor in read_graph(model).outputs]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("ends", [(0,), (-1,), (0, -1)])
def test_integer_inputs_and_outputs_are_converted_where_the_first_or_the_last_node_stays_float(
    dtype: str, ends: tuple[int, ...], tmp_path: Path
) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "variant.tflite"
    nodes, samples = read_graph(model).main.nodes, inputs_of(model, 8)
    float_nodes = [nodes[end].index for end in ends]
    variant = make_variant(
        model, "static_int8_min_max", out, samples, choice=NodeChoice(but=float_nodes), io_types=IoTypes(dtype, dtype)
    )
    graph = read_graph(out)
    assert [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)] == [dtype, dtype]
    assert not set(float_nodes) & set(variant.nodes)
    (before,), (after,) = (forms_from_graph(g, Workload()).inputs for g in (read_graph(model), graph))
    stored = [{after.name: stored_from_real(sample[before.name], after, "a sample")} for sample in samples]
    (gives,) = forms_from_graph(graph, Workload()).outputs
    found = [{gives.name: real_from_bytes(a[gives.name].tobytes(), gives)} for a in answers(out, stored)]
    assert worst_error(answers(model, samples), found) < 0.15


def test_a_type_that_the_recipe_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be 'int8'"):
        make_variant(
            model_file(tmp_path, "mobilenet"), "float16", tmp_path / "v.tflite", io_types=IoTypes("int8", "float32")
        )


def test_weights_are_aligned(tmp_path: Path) -> None:
    make_variant(model_file(tmp_path, "mobilenet"), "dynamic_int8", tmp_path / "v.tflite")
    offsets = [tensor.buffer_offset for tensor in read_graph(tmp_path / "v.tflite").main.tensors]
    assert all(offset % 16 == 0 for offset in offsets if offset is not None)


def test_a_variant_is_the_same_each_time(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    for name in ("a", "b"):
        make_variant(model, "static_int8", tmp_path / name, inputs_of(model, 4))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_calibration_serves_many_variants(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    known = calibrate(model, "static_int8", inputs_of(model, 6))
    for options in (
        {},
        {"choice": NodeChoice(only=[3, 4])},
        {"choice": NodeChoice(but=[0])},
        {"io_types": IoTypes("int8", "int8")},
    ):
        make_variant(model, "static_int8", tmp_path / "a", inputs_of(model, 6), **options)
        make_variant(model, "static_int8", tmp_path / "b", known, **options)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(DataError, match="another way"):
        make_variant(model, "static_int8_min_max", tmp_path / "c", known)
    with pytest.raises(DataError, match="not of efficientnet"):
        make_variant(model_file(tmp_path, "efficientnet"), "static_int8", tmp_path / "c", known)


def test_a_model_is_not_overwritten_and_a_failure_leaves_no_file(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    with pytest.raises(UsageError, match="cannot be written"):
        make_variant(model, "float16", model)
    others = [node.index for node in read_graph(model).main.nodes if node.op == "SOFTMAX"]
    with pytest.raises(NothingToChangeError):
        make_variant(model, "float16", tmp_path / "new" / "v.tflite", choice=NodeChoice(only=others))
    assert not (tmp_path / "new" / "v.tflite").exists()


def test_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_file(tmp_path, "mobilenet")
    make_variant(model, "static_int8", tmp_path / "v.tflite", inputs_of(model, 10))
    assert capsys.readouterr() == ("", "")


def test_few_samples_are_mentioned_where_the_first_one_decides(tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "v.tflite"
    few = remark(words.FIRST_SAMPLE, samples=2, weight=0.95)
    assert make_variant(model, "static_int8", out, inputs_of(model, 2)).notes == (few,)
    assert not make_variant(model, "static_int8_min_max", out, inputs_of(model, 2)).notes


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([], "needs calibration data"),
        ([{"y": np.zeros((1, 32, 32, 3), np.float32)}], "has the inputs y"),
        ([{"x": np.zeros((1, 16, 16, 3), np.float32)}], "in the shape"),
        ([{"x": np.full((1, 32, 32, 3), np.nan, np.float32)}], "not finite"),
        ([{"x": np.full((1, 32, 32, 3), "a")}], "has 'x' as <U1"),
    ],
)
def test_calibration_data_that_does_not_fit_is_refused(
    samples: list[dict[str, np.ndarray[Any, Any]]], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=sentence):
        make_variant(model_file(tmp_path, "mobilenet"), "static_int8", tmp_path / "v.tflite", samples)


def test_without_the_quantizer_the_command_to_install_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    with pytest.raises(UsageError) as caught:
        make_variant(model_file(tmp_path, "mobilenet"), "float16", tmp_path / "v.tflite")
    assert "pip install" in caught.value.hint


def test_names_of_variants_say_the_recipe_and_how_many_nodes_stay_float() -> None:
    int8 = recipe_from_name("static_int8")
    assert variant_name(int8) == "static_int8"
    assert variant_name(int8, range(9)) == "int8+float9"
    taken = {"int8+float2": (0, 1)}
    assert variant_name(int8, [1, 0], taken) == "int8+float2"
    assert variant_name(int8, [1, 2], taken) == "int8+float2-2"
    assert variant_name(recipe_from_name("static_int8_min_max"), [1, 2], taken) == "int8-minmax+float2"


def test_names_of_all_variants_differ() -> None:
    names = [variant_name(recipe, nodes) for recipe in RECIPES for nodes in ((), (1,), (1, 2))]
    assert len(set(names)) == len(names)


def test_recipes_with_the_same_kernels_differ_in_numbers_only() -> None:
    alike = same_kernels(recipe_from_name("static_int8"))
    assert {recipe.name for recipe in alike} == {
        "static_int8_min_max",
        "static_int8_corrected",
        "static_int8_sequential",
        "static_int8_octav",
        "static_int8_mse",
    }
    assert same_kernels(recipe_from_name("static_int16")) == ()
