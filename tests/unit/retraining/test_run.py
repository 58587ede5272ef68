"""A retraining from data to file, with real runners: right on samples it never saw, the same predictions as embeddings
and head, a split that is kept, and clear ends where it cannot go on."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import hasten
from hasten import api, demo
from hasten.core.accuracy import Change
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.session import Line
from hasten.data.classes import packed_labels
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import Evaluation, EvaluationData
from hasten.evaluate.run import evaluate
from hasten.measure.opening import open_model
from hasten.model.reader import read_graph
from hasten.retraining import words
from hasten.retraining.options import HeadOptions, RetrainOptions
from hasten.retraining.view import document, sections, session_lines
from hasten.targets.local import LocalTarget
from tests.model_builder import ModelBuilder
from tests.unit.retraining.heads import CLASSES, ENDINGS, INTEGERS, samples_of

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.retraining.facts import RetrainFound


def arrays(folder: Path, count: int = 90, name: str = "d.npz", seed: int = 0) -> Path:
    images, numbers = samples_of(count, seed)
    np.savez(folder / name, x=images, y=np.array(numbers), classes=np.array(CLASSES))
    return folder / name


def retrained(folder: Path, ending: str = "dense", data: Path | None = None, **asked: Any) -> RetrainFound:
    (folder / "m.tflite").write_bytes(ENDINGS[ending]())
    source = hasten.Data(str(data or arrays(folder)))
    return hasten.retrain(folder / "m.tflite", folder / "new.tflite", data=source, options=RetrainOptions(**asked))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> RetrainFound:
    return retrained(tmp_path_factory.mktemp("retrained"))


def test_the_new_model_is_right_on_what_it_never_saw(found: RetrainFound) -> None:
    assert found.accuracy.test > 0.8
    assert found.accuracy.test_samples == 18
    assert found.accuracy.train_samples == 72
    assert [row.name for row in found.classes] == list(CLASSES)
    majority = next(rival for rival in found.baselines if rival.name == "majority")
    assert majority.change.change is Change.BETTER


def test_the_file_predicts_what_embeddings_and_head_predict(found: RetrainFound) -> None:
    assert found.written.same == found.written.samples == 18
    assert found.written.right == found.accuracy.test_right
    graph = read_graph(found.model.path)
    assert packed_labels(graph) == CLASSES
    assert graph.sha256 == found.model.sha256


def test_every_command_takes_the_new_model(found: RetrainFound, tmp_path: Path) -> None:
    candidate, _ = open_model(found.model.path)
    dataset = open_dataset(str(arrays(tmp_path, 60, seed=5)))
    evaluated = evaluate(LocalTarget(), candidate, EvaluationData(dataset))
    assert isinstance(evaluated, Evaluation)
    assert evaluated.accuracy.metric == "top-1"
    assert evaluated.accuracy.value > 0.8


def test_the_split_is_recorded_and_comes_again(found: RetrainFound, tmp_path: Path) -> None:
    def tested(result: RetrainFound) -> list[str]:
        return [name.partition(" ")[0] for name in result.test_names]

    again = retrained(tmp_path)
    assert tested(again) == tested(found)
    assert again.accuracy == found.accuracy
    other = retrained(tmp_path, head=HeadOptions(seed=1), force=True)
    assert tested(other) != tested(found)


def test_the_session_keeps_it_and_the_page_shows_it(found: RetrainFound) -> None:
    (kind, label, data), _ = session_lines(found)
    (section,) = sections([Line(kind, label, "", data)])
    assert (section.name, section.title) == ("retraining", "Retraining")
    told = document(found)
    assert {"model", "accuracy", "classes", "seconds"} <= told.keys()
    assert {"train", "validation", "test", "interval"} <= told["accuracy"].keys()
    assert len(found.curve) >= 2
    assert len(found.worst) == 10


@pytest.mark.parametrize(
    "ending",
    [
        "uint8",
        "two_outputs",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (*sorted({*INTEGERS} - {"uint8"}), "convolution_before_pooling", "any_batch")
        ),
    ],
)
def test_other_endings_and_types_learn_as_well(ending: str, tmp_path: Path) -> None:
    found = retrained(tmp_path, ending)
    assert found.accuracy.test > 0.6
    assert found.written.share > 0.9
    assert abs(found.written.right - found.written.head_right) <= 1
    assert found.quantized == ("uint8" if ending == "uint8" else "int8" if ending in INTEGERS else "")


@pytest.mark.slow
def test_asked_for_int8_the_backbone_is_quantized_and_the_head_fitted_to_it(tmp_path: Path) -> None:
    found = retrained(tmp_path, to="int8")
    assert read_graph(found.model.path).number_format().computed == "int8"
    assert found.float_accuracy is not None
    assert found.accuracy.test > found.float_accuracy.test - 0.15
    assert found.written.share > 0.9
    assert packed_labels(read_graph(found.model.path)) == CLASSES


def test_samples_of_several_classes_get_sigmoids(tmp_path: Path) -> None:
    images, numbers = samples_of(120)
    flags = np.zeros((120, 2), np.int64)
    flags[:, 0] = np.array(numbers) != 0
    flags[:, 1] = np.array(numbers) != 1
    np.savez(tmp_path / "d.npz", x=images, y=flags)
    found = retrained(tmp_path, data=tmp_path / "d.npz")
    assert found.multi_label
    assert found.accuracy.metric == "exact match"
    assert found.accuracy.test > 0.7
    assert any(node.op == "LOGISTIC" for node in read_graph(found.model.path).main.nodes)
    assert found.written.same == found.written.samples


def photos(folder: Path, count: int = 20) -> Path:
    """Images of stripes in a folder for each class."""
    images, numbers = samples_of(count * len(CLASSES))
    for at, (image, number) in enumerate(zip(images, numbers, strict=True)):
        place = folder / CLASSES[number]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.clip(127.5 + 40 * image, 0, 255))).save(place / f"{at}.png")
    return folder


def test_photos_in_folders_and_the_list_of_the_test_part(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(ENDINGS["dense"]())
    data = hasten.Data(str(photos(tmp_path / "photos")), preprocess="mean=127.5,std=40")
    found = hasten.retrain(tmp_path / "m.tflite", tmp_path / "new.tflite", data=data)
    assert found.accuracy.test > 0.7
    # The new file knows how it was fed: the same figure comes without --preprocess.
    dataset = open_dataset(found.held_out)
    candidate, _ = open_model(found.model.path)
    evaluated = evaluate(LocalTarget(), candidate, EvaluationData(dataset))
    assert isinstance(evaluated, Evaluation)
    assert evaluated.accuracy.samples == found.accuracy.test_samples
    assert evaluated.accuracy.value == pytest.approx(found.written.right / found.written.samples)
    # And so does a retraining of it: its features are those of normalized images.
    again = hasten.retrain(found.model.path, tmp_path / "again.tflite", data=hasten.Data(data.source))
    assert "mean=127.5" in again.preprocess
    assert again.accuracy.test == found.accuracy.test


@pytest.mark.slow
def test_sounds_of_any_length_in_folders(tmp_path: Path) -> None:
    """Tones in noise, one frequency for each class, on random features of their waves."""
    random, rate = np.random.default_rng(0), 8_000
    for at in range(60):
        place = tmp_path / "sounds" / CLASSES[at % 3]
        place.mkdir(parents=True, exist_ok=True)
        times = np.arange(300 + at) / rate
        tone = np.sin(2 * np.pi * (300 * (1 + at % 3)) * times) + 0.3 * random.standard_normal(len(times))
        with wave.open(str(place / f"{at}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((8_000 * tone).astype("<i2").tobytes())
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.fully_connected(g.input("x", (1, 320)), 64, activation="relu"), 5)), "y")
    (tmp_path / "m.tflite").write_bytes(g.build())
    data = hasten.Data(str(tmp_path / "sounds"), preprocess="length=fit")
    found = hasten.retrain(tmp_path / "m.tflite", tmp_path / "new.tflite", data=data)
    assert found.accuracy.test > 0.8
    assert found.held_out.endswith(".test.csv")


@pytest.mark.slow
def test_a_test_set_of_its_own_is_not_learned_from(tmp_path: Path) -> None:
    other = arrays(tmp_path, 30, "test.npz", seed=7)
    found = retrained(tmp_path, test_data=str(other))
    assert (found.accuracy.train_samples, found.accuracy.test_samples) == (90, 30)
    with np.load(tmp_path / "d.npz") as every:
        np.savez(tmp_path / "some.npz", **{name: every[name][:30] for name in every.files})
    some = retrained(tmp_path, test_data=str(tmp_path / "some.npz"), force=True)
    assert (some.accuracy.train_samples, some.accuracy.test_samples) == (60, 30)
    assert words.SHARED in {note.code for note in some.notes}
    with pytest.raises(DataError, match="none is left to learn from"):
        retrained(tmp_path, test_data=str(tmp_path / "d.npz"), force=True)


@pytest.mark.slow
def test_uneven_classes_are_told(tmp_path: Path) -> None:
    images, numbers = samples_of(90)
    rows = [at for at, number in enumerate(numbers) if number != 2 or at % 9 == 2]
    np.savez(tmp_path / "d.npz", x=images[rows], y=np.array(numbers)[rows])
    found = retrained(tmp_path, data=tmp_path / "d.npz")
    assert found.balanced
    assert words.UNEVEN in {note.code for note in found.notes}
    plain = retrained(tmp_path, data=tmp_path / "d.npz", head=HeadOptions(weighting="none"), force=True)
    assert not plain.balanced


def test_nothing_that_is_there_is_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "new.tflite").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        retrained(tmp_path)
    assert (tmp_path / "new.tflite").read_text() == "mine"
    (tmp_path / "m.tflite").write_bytes(ENDINGS["dense"]())
    with pytest.raises(UsageError, match="the model itself"):
        hasten.retrain(
            tmp_path / "m.tflite",
            tmp_path / "m.tflite",
            data=hasten.Data(str(arrays(tmp_path))),
            options=RetrainOptions(force=True),
        )


def test_what_cannot_be_done_ends_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No data"):
        hasten.retrain(demo.MODEL, tmp_path / "new.tflite")
    with pytest.raises(UsageError, match="float12"):
        RetrainOptions(to="float12")
    with pytest.raises(UsageError, match="often"):
        RetrainOptions(head=HeadOptions(weighting="often"))
    with pytest.raises(UsageError):
        RetrainOptions(test_share=1.5)
    with pytest.raises(UsageError, match="quantized already"):
        retrained(tmp_path, "int8", to="int8")
    np.savez(tmp_path / "d.npz", x=samples_of(6)[0])
    with pytest.raises(DataError, match="no labels"):
        retrained(tmp_path, data=tmp_path / "d.npz")
    (tmp_path / "map.tflite").write_bytes(ENDINGS["two_outputs"]())
    with pytest.raises(ModelError, match=r"\(node "):
        hasten.retrain(
            tmp_path / "map.tflite",
            tmp_path / "new.tflite",
            data=hasten.Data(str(arrays(tmp_path, name="e.npz"))),
            options=RetrainOptions(head=HeadOptions(output="map")),
        )
    assert not (tmp_path / "new.tflite").exists()


def test_the_blocks_of_a_real_result_can_be_shown(found: RetrainFound) -> None:
    assert api.blocks(found)
    assert "new head" in api.markdown(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "same", "least"),
    [
        ("01_mobilenet_v1_025_imagenet/model_float", 1.0, 0.55),
        ("01_mobilenet_v1_025_imagenet/model_qat_uint8", 0.985, 0.5),
        ("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq", 0.985, 0.6),
    ],
)
def test_cifar_classes_on_backbones_of_imagenet(
    cases: Path, tmp_path: Path, model: str, same: float, least: float
) -> None:
    data = cases / "03_resnet8_cifar10" / "images"
    source = hasten.Data(str(data), preprocess="" if "uint8" in model else "mean=127.5,std=127.5")
    found = hasten.retrain(cases / f"{model}.tflite", tmp_path / "new.tflite", data=source)
    near = next(rival for rival in found.baselines if rival.name == "neighbors")
    assert found.accuracy.test > max(least, near.test)
    assert found.written.share >= same
    assert abs(found.written.right - found.written.head_right) <= 0.005 * found.written.samples + 1
