"""Groups of nodes side by side in one model: each answers what it answers inside the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from litert_run import inputs_for, invoke, loaded
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec
from hasten.model.edit.cut import Island, cut_apart
from hasten.model.edit.outputs import with_outputs
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.model.graph import Graph, Node


def graph_of(data: bytes, folder: Path) -> Graph:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return read_graph(path)


def flowing(graph: Graph, node: Node) -> list[int]:
    return [index for index in node.inputs if index >= 0 and not graph.main.tensors[index].is_constant]


def island(graph: Graph, *nodes: int) -> Island:
    """These nodes, as one group."""
    chosen = [graph.main.nodes[index] for index in nodes]
    written = {index for node in chosen for index in node.outputs}
    read = dict.fromkeys(index for node in chosen for index in flowing(graph, node) if index not in written)
    return Island(nodes, {index: graph.main.tensors[index].shape for index in read}, chosen[-1].outputs)


def recorded(graph: Graph) -> dict[int, np.ndarray[Any, Any]]:
    """The values of all tensors in a run of the whole model."""
    own = list(graph.main.outputs)
    inner = [index for node in graph.main.nodes for index in node.outputs if index not in own]
    model = loaded(with_outputs(graph, inner))
    arrays = inputs_for(model.get_input_details())
    answers = invoke(model, arrays)
    return dict(zip((*graph.main.inputs, *own, *inner), (*arrays, *answers), strict=True))


def check(graph: Graph, islands: Sequence[Island]) -> None:
    values = recorded(graph)
    model = loaded(cut_apart(graph.path, islands).to_bytes())
    answers = invoke(model, [values[index] for one in islands for index in one.inputs])
    expected = [values[index] for one in islands for index in one.outputs]
    for got, wanted in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_every_node_alone_answers_what_it_answers_in_the_whole(dtype: str, tmp_path: Path) -> None:
    graph = graph_of(example_models.mobilenet_like(blocks=1, dtype=dtype), tmp_path)
    check(graph, [island(graph, node.index) for node in graph.main.nodes])


def test_groups_of_nodes(tmp_path: Path) -> None:
    graph = graph_of(example_models.mobilenet_like(blocks=1), tmp_path)
    check(graph, [island(graph, 1, 2, 3), island(graph, 4), island(graph, 5, 6)])


def test_a_single_node_leaves_the_weights_of_others_behind(tmp_path: Path) -> None:
    graph = graph_of(example_models.mobilenet_like(), tmp_path)
    data = cut_apart(graph.path, [island(graph, 2)]).to_bytes()
    assert len(data) < graph.size_bytes / 4
    part = graph_of(data, tmp_path)
    assert [node.op for node in part.main.nodes] == ["DEPTHWISE_CONV_2D"]
    signature = part.signature()
    assert signature is not None
    assert (list(signature.inputs), list(signature.outputs)) == (["input_0"], ["output_0"])


def test_conversions_of_constants_come_along(tmp_path: Path) -> None:
    g = ModelBuilder(weights="float16")
    g.output(g.conv2d(g.tanh(g.input("x", (1, 4, 4, 2))), 2), "y")
    graph = graph_of(g.build(), tmp_path)
    layer = next(node for node in graph.main.nodes if node.op == "CONV_2D")
    fed = next(node.outputs[0] for node in graph.main.nodes if node.op == "TANH")
    one = Island((layer.index,), {fed: graph.main.tensors[fed].shape}, layer.outputs)
    part = graph_of(cut_apart(graph.path, [one]).to_bytes(), tmp_path)
    assert [node.op for node in part.main.nodes] == ["DEQUANTIZE", "CONV_2D"]


def test_shapes_that_others_compute_become_constants(tmp_path: Path) -> None:
    g = ModelBuilder()
    x, shape = g.input("x", (2, 6)), g.input("shape", (2,), "int32")
    (y,) = g.operator("RESHAPE", [x, shape], [Spec((2, 6))], options_type="ReshapeOptions")
    g.output(g.relu(y), "y")
    graph = graph_of(g.build(), tmp_path)
    node = next(node for node in graph.main.nodes if node.op == "RESHAPE")
    one = Island((node.index,), {node.inputs[0]: (2, 6)}, node.outputs, {node.inputs[1]: np.array([3, 4], np.int32)})
    model = loaded(cut_apart(graph.path, [one]).to_bytes())
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    (answer,) = invoke(model, [values])
    np.testing.assert_array_equal(answer, values.reshape(3, 4))


def test_open_shapes_are_closed_as_asked(tmp_path: Path) -> None:
    graph = graph_of(example_models.dynamic_batch(), tmp_path)
    node = graph.main.nodes[0]
    one = Island((0,), {node.inputs[0]: (5, 8, 8, 3)}, node.outputs)
    part = graph_of(cut_apart(graph.path, [one]).to_bytes(), tmp_path)
    assert (part.inputs[0].shape, part.inputs[0].is_dynamic) == ((5, 8, 8, 3), False)
