"""What tests of evaluation share: a tiny model, data for it, and a run that must succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests import example_models

from hasten.data.dataset import Dataset, Sample
from hasten.data.preprocess import Preprocess
from hasten.evaluate.evaluation import Evaluation, EvaluationData
from hasten.evaluate.run import evaluate
from hasten.measure.opening import open_model
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.data.metrics import Metric
    from hasten.measure.rounds import Candidate


def model_of(folder: Path, content: bytes, name: str = "m.tflite") -> Candidate:
    (folder / name).write_bytes(content)
    return open_model(folder / name)[0]


def run(
    candidate: Candidate,
    dataset: Dataset,
    preprocess: Preprocess = Preprocess(),
    metric: Metric | None = None,
    **named: Any,
) -> Evaluation:
    found = evaluate(LocalTarget(), candidate, EvaluationData(dataset, preprocess, metric), **named)
    assert isinstance(found, Evaluation), found
    return found


def vectors(count: int, size: int = 4, labels: Sequence[Any] | None = None, seed: int = 0) -> Dataset:
    values = np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)
    samples = [Sample(f"v{i}", (values[i],), None if labels is None else labels[i]) for i in range(count)]
    return Dataset("vectors", samples, labelled=labels is not None)


def doubler(folder: Path) -> Candidate:
    return model_of(folder, example_models.no_signature(), "double.tflite")


def drawn(dataset: Dataset) -> list[Sample]:
    assert not callable(dataset.samples)
    return list(dataset.samples)
