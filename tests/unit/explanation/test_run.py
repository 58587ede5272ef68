"""Planted trouble, run for real: the explanation must name the right operators, and the right node."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten import api
from hasten.core.accuracy_notes import GUESSED_FLOAT
from hasten.core.comparison import compare_rounds
from hasten.core.errors import DataError, ModelError
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.data.dataset import Dataset, Sample
from hasten.demo import CALIBRATION, DATA, MODEL
from hasten.explanation.facts import CauseKind, ExplainFound, NodeRow
from hasten.explanation.inner_tensors import InnerTensors, Subject, real_values
from hasten.explanation.numbers import Numbers, compare_numbers, inputs_from_data, samples_for
from hasten.explanation.tensor_errors import DROP_DB
from hasten.explanation.view import document
from hasten.measure.opening import open_model
from hasten.model.build_bytes import serialized
from hasten.model.build_graph import signed_range
from hasten.model.matching import match_nodes
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

COMPARISON = compare_rounds([math.log(2.0)] * 5)
"""Stands for a comparison made before: these tests ask for causes, not for the verdict of a short race."""


def with_scaled_weights(data: bytes, node: int, factor: float) -> bytes:
    """One layer of float weights made wrong on purpose."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data)
    graph = model.subgraphs[0]
    buffer = model.buffers[graph.tensors[graph.operators[node].inputs[1]].buffer]
    buffer.data = (buffer.data.view(np.float32) * np.float32(factor)).view(np.uint8)
    return serialized(model)


def written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def subject(path: Path) -> Subject:
    return Subject(*open_model(path))


def numbers(original: Path, changed: Path, dataset: Dataset | None = None) -> Numbers:
    """The comparison of numbers alone, which needs no profile."""
    first, second = subject(original), subject(changed)
    matches = match_nodes(first.subgraph, second.subgraph)
    rows = [NodeRow(match.before, match.after, match.certainty, match.op) for match in matches]
    given = None if dataset is None else inputs_from_data(first.graph, first.candidate.workload, dataset)
    return compare_numbers(LocalTarget(), first, second, rows, given)


def explained(original: Path, changed: Path, data: str = "") -> ExplainFound:
    inputs = api.explain_inputs(original, api.Data(data)) if data else None
    effort = api.Effort(1.0)
    return api.explain((original, Plan()), (changed, Plan()), inputs=inputs, comparison=COMPARISON, effort=effort)


def depthwise_network(weights: str, folder: Path) -> Path:
    g = ModelBuilder(weights=weights)
    y = g.input("x", (1, 64, 64, 32))
    for _ in range(3):
        y = g.depthwise_conv2d(g.conv2d(y, 32), activation="relu6")
    g.output(y, "y")
    return written(g.build(), folder, f"{weights}.tflite")


@pytest.mark.slow
def test_depthwise_layers_of_dynamic_range_leave_the_delegate(tmp_path: Path) -> None:
    found = explained(depthwise_network("float32", tmp_path), depthwise_network("int8", tmp_path))
    first = found.causes[0]
    assert (first.kind, first.op, first.nodes) == (CauseKind.LEFT_DELEGATE, "DEPTHWISE_CONV_2D", 3)
    assert first.ms_after > 2 * first.ms_before
    assert first.change_ms.is_clear
    assert found.verdict.facts["main"][0]["op"] == "DEPTHWISE_CONV_2D"
    assert found.hints[0].facts["operators"] == ["DEPTHWISE_CONV_2D"]
    assert (found.before.left, len(found.after.left)) == ((), 3)
    assert (found.after.delegated_partitions or 0) > (found.before.delegated_partitions or 0) == 1
    total = sum(cause.change_ms.estimate for cause in found.causes) + found.outside_ms.estimate
    assert total == pytest.approx(found.after.invoke_ms - found.before.invoke_ms)
    assert found.errors is not None
    assert found.errors.compared == 6
    assert found.errors.is_random
    assert found.instructions.cpu


