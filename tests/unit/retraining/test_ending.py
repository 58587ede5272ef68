"""Where a head goes: every usual ending is found, and what cannot be replaced is refused by the name of its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import ModelError, UsageError
from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph
from hasten.retraining.ending import find_ending
from tests.model_builder import ModelBuilder
from tests.unit.retraining.heads import ENDINGS, SIZE, two_outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.model.build_graph import Value
    from hasten.model.graph import Graph

POOLED = {"convolution_before_pooling", "int8_before_pooling"}
COUNTS = {"dense_of_all_positions": 2 * 2 * 24, "uint8": SIZE * 3}


def graph_of(folder: Path, content: bytes) -> Graph:
    (folder / "m.tflite").write_bytes(content)
    return read_graph(folder / "m.tflite")


@pytest.mark.parametrize("name", ENDINGS)
def test_the_layer_before_the_output_is_found(name: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, ENDINGS[name]())
    found = find_ending(graph)
    assert found.head is not None
    assert graph.main.nodes[found.head].op in ("FULLY_CONNECTED", "CONV_2D")
    assert found.count == COUNTS.get(name, 24)
    assert found.pooled is (name in POOLED)
    assert found.classes == 5


def test_of_several_outputs_the_first_with_a_head_counts_or_the_one_that_is_named(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, two_outputs())
    assert find_ending(graph).name == "scores"
    with pytest.raises(ModelError, match="3×3 kernel"):
        find_ending(graph, output="map")
    with pytest.raises(UsageError) as caught:
        find_ending(graph, output="boxes")
    assert "map, scores" in caught.value.hint


def test_a_head_can_be_put_on_any_tensor(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, two_outputs())
    found = find_ending(graph, features="map")
    assert (found.head, found.count, found.pooled) == (None, 24, True)
    inner = graph.main.tensors[found.features].name
    assert find_ending(graph, features=inner).features == found.features
    with pytest.raises(UsageError, match="no tensor 'nosuch'"):
        find_ending(graph, features="nosuch")
    constant = next(tensor.name for tensor in graph.main.tensors if tensor.is_constant)
    with pytest.raises(UsageError, match="not computed"):
        find_ending(graph, features=constant)


def _image(g: ModelBuilder) -> Value:
    return g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3, activation="relu")


def _largest(g: ModelBuilder) -> Value:
    logits = g.fully_connected(g.mean(_image(g)), 5)
    axis = g.constant(np.array(1, np.int32))
    (found,) = g.operator("ARG_MAX", [logits, axis], [Spec((1,), "int64")], options_type="ArgMaxOptions", outputType=4)
    return found


def _computed_weights(g: ModelBuilder) -> Value:
    features = g.mean(_image(g))
    weights = g.reshape(g.relu(g.reshape(g.input("w", (1, 20)), (5, 4))), (5, 4))
    (found,) = g.operator("FULLY_CONNECTED", [features, weights], [Spec((1, 5))], options_type="FullyConnectedOptions")
    return found


REFUSED: dict[str, tuple[Callable[[ModelBuilder], Value], str]] = {
    "class number": (_largest, "ARG_MAX"),
    "kernel of 3": (lambda g: g.softmax(g.mean(g.conv2d(_image(g), 5, 3))), "CONV_2D .* with a 3×3 kernel"),
    "map": (lambda g: g.softmax(g.conv2d(_image(g), 5)), "for 64 positions of a map"),
    "two parts": (lambda g: g.concatenation([g.mean(_image(g)), g.mean(_image(g))]), "CONCATENATION"),
    "computed weights": (_computed_weights, "weights are computed"),
    "custom operator": (lambda g: g.custom("Polish", [g.mean(_image(g))], (1, 5)), "Polish"),
    "input itself": (lambda g: g.softmax(g.input("x", (1, 5))), "no layer to replace"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_ending_that_cannot_be_replaced_is_refused_by_its_node(kind: str, tmp_path: Path) -> None:
    draw, reason = REFUSED[kind]
    g = ModelBuilder()
    g.output(draw(g), "y")
    with pytest.raises(ModelError, match=reason) as caught:
        find_ending(graph_of(tmp_path, g.build()))
    assert "--features" in caught.value.hint
    assert kind == "input itself" or "(node " in caught.value.message


@pytest.mark.parametrize(
    ("name", "op", "count", "classes"),
    [
        ("01_mobilenet_v1_025_imagenet/model_float", "CONV_2D", 256, 1001),
        ("01_mobilenet_v1_025_imagenet/model_qat_uint8", "CONV_2D", 256, 1001),
        ("02_kws_dscnn/model_int8", "FULLY_CONNECTED", 64, 12),
        ("03_resnet8_cifar10/model_float", "FULLY_CONNECTED", 64, 10),
        ("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq", "CONV_2D", 1280, 1001),
        ("08_mobilenet_v2_imagenet_uint8/model_tf1_qat", "CONV_2D", 1280, 1001),
    ],
)
def test_endings_of_real_models(cases: Path, name: str, op: str, count: int, classes: int) -> None:
    graph = read_graph(cases / f"{name}.tflite")
    found = find_ending(graph)
    assert found.head is not None
    assert (graph.main.nodes[found.head].op, found.count, found.classes) == (op, count, classes)


@pytest.mark.parametrize("name", ["04_deeplabv3_coco/model_float", "07_ssd_mobilenet_v1_coco/model_uint8"])
def test_models_that_name_no_class_of_a_sample_are_refused(cases: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"\(node "):
        find_ending(read_graph(cases / f"{name}.tflite"))
