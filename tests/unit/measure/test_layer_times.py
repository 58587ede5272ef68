"""Layers of OpenVINO and the nodes that they came from: told only where order, number and sizes leave no doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model_builder import ModelBuilder

from hasten.measure.layer_times import nodes_of_layers
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph


def graph(tmp_path: Path) -> Graph:
    """CONV_2D, TANH, CONV_2D: 1024 and 512 elements."""
    g = ModelBuilder()
    x = g.conv2d(g.input("x", (1, 8, 8, 4)), 16, 3)
    g.output(g.conv2d(g.tanh(x), 8, 3), "y")
    return read_graph(g.write(tmp_path / "m.tflite"))


def layer(kind: str, elements: int) -> dict[str, Any]:
    return {"name": f"{kind}_7", "kind": kind, "elements": elements}


def test_layers_of_a_kind_come_from_its_nodes_in_order(tmp_path: Path) -> None:
    layers = [layer("Convolution", 1024), layer("Tanh", 1024), layer("Convolution", 512), layer("Reorder", 512)]
    assert nodes_of_layers(layers, graph(tmp_path)) == [0, None, 2, None]


def test_another_number_or_size_tells_nothing(tmp_path: Path) -> None:
    model = graph(tmp_path)
    assert nodes_of_layers([layer("Convolution", 1024)], model) == [None]
    assert nodes_of_layers([layer("Convolution", 512), layer("Convolution", 1024)], model) == [None, None]
