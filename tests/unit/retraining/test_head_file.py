"""Files of a retraining, run by LiteRT's own interpreter: features are what they were, and the head tells what it
should, in every type and behind every ending."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hasten.core.errors import DataError
from hasten.data.classes import packed_labels
from hasten.data.preprocess import Preprocess
from hasten.model.metadata import read_metadata
from hasten.model.reader import read_graph
from hasten.retraining.ending import find_ending
from hasten.retraining.head_file import NewHead, backbone_bytes, model_with_head, telling_range
from hasten.retraining.softmax import Head, probabilities
from tests.unit.retraining.heads import CLASSES, ENDINGS, FLOAT, INTEGERS, samples_of, two_outputs

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph
    from hasten.retraining.ending import Ending

    Array = np.ndarray[Any, Any]


def given(folder: Path, name: str) -> tuple[Graph, Ending]:
    (folder / "m.tflite").write_bytes(ENDINGS[name]())
    graph = read_graph(folder / "m.tflite")
    return graph, find_ending(graph)


def answered(model: bytes | Path, images: Array, output: int = 0) -> Array:
    """One output for each image, as real values."""
    loaded = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    interpreter = Interpreter(**loaded)
    interpreter.allocate_tensors()
    (source,), target = interpreter.get_input_details(), interpreter.get_output_details()[output]
    rows = []
    for image in images:
        interpreter.set_tensor(source["index"], _stored(image[np.newaxis], source))
        interpreter.invoke()
        rows.append(_real(interpreter.get_tensor(target["index"]), target).reshape(-1))
    return np.stack(rows)


def _stored(values: Array, detail: dict[str, Any]) -> Array:
    scale, zero = detail["quantization"]
    if not scale:
        return values.astype(detail["dtype"])
    limits = np.iinfo(detail["dtype"])
    return np.asarray(np.clip(np.rint(values / scale + zero), limits.min, limits.max), detail["dtype"])


def _real(values: Array, detail: dict[str, Any]) -> Array:
    scale, zero = detail["quantization"]
    return (values.astype(np.float64) - zero) * scale if scale else values.astype(np.float64)


def some_head(ending: Ending, features: Array, *, multi_label: bool = False) -> NewHead:
    """A head whose logits spread over a few units, as a trained one's do."""
    random = np.random.default_rng(3)
    spread = features.std(axis=0).mean() + 1e-6
    weights = random.standard_normal((len(CLASSES), ending.count)) / (spread * np.sqrt(ending.count)) * 3
    head = Head(weights, -weights @ features.mean(axis=0), multi_label)
    logits = head.logits(features.astype(np.float32))
    return NewHead(head, CLASSES, telling_range(logits, multi_label=multi_label))


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ENDINGS)
def test_the_file_tells_what_features_and_head_tell(name: str, multi_label: bool, tmp_path: Path) -> None:
    graph, ending = given(tmp_path, name)
    images = samples_of(60)[0]
    features = answered(backbone_bytes(graph, ending), images)
    assert features.shape == (60, ending.count)
    new = some_head(ending, features, multi_label=multi_label)
    made = model_with_head(graph, ending, new, {})
    place = 1 if name == "two_outputs" else 0
    found = answered(made, images, place)
    expected = probabilities(new.head.logits(features.astype(np.float32)), multi_label=multi_label)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < (1e-4 if name in FLOAT else 0.06)
    if name in FLOAT and not multi_label:
        assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()


@pytest.mark.parametrize("name", ENDINGS)
def test_the_file_is_sound_and_holds_no_old_head(name: str, tmp_path: Path) -> None:
    graph, ending = given(tmp_path, name)
    features = answered(backbone_bytes(graph, ending), samples_of(6)[0])
    (tmp_path / "new.tflite").write_bytes(model_with_head(graph, ending, some_head(ending, features), {}))
    made = read_graph(tmp_path / "new.tflite")
    again = find_ending(made, output=ending.name)
    assert (again.count, again.classes) == (ending.count, len(CLASSES))
    assert not again.pooled  # where positions were averaged, they are now before the head
    assert made.main.tensors[again.output].dtype == graph.main.tensors[ending.output].dtype
    if name != "shared_weights":  # there the other output still needs it
        assert not any(tensor.is_constant and tensor.shape[:1] == (5,) for tensor in made.main.tensors)
    assert packed_labels(made) == CLASSES


def test_features_are_those_inside_the_model(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "dense")
    images = samples_of(5)[0]
    interpreter = Interpreter(
        model_path=str(graph.path),
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    seen = []
    for image in images:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[np.newaxis])
        interpreter.invoke()
        seen.append(interpreter.get_tensor(ending.features).reshape(-1))
    assert answered(backbone_bytes(graph, ending), images) == pytest.approx(np.stack(seen), abs=1e-5)


@pytest.mark.parametrize("name", INTEGERS)
def test_a_head_of_integers_has_the_scales_that_kernels_want(name: str, tmp_path: Path) -> None:
    graph, ending = given(tmp_path, name)
    features = answered(backbone_bytes(graph, ending), samples_of(6)[0])
    (tmp_path / "new.tflite").write_bytes(model_with_head(graph, ending, some_head(ending, features), {}))
    made = read_graph(tmp_path / "new.tflite")
    head = next(node for node in reversed(made.main.nodes) if node.op == "FULLY_CONNECTED")
    source, weights, bias = (made.main.tensors[index] for index in head.inputs)
    assert source.quantization is not None
    assert weights.quantization is not None
    assert bias.quantization is not None
    assert (source.dtype, weights.dtype) == ("int8", "int8")
    assert len(weights.quantization.scales) == len(CLASSES)
    assert set(weights.quantization.zero_points) == {0}
    products = [source.quantization.scales[0] * scale for scale in weights.quantization.scales]
    assert list(bias.quantization.scales) == pytest.approx(products)
    assert bias.dtype == "int32"