@pytest.mark.slow
def test_the_demo_quantized_by_googles_quantizer(tmp_path: Path) -> None:
    quantizer = pytest.importorskip("ai_edge_quantizer.quantizer")
    recipe = pytest.importorskip("ai_edge_quantizer.recipe")
    changed = tmp_path / "dynamic.tflite"
    quantizer.Quantizer(str(MODEL), recipe.dynamic_wi8_afp32()).quantize().export_model(str(changed))
    found = explained(MODEL, changed, data=str(DATA))
    first = found.causes[0]
    assert (first.kind, first.op, first.nodes) == (CauseKind.LEFT_DELEGATE, "DEPTHWISE_CONV_2D", 11)
    assert first.change_ms.estimate > 0.5 * (found.after.invoke_ms - found.before.invoke_ms)
    assert {row.match.value for row in found.rows} == {"exact"}
    assert found.errors is not None
    assert (found.errors.compared, found.errors.unread) == (66, ())
    assert found.row_of(0).snr_db == math.inf  # a MUL of floats, as before
    assert found.errors.first_drop == 2  # the first layer with weights

    static = tmp_path / "static.tflite"
    made = quantizer.Quantizer(str(MODEL), recipe.static_wi8_ai8())
    images = np.load(CALIBRATION)["x"][:8].astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the quantizer's own interpreter
        calibrated = made.calibrate({"serving_default": [{"image": image[None]} for image in images]})
        made.quantize(calibrated).export_model(str(static))
    view = numbers(MODEL, static).errors
    assert view is not None
    assert view.compared == 66
    assert view.inputs.code == "explain.inputs-range"


@pytest.mark.parametrize("node", [0, 5, 10])
def test_error_enters_at_just_the_layer_that_was_made_wrong(node: int, tmp_path: Path) -> None:
    data = example_models.mobilenet_like()
    original = written(data, tmp_path, "original.tflite")
    assert open_model(original)[1].main.nodes[node].op in ("CONV_2D", "DEPTHWISE_CONV_2D")
    changed = written(with_scaled_weights(data, node, 1.5), tmp_path, "changed.tflite")
    found = numbers(original, changed)
    assert found.errors is not None
    assert (found.errors.first_drop, found.errors.largest_drop) == (node, node)
    by_node = {row.after: row for row in found.rows}
    dropped = [index for index, row in by_node.items() if row.drop_db is not None and row.drop_db >= DROP_DB]
    assert dropped == [node]
    assert all(row.snr_db == math.inf for index, row in by_node.items() if index is not None and index < node)
    snr_db = by_node[node].snr_db
    assert snr_db is not None
    assert 0 < snr_db < 20  # half of the signal too much


def test_a_wrong_layer_stands_out_among_the_errors_of_eight_bits(tmp_path: Path) -> None:
    original = written(with_scaled_weights(example_models.mobilenet_like(), 6, 3.0), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(dtype="int8"), tmp_path, "changed.tflite")
    source = np.random.default_rng(0)
    images = [Sample("normal", (source.standard_normal((1, 32, 32, 3)).astype(np.float32),)) for _ in range(2)]
    found = numbers(original, changed, Dataset("normal numbers", images, labelled=False))
    assert found.errors is not None
    assert found.errors.largest_drop == 6
    assert found.errors.first_below == 6


def standard_normal(samples: int) -> Dataset:
    source = np.random.default_rng(0)
    images = [Sample("normal", (source.standard_normal((32, 32, 3)).astype(np.float32),)) for _ in range(samples)]
    return Dataset("normal numbers", images, labelled=False)


def test_error_of_an_eight_bit_input_is_found_at_the_input(tmp_path: Path) -> None:
    original = written(example_models.mobilenet_like(), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(dtype="int8"), tmp_path, "changed.tflite")
    view = numbers(original, changed, standard_normal(2)).errors
    assert view is not None
    (lossy,) = view.lossy_inputs
    assert lossy.dtype == "int8"
    assert 30 < lossy.snr_db < 50
    same = numbers(original, original, standard_normal(2)).errors
    assert same is not None
    assert same.lossy_inputs == ()


def test_error_of_an_input_that_is_quantized_at_once_is_found_at_the_input(tmp_path: Path) -> None:
    """As quantizers write models whose inputs stay float: the layers behind it add next to nothing."""
    inputs = {}
    for kind in ("float32", "int8"):
        g = ModelBuilder()
        x = g.input("x", (1, 32, 32, 3))
        y = g.conv2d(x if kind == "float32" else g.quantize(x, signed_range(1.0)), 8, 3)
        g.output(y if kind == "float32" else g.dequantize(y), "y")
        inputs[kind] = written(g.build(), tmp_path, f"{kind}.tflite")
    found = numbers(inputs["float32"], inputs["int8"], standard_normal(2))
    assert found.errors is not None
    (lossy,) = found.errors.lossy_inputs
    assert (lossy.name, lossy.dtype, lossy.node) == ("x", "int8", 0)
    assert 30 < lossy.snr_db < 50
    layer = next(row for row in found.rows if row.op == "CONV_2D")
    assert layer.snr_db is not None
    assert layer.drop_db == pytest.approx(lossy.snr_db - layer.snr_db)


