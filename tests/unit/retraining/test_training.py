"""Training with Keras, as far as it is decided here: names, phases, early ends, what is kept and gone on from.

The program that trains is a stand-in of a real process; `make test-train` runs the real one.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.codec import from_data, to_data
from hasten.core.errors import DataError, UsageError
from hasten.data.dataset import Dataset, Sample
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.retraining import training, ways
from hasten.retraining.backbones import EXAMPLES, backbone_named
from hasten.retraining.facts import FINE_TUNED, QAT, Way
from hasten.retraining.judging import paired
from hasten.retraining.labels import labeled
from hasten.retraining.options import TrainingOptions
from hasten.retraining.rules import recommended
from hasten.retraining.split import content_hashes
from hasten.retraining.training import ALL, FROZEN, Course, Phase, Trained, Trainer, phases_of
from hasten.targets.link import Program
from tests.unit.retraining.heads import dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.retraining.labels import LabeledSamples

ROOT = Path(__file__).parents[3]
BACKBONE = "mobilenet_v1_0.25_32"


# -- names


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_backbones_are_backbones(name: str) -> None:
    found = backbone_named(name)
    assert found.name == name
    assert f"size={found.size}x{found.size}" in found.preprocess


def test_a_name_tells_width_and_size() -> None:
    found = backbone_named("mobilenet_v2_0.35_96")
    assert (found.function, found.size, found.arguments) == ("MobileNetV2", 96, {"alpha": 0.35})
    assert found.learns_integers
    small = backbone_named("mobilenet_v3_small_minimalistic_1.0_224")
    assert small.arguments == {"alpha": 1.0, "minimalistic": True, "include_preprocessing": False}
    assert not small.learns_integers


@pytest.mark.parametrize("name", ["mobilenet", "mobilenet_v2_1.0_8", "resnet_50_224", "mobilenet_v1_1.0_224x", ""])
def test_other_names_are_refused_with_examples(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        backbone_named(name)
    assert caught.value.hint


# -- the course of a training


@given(st.lists(st.floats(0, 1), min_size=60, max_size=60))
def test_a_course_ends_knows_the_best_and_never_goes_back(accuracies: list[float]) -> None:
    course, seen, shares = Course((FROZEN, ALL)), [], [0.0]
    for accuracy in accuracies:
        phase = course.current
        if phase is None:
            break
        seen.append(accuracy)
        course = course.after(accuracy)
        shares.append(course.share)
        assert course.best == max(seen)
        assert course == from_data(Course, json.loads(json.dumps(to_data(course))))
    assert course.current is None
    assert course.epochs == len(seen) <= FROZEN.epochs + ALL.epochs
    assert shares == sorted(shares)


def test_a_phase_ends_when_it_stops_to_help() -> None:
    phase = Phase("all layers", False, 1e-4, 20, 2)
    course = Course((phase,)).after(0.5).after(0.6).after(0.55)
    assert course.current is phase
    assert course.after(0.6).current is None
    assert course.after(0.7).current is phase


def test_random_weights_have_nothing_to_freeze() -> None:
    assert [phase.frozen for phase in phases_of(TrainingOptions(BACKBONE))] == [True, False]
    (only,) = phases_of(TrainingOptions(BACKBONE, weights="none", epochs=3))
    assert (only.frozen, only.epochs) == (False, 3)
    assert phases_of(TrainingOptions(BACKBONE, epochs=7))[1].epochs == 7


# -- what is kept


def images(count: int = 28, bad: Sequence[int] = ()) -> LabeledSamples:
    random = np.random.default_rng(0)
    samples = []
    for at in range(count):
        pixels = random.integers(0, 256, (40, 40, 3), dtype=np.uint8)
        samples.append(Sample(f"s{at}", (np.ones(5) if at in bad else pixels,), at % 2))
    return replace(labeled(Dataset("noise", samples, True)), hashes=content_hashes(samples))


@pytest.fixture
def no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in in place of the program that trains."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    code = f"{start}; from tests.unit.retraining.fake_training import main; main()"
    monkeypatch.setattr(training, "_program", lambda integers: Program((sys.executable, "-c", code), "training"))


def prepared(out: Path, script: list[float], known: LabeledSamples) -> Path:
    """The folder of a training, with what its program is to say."""
    folder = out.with_name(f"{out.stem}.training")
    trainer = Trainer(TrainingOptions(BACKBONE, epochs=4), folder, known)
    trainer.prepare(no_progress)
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "converted").write_bytes(dense())
    return folder


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked.jsonl").read_text().splitlines()]


def train(out: Path, known: LabeledSamples, *, qat: bool = False) -> list[Trained]:
    """All ways, whose files are there as long as they are needed."""
    request = TrainingOptions(BACKBONE, qat, epochs=4)
    with ways.trained(request, out, known, no_progress, skip_bad=False) as found:
        assert all(read_graph(way.path).metadata_names for way in found if not way.failure)
    return found


@pytest.mark.usefixtures("no_tensorflow")
def test_frozen_first_then_all_and_the_best_network_is_converted(tmp_path: Path) -> None:
    out, known = tmp_path / "new.tflite", images()
    folder = prepared(out, [0.5, 0.6, 0.6, 0.6, 0.6, 0.7, 0.8, 0.75, 0.7], known)
    trainer = Trainer(TrainingOptions(BACKBONE, epochs=4), folder, known)
    found = trainer.train(FINE_TUNED, no_progress)
    assert found.checked == 0.8
    assert found.epochs == 9
    epochs = [body for body in asked(folder) if body["request"] == "epoch"]
    assert [body["frozen"] for body in epochs] == [True] * 5 + [False] * 4
    assert epochs[0]["rate"] > epochs[-1]["rate"]
    with np.load(folder / "fine-tune_best.npz") as best:
        assert int(best["epoch"]) == 7
    assert [body["request"] for body in asked(folder)][-2:] == ["load", "convert"]


@pytest.mark.usefixtures("no_tensorflow")
def test_a_training_that_was_cut_goes_on_from_its_last_epoch(tmp_path: Path) -> None:
    out, known = tmp_path / "new.tflite", images()
    folder = prepared(out, [0.5, 0.6, -1, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7, 0.7], known)
    (way,) = train(out, known)
    assert way.failure
    assert len(asked(folder)) == 6  # begin, two epochs saved, and the one that ended it
    (way,) = train(out, known)
    assert not way.failure
    assert way.checked == 0.7
    assert not folder.exists()


@pytest.mark.usefixtures("no_tensorflow")
def test_for_integers_follows_and_its_trouble_costs_that_way_only(tmp_path: Path) -> None:
    out, known = tmp_path / "new.tflite", images()
    prepared(out, [0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6, -1], known)
    first, second = train(out, known, qat=True)
    assert (first.name, first.failure) == (FINE_TUNED, "")
    assert second.name == QAT
    assert second.failure
    assert (tmp_path / "new.training").exists()


def test_samples_are_written_once_and_bad_ones_left_out_where_asked(tmp_path: Path) -> None:
    known = images(bad=(3, 8))
    trainer = Trainer(TrainingOptions(BACKBONE), tmp_path / "t", known)
    with pytest.raises(DataError, match=r"s[38]"):
        trainer.prepare(no_progress)
    assert not (tmp_path / "t").exists()
    trainer = Trainer(TrainingOptions(BACKBONE), tmp_path / "u", known)
    trainer.prepare(no_progress, skip_bad=True)
    parts = {name: np.load(tmp_path / "u" / f"{name}_images.npy") for name in ("train", "check")}
    targets = {name: np.load(tmp_path / "u" / f"{name}_targets.npy") for name in ("train", "check")}
    assert sum(len(part) for part in parts.values()) == 26
    assert all(part.shape[1:] == (32, 32, 3) for part in parts.values())
    assert {name: len(part) for name, part in parts.items()} == {name: len(rows) for name, rows in targets.items()}
    changed = (tmp_path / "u" / "train_images.npy").stat().st_mtime_ns
    trainer.prepare(no_progress, skip_bad=True)
    assert (tmp_path / "u" / "train_images.npy").stat().st_mtime_ns == changed


def test_a_folder_that_is_no_trainings_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine.txt").write_text("mine")
    known = images()
    trainer = Trainer(TrainingOptions(BACKBONE), tmp_path / "t", known)
    with pytest.raises(UsageError, match="not of a training"):
        trainer.prepare(no_progress)
    assert (tmp_path / "t" / "mine.txt").read_text() == "mine"


def test_a_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_is_installed", lambda package: False)
    with pytest.raises(UsageError) as caught:
        ways.refuse_missing(TrainingOptions(BACKBONE))
    assert "hasten[train]" in caught.value.hint


def test_integers_need_a_backbone_that_can_learn_them() -> None:
    with pytest.raises(UsageError, match="cannot be trained for integers"):
        TrainingOptions("efficientnet_b0_224", qat=True)


# -- which way to take


def way(name: str, test: float, gained: int, lost: int, samples: int = 200) -> Way:
    first = np.zeros(samples, bool)
    first[:100] = True
    second = first.copy()
    second[:lost] = False
    second[100 : 100 + gained] = True
    change = None if name == "head" else paired(first, second, [str(at) for at in range(samples)])
    return Way(name, test, (test - 0.1, test + 0.1), 1.0, change=change)


def test_only_what_is_proven_better_takes_the_place_of_the_head() -> None:
    head = way("head", 0.5, 0, 0)
    assert recommended([head, way("fine-tune", 0.52, 6, 2)]).name == "head"
    assert recommended([head, way("fine-tune", 0.62, 26, 2)]).name == "fine-tune"
    assert recommended([head, way("fine-tune", 0.62, 26, 2), way("qat", 0.65, 32, 2)]).name == "qat"
    assert recommended([head, Way("fine-tune", 0.0, (0.0, 1.0), 1.0, failure="no memory")]).name == "head"
