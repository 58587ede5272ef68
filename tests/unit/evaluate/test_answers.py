"""A model's answers as rows: those of a plain loop, in the order of the samples; bad samples are named or skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from evaluating import doubler, vectors
from tests import example_models

from hasten.core import accuracy_notes as notes
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.data.dataset import Dataset, Sample
from hasten.evaluate.answers import Answers, answers_on
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
from hasten.measure.opening import open_model
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from pathlib import Path


def answers(path: Path, dataset: Dataset, **options: int | bool) -> Answers:
    candidate, graph = open_model(path)
    asked = EvaluationOptions(**options)  # type: ignore[arg-type]
    found = answers_on(LocalTarget(), candidate, graph, EvaluationData(dataset), options=asked)
    assert isinstance(found, Answers), found
    return found


@pytest.mark.parametrize("runners", [1, 3])
def test_rows_are_the_outputs_in_the_order_of_the_samples(tmp_path: Path, runners: int) -> None:
    dataset = vectors(30)
    found = answers(doubler(tmp_path).path, dataset, runners=runners)
    assert found.positions == tuple(range(30))
    assert found.names == tuple(f"v{at}" for at in range(30))
    assert not callable(dataset.samples)
    given = np.stack([np.asarray(sample.inputs[0]) for sample in dataset.samples])  # type: ignore[index]
    assert found.rows == pytest.approx(2 * given)


def test_a_bad_sample_is_named_or_skipped(tmp_path: Path) -> None:
    path = doubler(tmp_path).path
    samples = [*(Sample(f"v{at}", (np.ones(4, np.float32),)) for at in range(4)), Sample("odd", (np.ones(3),))]
    dataset = Dataset("mixed", samples, labelled=False)
    with pytest.raises(DataError, match="odd"):
        answers(path, dataset)
    found = answers(path, dataset, skip_bad=True)
    assert found.positions == (0, 1, 2, 3)
    assert [entry.name for entry in found.skipped] == ["odd"]
    assert [note.code for note in found.notes] == [notes.SKIPPED]


def test_an_answer_that_is_no_number_names_its_sample(tmp_path: Path) -> None:
    huge = Dataset("huge", [Sample("big", (np.full(4, 3e38, np.float32),))], labelled=False)
    with pytest.raises(DataError, match="big"):
        answers(doubler(tmp_path).path, huge)


def test_a_runner_that_fails_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(example_models.aborting())
    candidate, graph = open_model(tmp_path / "m.tflite")
    dataset = Dataset("d", [Sample("s", (np.ones((1, 4), np.int8),))], labelled=False)
    found = answers_on(LocalTarget(), candidate, graph, EvaluationData(dataset))
    assert isinstance(found, Failure)
