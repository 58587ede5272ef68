"""Zeros, blocks of zeros and few distinct values are found; pruning makes as many zeros as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import example_models
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of, model_file

from hasten.core.errors import ModelError, UsageError
from hasten.core.remark import remark
from hasten.model.build_graph import Spec
from hasten.model.edit.file import bytes_from_object, object_from_bytes
from hasten.model.reader import read_constant, read_graph
from hasten.variants import pruning, words
from hasten.variants.make import make_variant
from hasten.variants.pruning import prune_variant
from hasten.variants.sparsity import layer_sparsities, model_sparsity
from hasten.variants.variant import NothingToChangeError, zipped_bytes

if TYPE_CHECKING:
    from pathlib import Path


def dense_layer(weights: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    g = ModelBuilder()
    inputs = [g.input("x", (1, weights.shape[1])), g.constant(weights)]
    options = {"options_type": "FullyConnectedOptions"}
    (y,) = g.operator("FULLY_CONNECTED", inputs, [Spec((1, weights.shape[0]))], **options)  # type: ignore[arg-type]
    g.output(y, "y")
    return g.build()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sparsity=st.floats(0.3, 0.9))
def test_pruning_is_found_again(sparsity: float, tmp_path: Path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(example_models.matmul_chain(4, 64, 2))
    variant = prune_variant(path, sparsity, tmp_path / "pruned.tflite")
    layers = layer_sparsities(read_graph(variant.path))
    assert model_sparsity(layers) == pytest.approx(sparsity, abs=0.01)
    assert {layer.block for layer in layers} == {None}
    assert variant.size_bytes == path.stat().st_size
    assert variant.zipped_bytes < zipped_bytes(path)


@pytest.mark.parametrize("block", [(4, 1), (1, 4), (1, 16), (4, 4)])
def test_blocks_of_zeros_are_found(block: tuple[int, int], tmp_path: Path) -> None:
    source = np.random.default_rng(0)
    kept = source.random((64 // block[0], 64 // block[1])) < 0.4
    path = tmp_path / "blocks.tflite"
    weights = source.uniform(0.5, 1, (64, 64)) * kept.repeat(block[0], axis=0).repeat(block[1], axis=1)
    path.write_bytes(dense_layer(weights.astype(np.float32)))
    (layer,) = layer_sparsities(read_graph(path))
    assert layer.block == block


def test_the_smallest_weights_go_and_others_stay_as_they_are(tmp_path: Path) -> None:
    weights = np.array([[1, -5, 2, 6], [-3, 7, 4, -8]], np.float32)
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_layer(weights))
    graph = read_graph(prune_variant(path, 0.5, tmp_path / "pruned.tflite").path)
    pruned = read_constant(graph, graph.main.tensors[1])
    np.testing.assert_array_equal(pruned, [[0, -5, 0, 6], [0, 7, 0, -8]])


def test_only_dense_layers_and_1x1_convolutions_are_pruned(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    variant = prune_variant(model, 0.8, tmp_path / "pruned.tflite")
    for layer in layer_sparsities(read_graph(variant.path)):
        assert layer.zeros == pytest.approx(0.8 if layer.node in variant.nodes else 0, abs=0.02)
    operators = {read_graph(model).main.nodes[index].op for index in variant.nodes}
    assert operators == {"CONV_2D", "FULLY_CONNECTED"}
    assert 0 not in variant.nodes  # the first convolution is 3x3
    assert np.isfinite(answers(variant.path, inputs_of(model, 1))[0]["probabilities"]).all()


def test_zeros_survive_quantizing(tmp_path: Path) -> None:
    pruned = prune_variant(model_file(tmp_path, "mobilenet"), 0.8, tmp_path / "pruned.tflite")
    before = layer_sparsities(read_graph(pruned.path))
    variant = make_variant(pruned.path, "dynamic_int8", tmp_path / "int8.tflite")
    after = layer_sparsities(read_graph(variant.path))
    assert all(a.zeros >= b.zeros for a, b in zip(after, before, strict=True))


def test_clusters_are_found(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).choice(np.array([-1, -0.5, 0.5, 1], np.float32), (64, 64))
    weights[:3] = 0
    path = tmp_path / "clustered.tflite"
    path.write_bytes(dense_layer(weights))
    (layer,) = layer_sparsities(read_graph(path))
    assert (layer.distinct, layer.clustered) == (5, True)
    path.write_bytes(example_models.matmul_chain(4, 64, 1))
    (layer,) = layer_sparsities(read_graph(path))
    assert (layer.clustered, layer.block, layer.zeros) == (False, None, 0)


def test_weights_in_a_sparse_encoding_count_by_what_is_stored(tmp_path: Path) -> None:
    model = object_from_bytes(dense_layer(np.ones((8, 8), np.float32)))
    weights = model.subgraphs[0].tensors[1]
    weights.sparsity = schema.SparsityParametersT(traversalOrder=[0, 1], dimMetadata=[])
    model.buffers[weights.buffer].data = np.ones(16, np.float32).view(np.uint8)
    path = tmp_path / "encoded.tflite"
    path.write_bytes(bytes_from_object(model))
    (layer,) = layer_sparsities(read_graph(path))
    assert (layer.zeros, layer.clustered, layer.block) == (0.75, False, None)
    with pytest.raises(NothingToChangeError, match="nothing to prune"):
        prune_variant(path, 0.5, tmp_path / "pruned.tflite")


@pytest.mark.parametrize("rows", [1, 3])
def test_dense_layers_without_their_zeros_answer_the_same(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(example_models.matmul_chain(rows, 64, 3))
    encoded = prune_variant(path, 0.8, tmp_path / "encoded.tflite", encode=True)
    monkeypatch.setattr(pruning, "_encode_dense_layers", lambda model, tensors: 0)
    zeroed = prune_variant(path, 0.8, tmp_path / "zeroed.tflite", encode=True)
    assert encoded.notes == (remark(words.ENCODED, layers=3),)
    assert encoded.size_bytes < 0.5 * zeroed.size_bytes
    with pytest.raises(ModelError, match="sparse encoding"):
        make_variant(encoded.path, "dynamic_int8", tmp_path / "int8.tflite")
    layers = layer_sparsities(read_graph(encoded.path))
    assert [layer.zeros for layer in layers] == pytest.approx([0.8] * 3, abs=0.01)
    test = inputs_of(path, 2)
    for expected, seen in zip(answers(zeroed.path, test), answers(encoded.path, test), strict=True):
        np.testing.assert_allclose(seen["y"], expected["y"], rtol=1e-4, atol=1e-5)


def test_convolutions_are_not_encoded(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    variant = prune_variant(model, 0.8, tmp_path / "encoded.tflite", encode=True)
    tensors = read_graph(variant.path).main.tensors
    nodes = [node for node in read_graph(variant.path).main.nodes if any(tensors[i].is_sparse for i in node.inputs)]
    assert [node.op for node in nodes] == ["FULLY_CONNECTED"]
    assert variant.notes == (remark(words.ENCODED, layers=1), remark(words.ZEROS))
    assert np.isfinite(answers(variant.path, inputs_of(model, 1))[0]["probabilities"]).all()


def test_what_cannot_be_pruned_is_refused(tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "pruned.tflite"
    with pytest.raises(UsageError, match="sparsity of 1"):
        prune_variant(model, 1, out)
