"""Which input and output is which, and which metric suits them, where the user does not say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from evaluating import doubler, drawn, model_of, run, vectors
from tests.model_builder import ModelBuilder

from hasten.core.accuracy_notes import ABOVE_ZERO, HIGHER_IS_BETTER, NO_PROBABILITY
from hasten.core.errors import DataError
from hasten.core.plan import Workload
from hasten.core.remark import remark
from hasten.data.dataset import Dataset, Sample
from hasten.data.metric_choice import with_threshold
from hasten.data.metrics import Cosine, FunctionMetric, MeanAbsoluteError, TopK
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.evaluation import EvaluationOptions
from hasten.evaluate.scoring import check_labels
from hasten.measure.opening import open_model
from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import Spec
from hasten.model.edit.file import read_object, write_object
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.measure.rounds import Candidate
    from hasten.model.build_graph import Value


def turned(folder: Path) -> Candidate:
    """A model whose signature lists inputs and outputs the other way round than the engine: difference = a - b."""
    g = ModelBuilder()
    b, a = g.input("b", (1, 4)), g.input("a", (1, 4))
    g.output(g.add(b, b), "twice")
    g.output(g.sub(a, b), "difference")
    path = folder / "turned.tflite"
    path.write_bytes(g.build())
    model = read_object(path)
    for names in (model.signatureDefs[0].inputs, model.signatureDefs[0].outputs):
        names.reverse()
    write_object(model, path, path)
    return open_model(path)[0]


def test_the_signatures_order_counts_whatever_that_of_the_engine(tmp_path: Path) -> None:
    candidate = turned(tmp_path)
    first, second = np.random.default_rng(0).normal(size=(2, 6, 4)).astype(np.float32)
    np.savez(tmp_path / "by_place.npz", x0=first, x1=second, y=first - second)
    np.savez(tmp_path / "by_name.npz", b=second, a=first, y=first - second)
    for name in ("by_place", "by_name"):
        dataset = open_dataset(str(tmp_path / f"{name}.npz"))
        found = run(candidate, dataset, Preprocess(), MeanAbsoluteError())
        assert found.accuracy.value == pytest.approx(0, abs=1e-6)
        seen: list[list[tuple[float, ...]]] = []

        def look(outputs: Sequence[Any], label: Any, seen: list[Any] = seen) -> float:
            seen.append([tuple(values.ravel().tolist()) for values in outputs])
            return 0.0

        run(candidate, dataset, Preprocess(), FunctionMetric("own", look))
        expected = {(tuple((a - b).tolist()), tuple((b + b).tolist())) for a, b in zip(first, second, strict=True)}
        assert {tuple(outputs) for outputs in seen} == expected


def one_value(folder: Path, *, probability: bool) -> Candidate:
    g = ModelBuilder()
    y = g.fully_connected(g.input("x", (1, 4)), 1)
    g.output(g.reshape(g.logistic(y) if probability else y, (1, 1)), "y")
    return model_of(folder, g.build(), f"{probability}.tflite")


@pytest.mark.parametrize(("probability", "metric"), [(True, "top-1"), (False, "mae")])
def test_without_labels_one_value_is_a_number_unless_it_is_a_probability(
    tmp_path: Path, probability: bool, metric: str
) -> None:
    assert run(one_value(tmp_path, probability=probability), vectors(12)).accuracy.metric == metric


@pytest.mark.parametrize(("probability", "metric"), [(True, "top-1"), (False, "mae")])
def test_whole_labels_of_one_value_are_numbers_unless_it_is_a_probability(
    tmp_path: Path, probability: bool, metric: str
) -> None:
    candidate = one_value(tmp_path, probability=probability)
    labels = [number % 2 if probability else 40 + number for number in range(12)]
    dataset = vectors(12, labels=labels)
    check_labels(open_model(candidate.path)[1], candidate.workload, dataset, None, EvaluationOptions())
    assert run(candidate, dataset).accuracy.metric == metric


@pytest.mark.parametrize(("first", "noted"), [(1, True), (40, False)])
def test_labels_that_may_be_two_classes_are_noted_where_they_are_taken_as_numbers(
    tmp_path: Path, first: int, noted: bool
) -> None:
    found = run(one_value(tmp_path, probability=False), vectors(12, labels=[first] * 12))
    assert (remark(NO_PROBABILITY) in found.accuracy.notes) == noted


LOGITS = ("logit", "logit and bias")
PROBABILITIES = ("probability", "converted", "clipped", "mean of two", "one less the other", "bounded", "shifted")


def score_of_class_one(folder: Path, kind: str) -> Candidate:
    """A model whose answer is its input: as a logit, or as the probability that belongs to it."""
    g = ModelBuilder()
    x = g.input("x", (1, 1))
    one, zero = g.constant(np.ones((1, 1), np.float32)), g.constant(np.zeros((1, 1), np.float32))
    (y,) = g.operator("FULLY_CONNECTED", [x, one], [Spec((1, 1))], options_type="FullyConnectedOptions")
    if kind == "logit and bias":
        y = g.reshape(g.add(y, zero), (1, 1))
    if kind not in LOGITS:
        y = g.logistic(y)
    if kind == "clipped":
        (y,) = g.operator("MINIMUM", [y, one], [Spec((1, 1))], options_type="MaximumMinimumOptions")
        (y,) = g.operator("MAXIMUM", [y, zero], [Spec((1, 1))], options_type="MaximumMinimumOptions")
    if kind == "mean of two":
        y = g.mul(g.add(y, y), g.constant(np.full((1, 1), 0.5, np.float32)))
    if kind == "one less the other":
        y = g.sub(one, g.sub(one, y))
    if kind == "bounded":
        (y,) = g.operator("RELU_0_TO_1", [y], [Spec((1, 1))])
    if kind == "shifted":
        y = g.add(y, zero)
    if kind == "converted":
        y = g.dequantize(g.quantize(y, Quantization((1 / 256,), (-128,))))
    if kind == "one of two":
        both = g.softmax(g.concatenation([g.sub(y, y), y]))
        (y,) = g.operator(
            "SLICE", [both, *(g.constant(np.array(row, np.int32)) for row in ([0, 1], [1, 1]))], [Spec((1, 1))]
        )
    g.output(y, "y")
    return model_of(folder, g.build(), f"{kind}.tflite")


def animals(labels: Sequence[Any]) -> Dataset:
    """Logits of cats and dogs: half of the dogs' are below 0.5."""
    logits = np.linspace(-0.95, 0.95, len(labels), dtype=np.float32)
    samples = [
        Sample(f"v{i}", (np.full((1,), x),), label) for i, (x, label) in enumerate(zip(logits, labels, strict=True))
    ]
    return Dataset("animals", samples, labelled=True, classes=("cats", "dogs"), classes_from="the folders")


