"""Mixed precision: exactly the nodes that were asked for change, whatever their names are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from variant_models import answers, inputs_of, model_file, worst_error

from hasten.core.errors import UsageError
from hasten.model.reader import read_graph
from hasten.variants.make import make_variant
from hasten.variants.selection import NodeChoice
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph

FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def nodes_with_int8_weights(given_file: Graph, variant: Graph) -> set[int]:
    """By the file itself: the weights of a node stay the tensor that they were."""
    tensors = variant.main.tensors
    return {n.index for n in given_file.main.nodes if n.op in LAYERS and tensors[n.inputs[1]].dtype == "int8"}


def nodes_with_int8_outputs(given_file: Graph, variant: Graph) -> set[int]:
    return {n.index for n in given_file.main.nodes if variant.main.tensors[n.outputs[0]].dtype == "int8"}


@FEW
@given(data=st.data())
def test_dynamic_changes_exactly_the_nodes_asked_for(data: st.DataObject, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "v.tflite"
    graph = read_graph(model)
    layers = [node.index for node in graph.main.nodes if node.op in LAYERS]
    chosen = data.draw(st.sets(st.sampled_from(layers), min_size=1, max_size=len(layers) - 1))
    variant = make_variant(model, "dynamic_int8", out, choice=NodeChoice(only=chosen))
    assert set(variant.nodes) == nodes_with_int8_weights(graph, read_graph(out)) == chosen
    variant = make_variant(model, "dynamic_int8", out, choice=NodeChoice(but=chosen))
    assert set(variant.nodes) == nodes_with_int8_weights(graph, read_graph(out)) == set(layers) - chosen


@FEW
@given(data=st.data())
def test_static_changes_exactly_the_nodes_asked_for(data: st.DataObject, tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "mobilenet"), tmp_path / "v.tflite"
    graph = read_graph(model)
    chosen = data.draw(st.sets(st.sampled_from(range(len(graph.main.nodes))), min_size=1))
    variant = make_variant(model, "static_int8_min_max", out, inputs_of(model, 3), choice=NodeChoice(only=chosen))
    assert set(variant.nodes) == nodes_with_int8_outputs(graph, read_graph(out)) == chosen
    test = inputs_of(model, 2, seed=5)
    assert worst_error(answers(model, test), answers(out, test)) < 0.2


def test_indices_are_those_of_the_file_given(tmp_path: Path) -> None:
    """Preparation folds the DEQUANTIZE nodes of this one away, so that later nodes move."""
    model = model_file(tmp_path, "float16_weights")
    graph = read_graph(model)
    (convolution,) = (node.index for node in graph.main.nodes if node.op == "CONV_2D")
    (dense,) = (node.index for node in graph.main.nodes if node.op == "FULLY_CONNECTED")
    assert make_variant(model, "dynamic_int8", tmp_path / "v.tflite").nodes == (convolution, dense)
    assert make_variant(model, "dynamic_int8", tmp_path / "v.tflite", choice=NodeChoice(only=[dense])).nodes == (dense,)


def test_nodes_of_one_name_can_be_told_apart_by_index(tmp_path: Path) -> None:
    model, out = model_file(tmp_path, "same_names"), tmp_path / "v.tflite"
    variant = make_variant(model, "static_int8_min_max", out, inputs_of(model, 4), choice=NodeChoice(only=[1]))
    assert variant.nodes == (1,)
    names = [tensor.name for tensor in read_graph(model).main.tensors]
    assert [tensor.name for tensor in read_graph(out).main.tensors][: len(names)] == names


@pytest.mark.parametrize(
    ("choice", "sentence"), [(NodeChoice(only=[99]), "no node 99"), (NodeChoice([0], [1]), "both")]
)
def test_a_selection_that_makes_no_sense_is_refused(choice: NodeChoice, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_variant(model_file(tmp_path, "mobilenet"), "float16", tmp_path / "v.tflite", choice=choice)


def test_selecting_only_what_the_recipe_cannot_do_says_so(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet")
    others = [node.index for node in read_graph(model).main.nodes if node.op == "SOFTMAX"]
    with pytest.raises(NothingToChangeError, match="changes nothing"):
        make_variant(model, "dynamic_int8", tmp_path / "v.tflite", choice=NodeChoice(only=others))
