"""The last layer of a variant fitted again: from labels of the choosing part, judged on samples it has not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hasten
from hasten.api import Data, Effort, SearchSettings, quantize
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.remark import Remark
from hasten.core.trial import CHOOSING, Purpose, Status, Trial
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_graph
from hasten.retraining.softmax import CrossValidation, Head, Samples
from hasten.search.refitting import refit, to_refit
from hasten.search.variant_store import VariantRequest
from tests.unit.retraining.heads import CLASSES, dense, samples_of
from tests.unit.search.searching import begun


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained classifier, and samples that it has not learned from."""
    folder = tmp_path_factory.mktemp("refit")
    (folder / "m.tflite").write_bytes(dense())
    for name, count, seed in (("train", 90, 0), ("data", 150, 1)):
        images, numbers = samples_of(count, seed)
        np.savez(folder / f"{name}.npz", x=images, y=np.array(numbers), classes=np.array(CLASSES))
    hasten.retrain(folder / "m.tflite", folder / "model.tflite", data=Data(str(folder / "train.npz")))
    return folder


def settings(**given: object) -> SearchSettings:
    return SearchSettings(recipes=("static_int8",), mix=False, max_drop=0.5, refit_head=True, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_variant_with_a_new_head_is_tried_timed_and_reported(place: Path, tmp_path: Path) -> None:
    data = Data(str(place / "data.npz"))
    found = quantize(place / "model.tflite", tmp_path / "out", data=data, settings=settings(), effort=Effort(0.3))
    trials = {trial.variant: trial for trial in found.trials}
    made, parent = trials["static_int8+head"], trials["static_int8"]
    assert made.purpose is Purpose.HEAD
    assert made.parent == "static_int8"
    assert made.latency is not None
    assert made.reporting is not None
    assert parent.reporting is not None
    assert made.reporting.value >= parent.reporting.value - 0.1
    assert [note.code for note in made.notes][-1] == "quantize.refitted"
    graph = read_graph(made.path)
    assert graph.number_format().computed == "int8"
    again = quantize(place / "model.tflite", tmp_path / "out", data=data, settings=settings(), effort=Effort(0.3))
    assert {trial.variant: trial.sha256 for trial in again.trials}["static_int8+head"] == made.sha256


@pytest.mark.slow
def test_without_classes_it_says_why_it_was_not_done(place: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "unlabeled.npz", x=samples_of(40, 3)[0])
    data = Data(str(tmp_path / "unlabeled.npz"))
    found = quantize(place / "model.tflite", tmp_path / "out", data=data, settings=settings(), effort=Effort(0.2))
    assert "quantize.refit-needs-classes" in {note.code for note in found.notes}
    assert "static_int8+head" not in {trial.variant for trial in found.trials}


@pytest.mark.slow
def test_logits_stay_logits(place: Path, tmp_path: Path) -> None:
    """A new head ends in a softmax: where the output is no softmax's, callers would read something else."""
    model = EditedModel.read(place / "model.tflite")
    softmax = next(op for op in model.main.operators if model.main.op(op) == "SOFTMAX")
    assert model.main.take_out(softmax, softmax.inputs[0])
    model.clean()
    model.write(tmp_path / "logits.tflite")
    data = Data(str(place / "data.npz"))
    found = quantize(tmp_path / "logits.tflite", tmp_path / "out", data=data, settings=settings(), effort=Effort(0.2))
    assert "quantize.refit-needs-softmax" in {note.code for note in found.notes}


def test_a_shifted_head_is_mended(place: Path, tmp_path: Path) -> None:
    """Labels are worth something: a variant whose last bias is wrong is right again."""
    search = begun(place / "model.tflite", tmp_path / "out", Data(str(place / "data.npz")), settings())
    try:
        search._prepare()
        made = search.attempt(VariantRequest("static_int8"))
        model = EditedModel.read(Path(made.path))
        head = next(op for op in reversed(model.main.operators) if model.main.op(op) == "FULLY_CONNECTED")
        bias = model.main.tensor(head.inputs[2])
        values = np.frombuffer(bytes(model.record.buffers[bias.buffer].data), np.int32).copy()
        values[0] += 2_000
        model.record.buffers[bias.buffer].data = values.view(np.uint8)
        model.write(Path(made.path))
        found = refit(search.store, made)
        assert not isinstance(found, Remark), found
        assert found.floor is not FloorState.FAILED
        assert found.choosing is not None
        assert found.choosing.value > 0.8
        assert found.choosing.samples == len(search.store.judge.original(CHOOSING).positions)
    finally:
        search.store.close()


def test_a_layer_that_is_worse_on_unseen_samples_is_not_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def useless(samples: Samples, folds: object) -> tuple[Head, CrossValidation]:
        shape = samples.targets.shape[1], samples.features.shape[1]
        return Head(np.zeros(shape), np.zeros(shape[0])), CrossValidation(
            (1.0,), (9.0,), 1.0, np.zeros(samples.targets.shape)
        )

    monkeypatch.setattr("hasten.search.refitting.fit_by_cross_validation", useless)
    search = begun(place / "model.tflite", tmp_path / "out", Data(str(place / "data.npz")), settings())
    try:
        search._prepare()
        found = refit(search.store, search.attempt(VariantRequest("static_int8")))
        assert isinstance(found, Remark), found
        assert found.code == "quantize.refit-worse"
        assert found.facts["right"] < found.facts["before"]
        assert not list((tmp_path / "out").rglob("*head*"))
    finally:
        search.store.close()


def test_what_is_refitted_is_the_choice_or_the_most_promising() -> None:
    original = Trial("original", status=Status.KEPT, floor=FloorState.KEPT, path="o.tflite")
    pruned = Trial("pruned", purpose=Purpose.PRUNING, path="p.tflite")
    assert to_refit([original], Goal.LATENCY) is None
    assert to_refit([original, pruned], Goal.LATENCY) is None