@pytest.mark.parametrize("labels", [["cats"] * 10 + ["dogs"] * 10, [False] * 10 + [True] * 10, [0] * 10 + [1] * 10])
@pytest.mark.parametrize("kind", [*LOGITS, *PROBABILITIES])
def test_one_value_decides_between_two_classes_where_its_sigmoid_is_a_half(
    tmp_path: Path, labels: list[Any], kind: str
) -> None:
    asked = TopK(1) if labels[0] == 0 and labels[0] is not False else None
    found = run(score_of_class_one(tmp_path, kind), animals(labels), metric=asked)
    assert (found.accuracy.metric, found.accuracy.value) == ("top-1", 1.0)
    assert (remark(ABOVE_ZERO) in found.accuracy.notes) == (kind in LOGITS)


def threshold_of(g: ModelBuilder, value: Value, folder: Path) -> float:
    """The threshold of top-1 for a model that ends in this value."""
    g.output(value, "y")
    graph = read_graph(model_of(folder, g.build()).path)
    metric = with_threshold(TopK(1), graph, forms_from_graph(graph, Workload()).outputs[0])
    assert isinstance(metric, TopK)
    return metric.threshold


@pytest.mark.parametrize("activation", ["relu", "relu6"])
@pytest.mark.parametrize("fused_into", ["product", "sum"])
def test_a_value_that_an_activation_bounds_is_no_logit(tmp_path: Path, activation: str, fused_into: str) -> None:
    g = ModelBuilder()
    y = g.fully_connected(g.input("x", (1, 4)), 1, activation=activation if fused_into == "product" else None)
    bias = g.constant(np.zeros((1, 1), np.float32))
    assert threshold_of(g, g.add(y, bias, activation=activation if fused_into == "sum" else None), tmp_path) == 0.5


def test_values_of_unknown_origin_are_no_logits(tmp_path: Path) -> None:
    g = ModelBuilder()
    assert threshold_of(g, g.custom("Score", [g.input("x", (1, 1))], (1, 1)), tmp_path) == 0.5
    g = ModelBuilder()
    assert threshold_of(g, g.hard_sigmoid(g.fully_connected(g.input("x", (1, 4)), 1)), tmp_path) == 0.5
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    assert threshold_of(g, g.add(g.fully_connected(x, 1), g.fully_connected(x, 1)), tmp_path) == 0.5


def test_a_probability_that_was_cut_out_of_others_is_one(tmp_path: Path) -> None:
    found = run(score_of_class_one(tmp_path, "one of two"), animals(["dogs"] * 20))
    assert found.accuracy.value == 1.0
    assert remark(ABOVE_ZERO) not in found.accuracy.notes


def test_one_hot_labels_are_classes(tmp_path: Path) -> None:
    candidate = doubler(tmp_path)
    classes = [int(np.asarray(sample.inputs[0]).argmax()) for sample in drawn(vectors(20))]  # type: ignore[index]
    found = run(candidate, vectors(20, labels=list(np.eye(4, dtype=np.float32)[classes])))
    assert (found.accuracy.metric, found.accuracy.value) == ("top-1", 1)


def test_an_own_metric_that_does_not_say_its_direction_is_noted(tmp_path: Path) -> None:
    metric = FunctionMetric("mine:f", lambda outputs, label: 1.0)
    found = run(doubler(tmp_path), vectors(12, labels=[0] * 12), Preprocess(), metric)
    assert remark(HIGHER_IS_BETTER, metric="mine:f", function="f") in found.accuracy.notes


def test_an_own_class_of_metric_that_exits_is_an_error(tmp_path: Path) -> None:
    class Leaving(Cosine):
        def score(self, outputs: Sequence[Any], label: Any) -> Any:
            sys.exit(9)

    with pytest.raises(DataError, match=r"0: the metric cosine failed: it called sys\.exit\(9\)"):
        run(doubler(tmp_path), vectors(1, labels=[np.zeros(4)]), Preprocess(), Leaving())
