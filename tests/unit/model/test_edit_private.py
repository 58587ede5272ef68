"""Private models: nothing that somebody learned or wrote is left, and what decides on kernels stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from litert_run import run
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.core.errors import UsageError
from hasten.model.build_graph import Spec
from hasten.model.edit.cut import cut_nodes, inputs_of_cut, make_private, strip_names
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_constant, read_graph

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph


def private(data: bytes) -> bytes:
    model = EditedModel.from_bytes(data)
    make_private(model)
    return model.to_bytes()


def graph_of(data: bytes, folder: Path) -> Graph:
    (folder / "m.tflite").write_bytes(data)
    return read_graph(folder / "m.tflite")


def test_names_of_signatures_variables_graphs_and_custom_operators_go(tmp_path: Path) -> None:
    for data, names in (
        (example_models.accumulator(), (b"total", b"start")),
        (example_models.two_signatures(), (b"multiply", b"doubled", b"product")),
        (example_models.custom_operator("AcmeOp"), (b"AcmeOp",)),
    ):
        made = private(data)
        assert all(name in data for name in names)
        assert not [name for name in names if name in made]
        assert [node.op for node in graph_of(made, tmp_path).main.nodes]


def test_a_private_model_with_state_still_counts() -> None:
    """The variable is the same one in all graphs."""
    inputs, outputs = run(private(example_models.accumulator()))
    assert np.isfinite(outputs[0]).all()
    assert outputs[0].shape == inputs[0].shape


def test_custom_operators_that_everybody_knows_keep_their_names(tmp_path: Path) -> None:
    made = graph_of(private(example_models.custom_operator("TFLite_Detection_PostProcess")), tmp_path)
    assert made.custom_operators() == ("TFLite_Detection_PostProcess",)


def test_tables_of_integers_are_replaced_and_shapes_are_not(tmp_path: Path) -> None:
    g = ModelBuilder()
    table = np.arange(1000, 3000, dtype=np.int32)
    index = g.input("i", (1,), "int32")
    (y,) = g.operator("GATHER", [g.constant(table), index], [Spec((1,), "int32")], options_type="GatherOptions")
    g.output(g.reshape(g.cast(y, "float32"), (1, 1)), "y")
    data = g.build()
    made = private(data)
    assert table.tobytes()[:64] not in made
    graph = graph_of(made, tmp_path)
    kept = [read_constant(graph, tensor) for tensor in graph.main.tensors if tensor.is_constant]
    values, shape = kept
    assert values is not None
    assert shape is not None
    assert table.min() <= values.min() <= values.max() <= table.max()
    assert shape.tolist() == [1, 1]


def test_tensors_that_share_bytes_go_on_sharing_them() -> None:
    def share(model: Any) -> None:
        tensors = [tensor for tensor in model.record.subgraphs[0].tensors if tensor.buffer]
        alike = [tensor for tensor in tensors if list(tensor.shape) == list(tensors[0].shape)]
        alike[1].buffer = alike[0].buffer

    g = ModelBuilder()
    y = g.fully_connected(g.fully_connected(g.input("x", (1, 16)), 16), 16)
    g.output(y, "y")
    model = EditedModel.from_bytes(g.build())
    share(model)
    before = [int(tensor.buffer) for tensor in model.record.subgraphs[0].tensors]
    make_private(model)
    after = [int(tensor.buffer) for tensor in model.record.subgraphs[0].tensors]
    assert [before.count(one) for one in before] == [after.count(one) for one in after]


def test_the_extremes_of_weights_are_not_left_either(tmp_path: Path) -> None:
    data = example_models.mobilenet_like(8, 1)
    before = graph_of(data, tmp_path)
    weights = {tensor.index: read_constant(before, tensor) for tensor in before.main.tensors if tensor.is_weight}
    after = graph_of(private(data), tmp_path)
    for index, values in weights.items():
        drawn = read_constant(after, after.main.tensors[index])
        assert values is not None
        assert drawn is not None
        assert not {float(values.min()), float(values.max())} & set(drawn.reshape(-1).tolist())


def test_names_alone_can_be_stripped(tmp_path: Path) -> None:
    data = example_models.mobilenet_like()
    model = EditedModel.from_bytes(data)
    strip_names(model)
    inputs, expected = run(data)
    again, outputs = run(model.to_bytes())
    np.testing.assert_array_equal(again[0], inputs[0])
    np.testing.assert_array_equal(outputs[0], expected[0])
    assert b"probabilities" not in model.to_bytes()


def test_nodes_that_are_no_neighbors_can_be_cut_out(tmp_path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    first = g.tanh(x)
    second = g.relu(first)
    g.output(g.add(first, g.logistic(second)), "y")
    path = g.write(tmp_path / "whole.tflite")
    part = graph_of(cut_nodes(path, (0, 2)).to_bytes(), tmp_path)
    assert [node.op for node in part.main.nodes] == ["TANH", "LOGISTIC"]
    assert len(part.inputs) == len(inputs_of_cut(path, (0, 2))) == 2
    assert len(part.outputs) == 2
    with pytest.raises(UsageError):
        cut_nodes(path, ())
