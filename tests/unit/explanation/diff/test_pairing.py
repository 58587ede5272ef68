"""Tensors that correspond, found by the nodes' matches and by values where one graph has more nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.remark import Remark, remark
from hasten.explanation.diff.facts import CONSTANT
from hasten.explanation.diff.pairing import Pairing, Wiring, pair_up
from hasten.model.build_graph import signed_range
from hasten.model.matching import match_nodes
from hasten.model.reader import read_graph
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.explanation.tensor_errors import Reals


def wiring(draw: Callable[[ModelBuilder], Any], folder: Path, name: str) -> Wiring:
    g = ModelBuilder()
    draw(g)
    return wiring_of(g.build(), folder, name)


def wiring_of(data: bytes, folder: Path, name: str) -> Wiring:
    path = folder / f"{name}.tflite"
    path.write_bytes(data)
    return Wiring(read_graph(path).main)


def values(graph: Wiring, like: dict[str, int]) -> dict[int, Reals]:
    """Numbers for each tensor, by a seed for its name; others have numbers of their own."""
    found = {}
    for index in (*graph.subgraph.inputs, *graph.computed()):
        tensor = graph.subgraph.tensors[index]
        random = np.random.default_rng((like.get(tensor.name, 1000 + index), tensor.elements or 0))
        found[index] = [np.asarray(random.standard_normal(tensor.shape)) for _ in range(2)]
    return found


def paired(first: Wiring, second: Wiring, *like: dict[str, int]) -> Pairing:
    inputs = dict(zip(second.subgraph.inputs, first.subgraph.inputs, strict=True))
    both = values(first, like[0]), values(second, like[1])
    return pair_up((first, second), match_nodes(first.subgraph, second.subgraph), inputs, both)


def names(graph: Wiring, tensors: tuple[int, ...]) -> list[str]:
    return [graph.subgraph.tensors[index].name for index in tensors]


def test_equal_graphs_have_a_section_for_each_node(tmp_path: Path) -> None:
    graphs = [wiring_of(example_models.mobilenet_like(blocks=1), tmp_path, name) for name in "ab"]
    like = {tensor.name: tensor.index for tensor in graphs[0].subgraph.tensors}
    found = paired(graphs[0], graphs[1], like, like)
    assert [section.node for section in found.sections] == [node.index for node in graphs[1].subgraph.nodes]
    assert all(section.nodes == ((section.node,), (section.node,)) for section in found.sections)
    assert all(section.fed[0] == section.fed[1] != () for section in found.sections)
    assert (found.conversions, found.inside) == ({}, ({}, {}))


def test_an_activation_of_its_own_belongs_to_the_layer(tmp_path: Path) -> None:
    def apart(g: ModelBuilder) -> None:
        g.output(g.tanh(g.relu(g.conv2d(g.input("x", (1, 4, 4, 2)), 2))), "y")

    def fused(g: ModelBuilder) -> None:
        g.output(g.tanh(g.conv2d(g.input("x", (1, 4, 4, 2)), 2, activation="relu")), "y")

    one, other = wiring(apart, tmp_path, "a"), wiring(fused, tmp_path, "b")
    like = {"x": 1, "conv_2d_0": 2, "relu_1": 3, "tanh_2": 4}, {"x": 1, "conv_2d_0": 3, "tanh_1": 4}
    found = paired(one, other, *like)
    assert [section.nodes for section in found.sections] == [((0, 1), (0,)), ((2,), (1,))]
    back = paired(other, one, *like[::-1])
    assert [section.nodes for section in back.sections] == [((0,), (0, 1)), ((1,), (2,))]
    assert (found.inside, back.inside) == (({1: 0}, {}), ({}, {1: 0}))


def test_conversions_stand_for_what_they_convert(tmp_path: Path) -> None:
    def floats(g: ModelBuilder) -> None:
        g.output(g.conv2d(g.input("x", (1, 4, 4, 2)), 2), "y")

    def integers(g: ModelBuilder) -> None:
        x = g.quantize(g.input("x", (1, 4, 4, 2)), signed_range(1.0))
        g.output(g.dequantize(g.conv2d(x, 2)), "y")

    one, other = wiring(floats, tmp_path, "a"), wiring(integers, tmp_path, "b")
    found = paired(one, other, {"x": 1, "conv_2d_0": 2}, {"x": 1, "quantize_0": 1, "conv_2d_1": 2, "dequantize_2": 2})
    assert set(found.conversions) == {0, 2}
    (section,) = found.sections
    assert section.nodes == ((0,), (1,))
    assert names(other, section.fed[1]) == ["quantize_0"]
    assert names(one, section.fed[0]) == ["x"]


def test_another_operator_in_the_same_place_is_a_counterpart(tmp_path: Path) -> None:
    def drawn(function: str) -> Callable[[ModelBuilder], None]:
        return lambda g: g.output(g.relu(getattr(g, function)(g.relu6(g.input("x", (1, 4))))), "y")

    one, other = wiring(drawn("tanh"), tmp_path, "a"), wiring(drawn("logistic"), tmp_path, "b")
    like = {"x": 1, "relu6_0": 2, "relu_2": 4}
    found = paired(one, other, like, like)
    assert [(section.before, section.node) for section in found.sections] == [(0, 0), (1, 1), (2, 2)]


def test_weights_behind_a_conversion_are_settled(tmp_path: Path) -> None:
    g = ModelBuilder(weights="float16")
    g.output(g.conv2d(g.input("x", (1, 4, 4, 2)), 2), "y")
    graph = wiring_of(g.build(), tmp_path, "m")
    assert [node.op for node in graph.subgraph.nodes] == ["DEQUANTIZE", "CONV_2D"]
    assert graph.subgraph.nodes[0].outputs[0] in graph.settled
    assert names(graph, tuple(graph.computed())) == ["conv_2d_1"]
    conversion, layer = paired(graph, graph, {"x": 1, "conv_2d_1": 2}, {"x": 1, "conv_2d_1": 2}).sections
    assert (conversion.why, layer.why) == (remark(CONSTANT), Remark(""))


def test_nodes_with_a_state_or_a_loop_are_not_run_alone(tmp_path: Path) -> None:
    for make in (example_models.accumulator, example_models.counting_loop, example_models.branch):
        graphs = [wiring_of(make(), tmp_path, name) for name in "ab"]
        like = {tensor.name: tensor.index for tensor in graphs[0].subgraph.tensors}
        found = paired(graphs[0], graphs[1], like, like)
        assert any(section.why.code == "diff.not-alone" for section in found.sections) or not found.sections