def test_a_layer_without_room_for_the_values_of_the_original_is_found(tmp_path: Path) -> None:
    original = written(with_scaled_weights(example_models.mobilenet_like(), 7, 10.0), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(dtype="int8"), tmp_path, "changed.tflite")
    view = numbers(original, changed, standard_normal(40)).errors
    assert view is not None
    assert view.samples == 32  # of a model this small
    cut = next(cut for cut in view.clipped if cut.node == 7)
    assert cut.share > 0.05
    assert cut.original[1] > cut.held[1]
    assert not any(one.node is not None and one.node < 7 for one in view.clipped)


def test_an_input_without_room_for_what_the_original_is_fed_is_found(tmp_path: Path) -> None:
    original = written(example_models.mobilenet_like(), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(dtype="int8"), tmp_path, "changed.tflite")
    large = Sample("large", (np.full((32, 32, 3), 1000.0, np.float32),))
    view = numbers(original, changed, Dataset("large", [large], labelled=False)).errors
    assert view is not None
    assert (view.clipped[0].node, view.clipped[0].share) == (None, 1.0)
    assert view.clipped[0].original == (1000.0, 1000.0)


def test_large_models_are_looked_at_on_few_samples(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.tanh(g.input("x", (1, 3000, 3000, 1))), "y")
    one = subject(written(g.build(), tmp_path, "large.tflite"))
    assert samples_for(one.graph, one.candidate.workload) == 4


def test_the_same_model_has_no_error(tmp_path: Path) -> None:
    path = written(example_models.efficientnet_like(), tmp_path, "m.tflite")
    found = numbers(path, path)
    assert found.errors is not None
    assert (found.errors.first_drop, found.errors.largest_drop, found.errors.output_snr_db) == (None, None, math.inf)
    assert {row.snr_db for row in found.rows} == {math.inf}


def test_given_inputs_are_used_for_both(tmp_path: Path) -> None:
    original = written(example_models.mobilenet_like(), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(dtype="int8"), tmp_path, "changed.tflite")
    zeros = Sample("zeros", (np.zeros((1, 32, 32, 3), np.float32),))
    found = numbers(original, changed, Dataset("two zeros", [zeros, zeros], labelled=False))
    assert found.errors is not None
    assert (found.errors.samples, found.errors.is_random) == (2, False)
    assert found.errors.inputs.facts["source"] == "two zeros"


def test_models_with_other_inputs_cannot_be_compared_in_numbers(tmp_path: Path) -> None:
    original = written(example_models.mobilenet_like(size=32), tmp_path, "original.tflite")
    changed = written(example_models.mobilenet_like(size=64), tmp_path, "changed.tflite")
    found = numbers(original, changed)
    assert found.errors is None
    assert found.why_not.code == "explain.other-shape"
    two = numbers(written(example_models.one_operator(), tmp_path, "two.tflite"), original)
    assert two.why_not == remark("explain.other-inputs", before=2, after=1)


def test_many_tensors_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.explanation.inner_tensors._MOST_TENSORS_A_COPY", 4)
    one = subject(written(example_models.mobilenet_like(blocks=1), tmp_path, "m.tflite"))
    tensors = [node.outputs[0] for node in one.subgraph.nodes]
    assert len(tensors) > 8
    inputs = [[np.ones((1, 32, 32, 3), np.float32).tobytes()]] * 2
    read = InnerTensors(LocalTarget(), one).read(tensors, inputs)
    assert list(read) == tensors
    assert {len(values) for values in read.values()} == {2}


