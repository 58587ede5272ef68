"""Inner tensors made outputs: the model's own outputs stay what they were, and the new ones show the inner values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from litert_run import invoke, loaded, run
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.core.errors import UsageError
from hasten.demo import MODEL
from hasten.model.edit.outputs import shown_names, with_outputs
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph


def graph_of(data: bytes, folder: Path) -> Graph:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return read_graph(path)


def computed(graph: Graph) -> list[int]:
    return [node.outputs[0] for node in graph.main.nodes]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_own_outputs_stay_and_inner_ones_hold_what_a_cut_model_gives(dtype: str, tmp_path: Path) -> None:
    data = example_models.mobilenet_like(dtype=dtype)
    graph = graph_of(data, tmp_path)
    inputs, expected = run(data)
    whole = invoke(loaded(with_outputs(graph, computed(graph))), inputs)
    np.testing.assert_array_equal(whole[0], expected[0])
    assert len(whole) == len(graph.main.nodes)  # the last node's output was one already
    for position in (0, 5, 11):
        alone = invoke(loaded(with_outputs(graph, [computed(graph)[position]])), inputs)
        np.testing.assert_array_equal(alone[1], whole[1 + position])


def test_the_file_stays_readable_and_names_its_outputs(tmp_path: Path) -> None:
    graph = graph_of(example_models.mobilenet_like(), tmp_path)
    chosen = [computed(graph)[2], computed(graph)[-1]]
    copy = graph_of(with_outputs(graph, chosen), tmp_path)
    signature = copy.signature()
    assert signature is not None
    names = shown_names(graph, chosen)
    assert names[chosen[1]] == "probabilities"
    assert {signature.outputs[name] for name in names.values()} == set(chosen)


def test_a_file_without_a_signature_gets_one(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.tanh(g.tanh(g.input("x", (1, 4)))), "y")
    graph = graph_of(g.build(signature=None), tmp_path)
    tensors = computed(graph)
    signature = graph_of(with_outputs(graph, tensors), tmp_path).signature()
    assert signature is not None
    assert [signature.outputs[shown_names(graph, tensors)[index]] for index in tensors] == tensors


def test_constants_and_strangers_are_refused(tmp_path: Path) -> None:
    graph = graph_of(example_models.mobilenet_like(), tmp_path)
    constant = next(tensor.index for tensor in graph.main.tensors if tensor.is_constant)
    for index in (constant, len(graph.main.tensors), -1):
        with pytest.raises(UsageError, match="not computed"):
            with_outputs(graph, [index])


def test_weights_behind_the_flatbuffer_are_brought_inside(tmp_path: Path) -> None:
    """The quantizer of Google AI Edge writes them there."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    data = MODEL.read_bytes()
    model = schema.ModelT.InitFromPackedBuf(data)
    moved = max(model.buffers, key=lambda buffer: 0 if buffer.data is None else len(buffer.data))
    weights, moved.data = bytes(moved.data), None
    moved.offset, moved.size = 2**30, len(weights)
    sizes = []
    for _ in range(2):  # the place is known only when the rest has been written
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        sizes.append(-(-len(builder.Output()) // 64) * 64)
        moved.offset = sizes[0]
    outside = bytes(builder.Output()).ljust(sizes[0], b"\0") + weights
    graph = graph_of(outside, tmp_path)
    inputs, expected = run(data)
    np.testing.assert_array_equal(invoke(loaded(with_outputs(graph, [])), inputs)[0], expected[0])