@pytest.mark.parametrize("name", INTEGERS)
def test_a_bias_fits_beside_tiny_weights(name: str, tmp_path: Path) -> None:
    graph, ending = given(tmp_path, name)
    head = Head(np.full((len(CLASSES), ending.count), 1e-12), np.array([2.0, -1.0, -1.0]))
    found = answered(model_with_head(graph, ending, NewHead(head, CLASSES, (-1.0, 2.0)), {}), samples_of(3)[0])
    assert np.abs(found - probabilities(head.bias[np.newaxis], multi_label=False)).max() < 0.06


def test_classes_without_names_get_none(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "dense")
    head = Head(np.zeros((4, ending.count)), np.zeros(4))
    (tmp_path / "new.tflite").write_bytes(model_with_head(graph, ending, NewHead(head, (), (0.0, 1.0)), {}))
    made = read_graph(tmp_path / "new.tflite")
    assert find_ending(made).classes == 4
    assert packed_labels(made) == ()
    assert made.metadata_names == ()


def test_an_open_batch_stays_open(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "any_batch")
    features = answered(backbone_bytes(graph, ending), samples_of(3)[0])
    made = model_with_head(graph, ending, some_head(ending, features), {})
    interpreter = Interpreter(model_content=made)
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(source["index"], (4, 8, 8, 3))
    interpreter.allocate_tensors()
    images = samples_of(4)[0]
    interpreter.set_tensor(source["index"], images)
    interpreter.invoke()
    assert interpreter.get_tensor(target["index"]) == pytest.approx(answered(made, images), abs=1e-5)


def test_other_outputs_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(two_outputs())
    graph = read_graph(tmp_path / "m.tflite")
    ending = find_ending(graph)
    images = samples_of(4)[0]
    features = answered(backbone_bytes(graph, ending), images)
    made = model_with_head(graph, ending, some_head(ending, features), {})
    assert answered(made, images, 0) == pytest.approx(answered(graph.path, images, 0), abs=1e-5)
    (tmp_path / "new.tflite").write_bytes(made)
    signature = read_graph(tmp_path / "new.tflite").signature()
    assert signature is not None
    assert list(signature.outputs) == ["map", "scores"]


def test_metadata_says_how_samples_were_fed_and_nothing_of_the_old_classes(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "dense")
    features = answered(backbone_bytes(graph, ending), samples_of(3)[0])
    fed = {graph.inputs[0].name: Preprocess(size=(8, 8), mean=(127.5,), std=(63.0,), channels="rgb")}
    first, second = tmp_path / "first.tflite", tmp_path / "second.tflite"
    first.write_bytes(model_with_head(graph, ending, some_head(ending, features), fed))
    metadata = read_metadata(first)
    assert metadata is not None
    assert (metadata.inputs[0].mean, metadata.inputs[0].std) == ((127.5,), (63.0,))
    assert metadata.inputs[0].color_space == "rgb"
    # Once more, on the file that has metadata and labels already.
    known = read_graph(first)
    (tmp_path / "features.tflite").write_bytes(backbone_bytes(known, find_ending(known)))
    fed_alike = read_metadata(tmp_path / "features.tflite")
    assert fed_alike is not None
    assert (fed_alike.inputs[0].mean, fed_alike.inputs[0].std) == ((127.5,), (63.0,))
    again = some_head(ending, features)
    renamed = NewHead(again.head, ("x", "y", "z"), again.logits)
    second.write_bytes(model_with_head(known, find_ending(known), renamed, {}))
    assert packed_labels(read_graph(second)) == ("x", "y", "z")
    assert read_graph(second).metadata_names.count("TFLITE_METADATA") == 1
    assert zipfile.ZipFile(second).namelist() == ["labels.txt"]
    kept = read_metadata(second)
    assert kept is not None
    assert kept.inputs[0].std == (63.0,)


def test_the_same_head_gives_the_same_bytes(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "int8")
    features = answered(backbone_bytes(graph, ending), samples_of(3)[0])
    new = some_head(ending, features)
    assert model_with_head(graph, ending, new, {}) == model_with_head(graph, ending, new, {})


def test_a_class_of_two_lines_is_refused(tmp_path: Path) -> None:
    graph, ending = given(tmp_path, "dense")
    head = Head(np.zeros((2, ending.count)), np.zeros(2))
    with pytest.raises(DataError, match="line break"):
        model_with_head(graph, ending, NewHead(head, ("a\nb", "c"), (0.0, 1.0)), {})


@settings(max_examples=100)
@given_values(logits=arrays(np.float64, (12, 4), elements=st.floats(-60, 60)), multi_label=st.booleans())
def test_what_is_cut_off_decides_nothing(logits: Array, multi_label: bool) -> None:
    low, high = telling_range(logits, multi_label=multi_label)
    assert low <= high
    cut = np.clip(logits, low, high)
    if multi_label:
        assert ((cut > 0) == (logits > 0)).all()
    else:
        assert (cut.argmax(axis=1) == logits.argmax(axis=1)).all()
    before, after = (probabilities(values, multi_label=multi_label) for values in (logits, cut))
    assert np.abs(before - after).max() < 0.01