def test_quantized_bytes_become_real_numbers(tmp_path: Path) -> None:
    one = subject(written(example_models.mobilenet_like(dtype="int8"), tmp_path, "m.tflite"))
    tensor = one.subgraph.tensors[one.subgraph.nodes[0].outputs[0]]
    assert tensor.quantization is not None
    stored = np.full(tensor.shape, 5, np.int8)
    expected = (5 - tensor.quantization.zero_points[0]) * tensor.quantization.scales[0]
    np.testing.assert_allclose(real_values(stored.tobytes(), tensor), expected, rtol=1e-6)
    weights = next(t for t in one.subgraph.tensors if t.quantization and t.quantization.per_channel)
    assert weights.quantization is not None
    real = np.moveaxis(
        real_values(np.ones(weights.shape, weights.dtype).tobytes(), weights), weights.quantization.dimension, 0
    )
    np.testing.assert_allclose(real.reshape(len(real), -1)[:, 0], weights.quantization.scales)


def with_a_variable(data: bytes) -> bytes:
    """The same model with a variable tensor: LiteRT 2.3 runs it through its classic interface, without a profiler."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data)
    model.subgraphs[0].tensors.append(schema.TensorT(name="state", shape=[1, 4], isVariable=True))
    return serialized(model)


def test_models_that_cannot_be_profiled_are_compared_in_numbers(tmp_path: Path) -> None:
    data = example_models.mobilenet_like(blocks=1)
    original = written(with_a_variable(data), tmp_path, "original.tflite")
    changed = written(with_a_variable(with_scaled_weights(data, 0, 1.5)), tmp_path, "changed.tflite")
    found = explained(original, changed)
    assert found.why_no_times.facts["model"] == "original.tflite"
    assert "profiler" in found.why_no_times.facts["failure"]
    assert (found.verdict.code, found.verdict.facts["main"]) == ("explain.slower", None)
    assert found.causes == ()
    assert found.errors is not None
    assert (found.errors.first_drop, found.errors.compared) == (0, len(found.rows))
    assert found.errors.disturbance_db > 0
    shown = document(found)
    assert shown["before"]["invoke_ms"] is shown["before"]["delegated_nodes"] is None
    assert shown["nodes"][0]["change_ms"] == {"estimate": None, "low": None, "high": None}


@pytest.mark.slow
def test_data_are_fed_as_asked_and_what_was_guessed_is_said(tmp_path: Path) -> None:
    model = written(example_models.mobilenet_like(), tmp_path, "m.tflite")
    data = tmp_path / "data.npz"
    np.savez(data, x=np.full((2, 32, 32, 3), 255, np.uint8))
    guessed = api.explain_inputs(model, api.Data(str(data)))
    assert [note.code for note in guessed.notes] == [GUESSED_FLOAT]
    asked = api.explain_inputs(model, api.Data(str(data), preprocess="std=255"))
    assert asked.notes == ()
    for given, value in ((guessed, 255.0), (asked, 1.0)):
        assert np.frombuffer(given.samples[0][0], np.float32).max() == value
    found = explained(model, model, data=str(data))
    assert found.errors is not None
    assert found.errors.notes == guessed.notes


def test_bad_samples_are_an_error_unless_they_are_to_be_left_out(tmp_path: Path) -> None:
    one = subject(written(example_models.mobilenet_like(), tmp_path, "m.tflite"))
    good, bad = (Sample(name, (np.zeros(shape, np.float32),)) for name, shape in (("good", (32, 32, 3)), ("bad", (3,))))
    mixed = Dataset("mixed", [good, bad, good], labelled=False)
    with pytest.raises(DataError, match="bad has the shape"):
        inputs_from_data(one.graph, one.candidate.workload, mixed)
    given = inputs_from_data(one.graph, one.candidate.workload, mixed, skip_bad=True)
    assert len(given.samples) == 2
    assert (given.notes[0].code, given.notes[0].facts["samples"]) == ("explain.skipped", 1)
    with pytest.raises(DataError, match="no usable sample: bad has"):
        inputs_from_data(one.graph, one.candidate.workload, replace(mixed, samples=[bad]), skip_bad=True)


def test_trouble_of_a_model_says_which_one(tmp_path: Path) -> None:
    good = written(example_models.one_operator(), tmp_path, "good.tflite")
    g = ModelBuilder()
    g.output(g.custom("Nobody", [g.input("a", (1, 4)), g.input("b", (1, 4))], (1, 4)), "y")
    bad = written(g.build(), tmp_path, "bad.tflite")
    with pytest.raises(ModelError, match=r"bad\.tflite"):
        explained(good, bad)
