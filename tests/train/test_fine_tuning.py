"""Training with the real Keras and TensorFlow, small and from random weights: `make test-train` runs this."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from tests.unit.retraining.heads import CLASSES, dense

import hasten
from hasten.core.errors import UsageError
from hasten.core.plan import Workload
from hasten.data.classes import packed_labels
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import Evaluation, EvaluationData
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import calibration_samples
from hasten.measure.opening import open_model
from hasten.measure.rounds import no_progress
from hasten.model.metadata import read_metadata
from hasten.model.reader import read_graph
from hasten.retraining.facts import FINE_TUNED
from hasten.retraining.labels import labeled
from hasten.retraining.options import RetrainOptions, TrainingOptions
from hasten.retraining.split import content_hashes
from hasten.retraining.training import Trainer
from hasten.targets.local import LocalTarget
from hasten.variants.make import make_variant

if TYPE_CHECKING:
    from hasten.retraining.facts import RetrainFound

# Not imported here: the program that trains does that, in a process of its own.
if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("training needs TensorFlow: make test-train", allow_module_level=True)

BACKBONE = "mobilenet_v1_0.25_32"
EPOCHS = 40
NETWORK = """
import sys
import keras
keras.utils.set_random_seed(0)
base = keras.applications.MobileNet(input_shape=(32, 32, 3), alpha=0.25, include_top=False, pooling="avg", weights=None)
"""
SAVING = f"{NETWORK}base.save_weights(sys.argv[1])"
PLAIN = f"""{NETWORK}
import numpy as np
given = np.load(sys.argv[1])
model = keras.Model(base.input, keras.layers.Dense(3, activation="softmax")(base.output))
model.compile(keras.optimizers.Adam(1e-3), "categorical_crossentropy")
model.fit(given["x"], given["y"], epochs={EPOCHS}, verbose=0)
print((model.predict(given["test_x"], verbose=0).argmax(axis=1) == given["test_y"].argmax(axis=1)).mean())
"""


def printed(code: str, *arguments: object) -> str:
    """What a program prints that has TensorFlow to itself."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for at in range(360):  # reddish, greenish and bluish noise: a small network learns that from nothing
        place = folder / CLASSES[at % len(CLASSES)]
        place.mkdir(exist_ok=True)
        pixels = random.normal(90, 15, (32, 32, 3))
        pixels[..., at % len(CLASSES)] += 90
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(place / f"{at}.png")
    return folder


@pytest.fixture(scope="module")
def found(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> RetrainFound:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "m.tflite").write_bytes(dense())
    chosen = RetrainOptions(training=TrainingOptions(BACKBONE, qat=True, weights="none", epochs=EPOCHS))
    data = hasten.Data(str(photos), preprocess="mean=127.5,std=127.5")
    return hasten.retrain(folder / "m.tflite", folder / "new.tflite", data=data, options=chosen)


@pytest.mark.timeout(1800)
def test_all_ways_are_judged_on_the_same_test_part(found: RetrainFound) -> None:
    names = [way.name for way in found.ways]
    assert names == ["head", "fine-tune", "qat"]
    assert not any(way.failure for way in found.ways), found.ways
    assert all(way.change is None or way.change.samples == found.accuracy.test_samples for way in found.ways)
    tuned = found.ways[1]
    assert tuned.test > 0.6


def test_files_of_all_ways_say_how_they_are_fed_and_what_they_tell(found: RetrainFound) -> None:
    for way in found.ways[1:]:
        graph = read_graph(way.path)
        metadata = read_metadata(graph)
        assert metadata is not None
        assert metadata.inputs[0].mean == (127.5,)
        assert packed_labels(graph) == CLASSES
    assert read_graph(found.ways[2].path).number_format().computed == "int8"


@pytest.mark.timeout(600)
def test_it_is_as_good_as_a_plain_script(found: RetrainFound, photos: Path, tmp_path: Path) -> None:
    test = open_dataset(found.held_out).samples
    assert not callable(test)
    kept = {path.resolve() for sample in test for path in sample.inputs if isinstance(path, Path)}
    files = sorted(photos.rglob("*.png"))
    x = np.stack([(np.asarray(Image.open(path), np.float32) - 127.5) / 127.5 for path in files])
    y = np.eye(len(CLASSES), dtype=np.float32)[[CLASSES.index(path.parent.name) for path in files]]
    is_test = np.array([path.resolve() in kept for path in files])
    assert is_test.sum() == found.accuracy.test_samples
    parts = {"x": x[~is_test], "y": y[~is_test], "test_x": x[is_test], "test_y": y[is_test]}
    np.savez(tmp_path / "given.npz", **parts)
    plain = float(printed(PLAIN, tmp_path / "given.npz").split()[-1])
    assert found.ways[1].test >= plain - 0.05


@pytest.mark.timeout(600)
def test_integers_cost_little_and_no_more_than_by_quantizing(found: RetrainFound, photos: Path, tmp_path: Path) -> None:
    tuned, integers = found.ways[1:]
    assert integers.test > tuned.test - 0.1
    given, data = read_graph(tuned.path), open_dataset(str(photos))
    samples, _ = calibration_samples(given, Workload(), data, Preprocess(), limit=50, skip_bad=False)
    make_variant(Path(tuned.path), "static_int8", tmp_path / "quantized.tflite", samples)
    candidate, _ = open_model(tmp_path / "quantized.tflite")
    evaluated = evaluate(LocalTarget(), candidate, EvaluationData(open_dataset(found.held_out)))
    assert isinstance(evaluated, Evaluation)
    assert integers.test >= evaluated.accuracy.value - 0.05


def prepared(photos: Path, folder: Path, options: TrainingOptions) -> Trainer:
    known = labeled(open_dataset(str(photos)))
    known = replace(known, hashes=content_hashes(known.samples))
    trainer = Trainer(options, folder, known)
    trainer.prepare(no_progress)
    return trainer


@pytest.mark.timeout(900)
def test_an_interrupted_training_goes_on(photos: Path, tmp_path: Path) -> None:
    trainer = prepared(photos, tmp_path / "t", TrainingOptions(BACKBONE, weights="none", epochs=3))

    def cut(share: float, text: str) -> None:
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train(FINE_TUNED, cut)
    assert json.loads((tmp_path / "t" / "fine-tune_state.json").read_text())["epochs"] == 1
    done = trainer.train(FINE_TUNED, no_progress)
    assert done.epochs == 3
    assert done.path.exists()


@pytest.mark.timeout(900)
def test_weights_of_a_file_are_where_it_begins(photos: Path, tmp_path: Path) -> None:
    printed(SAVING, tmp_path / "mine.weights.h5")
    done = prepared(
        photos, tmp_path / "t", TrainingOptions(BACKBONE, weights=str(tmp_path / "mine.weights.h5"), epochs=1)
    ).train(FINE_TUNED, no_progress)
    assert done.path.exists()
    assert done.epochs > 1  # those of the head alone, and one of all layers


@pytest.mark.timeout(600)
def test_weights_that_are_no_weights_are_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.weights.h5").write_bytes(b"nothing")
    trainer = prepared(
        photos, tmp_path / "t", TrainingOptions(BACKBONE, weights=str(tmp_path / "bad.weights.h5"), epochs=1)
    )
    with pytest.raises(UsageError, match="cannot be used as the weights"):
        trainer.train(FINE_TUNED, no_progress)
