"""Biases corrected in the order of the layers: means of outputs come back, in one pass whose operators run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of, model_file

from hasten.core.remark import remark
from hasten.model.edit.file import read_object
from hasten.model.reader import read_graph
from hasten.variants import sequential_correction, words
from hasten.variants.io_types import IoTypes
from hasten.variants.make import calibrate, make_variant
from hasten.variants.selection import NodeChoice

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

RECIPE = "static_int8_sequential"


def deep(folder: Path, seed: int, layers: int = 6) -> Path:
    """Depthwise layers with few weights each, which rounding hurts most, on inputs far from zero."""
    g = ModelBuilder(seed)
    y = g.conv2d(g.input("x", (1, 12, 12, 3)), 16, 3, activation="relu6")
    for _ in range(layers):
        y = g.conv2d(g.depthwise_conv2d(y, 3, activation="relu6"), 16, activation="relu6")
    g.output(g.fully_connected(g.mean(y), 5), "y")
    (folder / "deep.tflite").write_bytes(g.build())
    return folder / "deep.tflite"


def samples(count: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [{"x": (2 + random.standard_normal((1, 12, 12, 3))).astype(np.float32)} for _ in range(count)]


def shift(model: Path, variant: Path) -> float:
    """How far the mean outputs are off, relative to their spread."""
    asked = samples(60, 9)
    found, right = (np.stack([answer["y"][0] for answer in answers(path, asked)]) for path in (variant, model))
    return float(np.abs((found - right).mean(axis=0)).mean() / np.abs(right).mean())


def test_the_means_of_deep_outputs_come_back(tmp_path: Path) -> None:
    totals = dict.fromkeys(("static_int8_min_max", "static_int8_corrected", RECIPE), 0.0)
    for seed in range(5):
        model = deep(tmp_path, seed)
        for recipe in totals:
            make_variant(model, recipe, tmp_path / "v.tflite", samples(32, 0))
            totals[recipe] += shift(model, tmp_path / "v.tflite")
    assert totals[RECIPE] < 0.5 * totals["static_int8_min_max"]
    assert totals[RECIPE] < totals["static_int8_corrected"]


def test_every_layer_is_corrected_and_only_biases_change(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    known = calibrate(model, "static_int8_min_max", inputs_of(model, 8))
    plain = make_variant(model, "static_int8_min_max", tmp_path / "p.tflite", known)
    made = make_variant(model, RECIPE, tmp_path / "v.tflite", known)
    layers = sum(len(node.inputs) > 2 for node in read_graph(made.path).main.nodes)
    assert remark(words.BIASES, layers=layers) in made.notes
    assert made.nodes == plain.nodes
    first, second = (read_object(path) for path in (plain.path, made.path))
    biases = {int(op.inputs[2]) for op in first.subgraphs[0].operators if len(op.inputs) > 2}
    for index, (one, other) in enumerate(zip(first.subgraphs[0].tensors, second.subgraphs[0].tensors, strict=True)):
        before, after = (model.buffers[tensor.buffer].data for model, tensor in ((first, one), (second, other)))
        if index not in biases:
            assert np.array_equal(before, after)


def test_operators_alone_give_what_the_whole_model_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without steps nothing is corrected; what the pass carries along must then be what the model computes inside."""
    seen: dict[int, list[Array]] = {}
    run = sequential_correction._Island.run

    def recorded(island: Any, values: Any, count: int) -> Any:
        found = run(island, values, count)
        seen.update(found)
        return found

    monkeypatch.setattr(sequential_correction, "_STEPS", 0)
    monkeypatch.setattr(sequential_correction._Island, "run", recorded)
    model, given = deep(tmp_path, 0), samples(4, 0)
    make_variant(model, RECIPE, tmp_path / "v.tflite", given)
    graph = read_graph(tmp_path / "v.tflite")
    outputs = [index for index in seen if graph.main.tensors[index].shape == (1, 5)]
    (last,) = (index for index in outputs if graph.main.tensors[index].dtype == "int8")
    scale = graph.main.tensors[last].quantization
    assert scale is not None
    told = [(array.astype(np.float64) - scale.zero_points[0]) * scale.scales[0] for array in seen[last]]
    whole = [answer["y"] for answer in answers(tmp_path / "v.tflite", given)]
    assert np.abs(np.stack(told) - np.stack(whole)).max() <= 1.01 * scale.scales[0]


def test_only_what_is_quantized_is_corrected(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    variant = make_variant(model, RECIPE, tmp_path / "v.tflite", inputs_of(model, 4), choice=NodeChoice(only=[0]))
    assert remark(words.BIASES, layers=1) in variant.notes


@pytest.mark.parametrize("io_types", [IoTypes("int8", "int8"), IoTypes("uint8", "float32")])
def test_inputs_of_integers_are_fed_by_their_scale(io_types: IoTypes, tmp_path: Path) -> None:
    model = deep(tmp_path, 1)
    variant = make_variant(model, RECIPE, tmp_path / "v.tflite", samples(16, 0), io_types=io_types)
    corrected = next(note for note in variant.notes if note.code == words.BIASES)
    assert corrected.facts["layers"] == 14


@pytest.mark.parametrize("name", ["same_names", "dynamic_batch", "efficientnet", "float16_weights", "embedding"])
def test_graphs_of_all_kinds_end_well(name: str, tmp_path: Path) -> None:
    model = model_file(tmp_path, name)
    variant = make_variant(model, RECIPE, tmp_path / "v.tflite", inputs_of(model, 4))
    assert any(note.code == words.BIASES for note in variant.notes)
    assert answers(variant.path, inputs_of(model, 1))


def test_the_other_signature_has_none_to_correct(tmp_path: Path) -> None:
    model = model_file(tmp_path, "two_signatures")
    given = inputs_of(model, 4, signature="multiply")
    variant = make_variant(model, RECIPE, tmp_path / "v.tflite", given, signature="multiply")
    assert remark(words.BIASES, layers=0) in variant.notes
