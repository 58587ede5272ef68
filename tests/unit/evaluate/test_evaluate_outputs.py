"""Which input and output is which, and which metric suits them, where the user does not say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from evaluating import doubler, drawn, model_of, run, vectors
from tests.model_builder import ModelBuilder

from hasten.core.accuracy_notes import HIGHER_IS_BETTER, NO_PROBABILITY
from hasten.core.errors import DataError
from hasten.core.remark import remark
from hasten.data.metrics import Cosine, FunctionMetric, MeanAbsoluteError
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import EvaluationOptions
from hasten.evaluate.scoring import check_labels
from hasten.measure.opening import open_model
from hasten.model.edit.file import read_object, write_object

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.measure.rounds import Candidate


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
