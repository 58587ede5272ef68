"""Samples that several models take are prepared once, as far as memory allows, and give the same figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten import demo
from hasten.core.failure import Failure
from hasten.data.dataset import Dataset, Sample
from hasten.data.metrics import TopK
from hasten.data.prepare import Preparer
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.data.tensor_forms import TensorForm
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
from hasten.evaluate.prepared import PreparedSamples
from hasten.evaluate.run import evaluate
from hasten.measure.opening import open_model
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.evaluate.evaluation import Evaluation

FORM = TensorForm("x", "x", (1, 4), "float32")
ONE = (np.zeros((1, 4), np.float32),)


@pytest.fixture
def prepared_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of samples that were prepared."""
    names: list[str] = []
    usual = Preparer.prepare

    def prepare(self: Preparer, sample: Sample, *arguments: Any) -> Any:
        names.append(sample.name)
        return usual(self, sample, *arguments)

    monkeypatch.setattr(Preparer, "prepare", prepare)
    return names


def evaluated(dataset: Dataset, kept: PreparedSamples | None) -> Evaluation:
    data = EvaluationData(dataset, metric=TopK(1), prepared=kept)
    found = evaluate(LocalTarget(), open_model(demo.MODEL)[0], data, options=EvaluationOptions(60))
    assert not isinstance(found, Failure)
    return found


def test_the_second_model_finds_its_samples_and_gives_the_same_figures(prepared_names: list[str]) -> None:
    dataset, kept = open_dataset(str(demo.DATA)), PreparedSamples()
    first = evaluated(dataset, kept)
    count = len(prepared_names)
    assert count >= 60
    second, plain = evaluated(dataset, kept), evaluated(dataset, None)
    assert len(prepared_names) <= 2 * count  # the last one alone prepared its samples again
    for found in (second, plain):
        np.testing.assert_array_equal(found.statistics, first.statistics)
        assert found.positions == first.positions
    assert second.accuracy == first.accuracy


def test_other_labels_of_the_same_samples_need_no_other_inputs(prepared_names: list[str]) -> None:
    dataset, kept = open_dataset(str(demo.DATA)), PreparedSamples()
    evaluated(dataset, kept)
    before = len(prepared_names)
    evaluated(replace(dataset, labelled=False), kept)
    assert len(prepared_names) == before


def test_what_does_not_fit_is_prepared_again() -> None:
    dataset = Dataset("d", [Sample("a", ONE)], False)
    kept = PreparedSamples(most_bytes=40)
    shelf = kept.shelf(dataset, [FORM], [Preprocess()])
    assert shelf is not None
    for position in range(4):
        shelf.put(position, ONE)
    assert [shelf.get(position) is not None for position in range(4)] == [True, True, False, False]


def test_data_forms_and_preparations_are_kept_apart() -> None:
    one, other = (Dataset("d", [Sample("a", ONE)], False) for _ in range(2))
    kept = PreparedSamples()
    wide = replace(FORM, shape=(1, 8))
    raw, centred = Preprocess(), Preprocess(mean=(1.0,), std=(2.0,))
    shelves = [
        kept.shelf(dataset, [form], [preprocess])
        for dataset in (one, other)
        for form in (FORM, wide)
        for preprocess in (raw, centred)
    ]
    assert len({id(shelf) for shelf in shelves}) == 8
    assert kept.shelf(one, [FORM], [raw]) is shelves[0]
    assert not kept.has(one, [FORM])
    assert shelves[0] is not None
    shelves[0].put(0, ONE)
    assert kept.has(one, [FORM])
    assert not kept.has(one, [wide])
    assert not kept.has(other, [FORM])


def test_a_stream_is_not_kept() -> None:
    def stream() -> Iterator[Sample]:
        yield Sample("a", ONE)

    assert PreparedSamples().shelf(Dataset("d", stream, False), [FORM], [Preprocess()]) is None
