"""Networks that were trained beside a head: judged on the same samples, and the result only where they are proven
better. The trained network is a real file; what trained it is another test's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.retraining.facts import FINE_TUNED, HEAD, QAT, RetrainFound
from hasten.retraining.fitting import Checked, Feed
from hasten.retraining.judging import Part
from hasten.retraining.labels import LabeledSamples, labeled
from hasten.retraining.training import Trained
from hasten.retraining.ways import compared, way_path
from hasten.targets.local import LocalTarget
from tests.unit.retraining.test_run import arrays, retrained

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESULT = Path("result.tflite")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> RetrainFound:
    """A model that tells stripes apart: it stands for a trained network."""
    return retrained(tmp_path_factory.mktemp("ways"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> LabeledSamples:
    return labeled(open_dataset(str(arrays(tmp_path_factory.mktemp("test"), 60, seed=5))))


def result(found: RetrainFound, samples: LabeledSamples, shares: NDArray[np.float64]) -> RetrainFound:
    """All ways, beside a head that gives these probabilities."""
    names = tuple(sample.name for sample in samples.samples)
    part = Part(np.zeros((len(names), 1), np.float32), samples.targets, names)
    head = replace(found, model=Model(str(RESULT), 1, "0" * 64), seconds=2.0)
    ways = [Trained(FINE_TUNED, Path(found.model.path), 0.9, 3, 5.0), Trained(QAT, failure="No memory was left.")]
    # What the user says of the model beside them is nothing to the trained files.
    feed = Feed(LocalTarget(), Plan(), Workload("nosuch"), Preprocess(std=(9.0,), mean=(9.0,), values_from="given"))
    return compared(head, (part, Checked(part, shares, tuple(range(len(names))))), ways, feed, samples)


def test_a_network_that_is_proven_better_is_the_result(found: RetrainFound, samples: LabeledSamples) -> None:
    wrong = np.roll(samples.targets, 1, axis=1).astype(np.float64)
    best = result(found, samples, wrong)
    assert best.name == FINE_TUNED
    assert (best.model.path, best.model.sha256) == (str(RESULT), found.model.sha256)
    assert best.accuracy.test > 0.7
    assert (best.accuracy.validation, best.accuracy.train) == (0.9, None)
    assert [way.name for way in best.ways] == [HEAD, FINE_TUNED, QAT]
    assert [way.path for way in best.ways] == [str(way_path(RESULT, HEAD)), str(RESULT), ""]
    assert [way.seconds for way in best.ways] == [2.0, 5.0, 0.0]
    assert best.seconds == 7.0
    assert best.ways[2].failure == "No memory was left."
    assert best.curve == ()


def test_a_head_that_is_as_good_stays_the_result(found: RetrainFound, samples: LabeledSamples) -> None:
    right = samples.targets.astype(np.float64)
    best = result(found, samples, right)
    assert best.name == HEAD
    assert best.accuracy == found.accuracy
    assert [way.path for way in best.ways] == [str(RESULT), str(way_path(RESULT, FINE_TUNED)), ""]
