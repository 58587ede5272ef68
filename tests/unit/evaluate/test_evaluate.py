"""Evaluation by real runners: the same answers as a plain loop, in any number of processes; bad data is named."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from evaluating import doubler, drawn, model_of, run, vectors
from PIL import Image
from tests import example_models
from tests.example_models import mobilenet_like
from tests.model_builder import ModelBuilder

from hasten import demo
from hasten.core import accuracy_notes as notes
from hasten.core.accuracy import Kind
from hasten.core.errors import DataError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.remark import remark
from hasten.data.dataset import Dataset, Sample
from hasten.data.metrics import Cosine, MeanAbsoluteError, TopK
from hasten.data.preprocess import Preprocess, preprocess_from_text
from hasten.data.sources import open_dataset, random_dataset
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions, compare_evaluations
from hasten.evaluate.floor import baseline_of
from hasten.evaluate.run import evaluate
from hasten.measure.opening import open_model
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.plan import Plan
    from hasten.targets.client import RunnerClient

CASE = Path(__file__).parents[4] / "shared" / "cases" / "03_resnet8_cifar10"


@pytest.fixture(scope="module")
def demo_evaluation() -> Evaluation:
    return run(open_model(demo.MODEL)[0], open_dataset(str(demo.DATA)), options=EvaluationOptions(samples=120))


# -- right answers


def test_predictions_are_those_of_a_plain_loop_in_any_number_of_runners(tmp_path: Path) -> None:
    candidate = model_of(tmp_path, mobilenet_like(4, 2, 16))
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", x=pixels)
    dataset = open_dataset(str(tmp_path / "d.npz"))
    interpreter = Interpreter(str(candidate.path))
    interpreter.allocate_tensors()
    expected = []
    for image in pixels:
        interpreter.set_tensor(
            interpreter.get_input_details()[0]["index"], (image[None] / 127.5 - 1).astype(np.float32)
        )
        interpreter.invoke()
        expected.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    words = preprocess_from_text("mean=127.5,std=127.5")
    for runners in (1, 3):
        found = run(candidate, dataset, words, Cosine(), options=EvaluationOptions(runners=runners))
        assert found.positions == tuple(range(40))
        for position, wanted in enumerate(expected):
            np.testing.assert_array_equal(np.asarray(found.references[position]), wanted)


def test_demo_reaches_its_accuracy(demo_evaluation: Evaluation) -> None:
    accuracy = demo_evaluation.accuracy
    assert (accuracy.metric, accuracy.kind, accuracy.samples) == ("top-1", Kind.ACCURACY, 120)
    assert accuracy.low < 0.9917 < accuracy.high
    assert remark(notes.GUESSED_FLOAT) in accuracy.notes
    data = json.loads(json.dumps(demo_evaluation.as_data()))
    assert data["preprocess"][0]["size"] == [96, 96]
    assert data["samples_per_second"] > 0


def test_folder_of_images_by_class_names(tmp_path: Path) -> None:
    # Class = which channel is brightest: the mean of each channel is the answer.
    g = ModelBuilder()
    g.output(g.mean(g.input("image", (1, 6, 6, 3))), "scores")
    candidate = model_of(tmp_path, g.build())
    for number, name in enumerate(("blue", "green", "red")):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for i in range(3):
            color = [10 * i] * 3
            color[2 - number] = 200
            Image.new("RGB", (9, 7), tuple(color)).save(folder / f"{i}.png")
    (tmp_path / "data" / "classes.txt").write_text("red\ngreen\nblue\n")
    found = run(candidate, open_dataset(str(tmp_path / "data")))
    assert found.accuracy.value == 1
    assert found.preprocess[0].describe() == "size=6x6,channels=rgb,layout=nhwc,resize=bilinear"
    (tmp_path / "data" / "classes.txt").unlink()
    assert run(candidate, open_dataset(str(tmp_path / "data"))).accuracy.value == pytest.approx(1 / 3)


def test_masks_beside_images(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.reshape(g.input("image", (1, 4, 4, 3)), (1, 4, 4, 3)), "scores")
    candidate = model_of(tmp_path, g.build())
    classes = np.random.default_rng(0).integers(0, 3, (4, 4))
    pixels = (np.eye(3)[classes] * 255).astype(np.uint8)
    for folder, values in (("images", pixels), ("masks", classes.repeat(2, 0).repeat(2, 1).astype(np.uint8))):
        (tmp_path / "d" / folder).mkdir(parents=True)
        Image.fromarray(values).save(tmp_path / "d" / folder / "a.png")
    found = run(candidate, open_dataset(str(tmp_path / "d")))
    assert (found.accuracy.metric, found.accuracy.value) == ("miou", 1)


def test_signatures_inputs_by_name_and_chosen_outputs(tmp_path: Path) -> None:
    candidate = model_of(tmp_path, example_models.two_signatures())
    candidate = replace(candidate, workload=replace(candidate.workload, signature="multiply"))
    a, b = np.full((3, 4), 2.0, np.float32), np.full((3, 4), 5.0, np.float32)
    np.savez(tmp_path / "d.npz", b=b, a=a, y=a + b)
    dataset = open_dataset(str(tmp_path / "d.npz"))
    options = EvaluationOptions(output="sum")
    assert run(candidate, dataset, Preprocess(), MeanAbsoluteError(), options=options).accuracy.value == 0
    assert run(candidate, dataset, Preprocess(), MeanAbsoluteError()).accuracy.value == pytest.approx(3)
    with pytest.raises(UsageError, match="no output 'total'"):
        evaluate(LocalTarget(), candidate, EvaluationData(dataset), options=EvaluationOptions(output="total"))


def test_state_is_cleared_before_each_sample(tmp_path: Path) -> None:
    candidate = model_of(tmp_path, example_models.accumulator())
    dataset = vectors(6, labels=[None] * 6)
    dataset = replace(dataset, labelled=False)
    found = run(candidate, dataset, Preprocess(), Cosine())
    assert isinstance(dataset.samples, list)
    for position, sample in enumerate(dataset.samples):
        np.testing.assert_array_equal(np.asarray(found.references[position])[0], sample.inputs[0])
    assert remark(notes.STATEFUL) in found.accuracy.notes


def test_label_offset_skips_a_background_class(tmp_path: Path) -> None:
    labels = [int(np.asarray(sample.inputs[0]).argmax()) - 1 for sample in drawn(vectors(30))]  # type: ignore[index]
    dataset = vectors(30, labels=labels)
    with pytest.raises(DataError, match="has the label -1"):
        run(doubler(tmp_path), dataset)
    assert run(doubler(tmp_path), dataset, options=EvaluationOptions(label_offset=1)).accuracy.value == 1


def test_ties_are_counted(tmp_path: Path) -> None:
    samples = [
        Sample(str(i), (np.array([1, 1, 0, 0], np.float32) if i % 4 == 0 else np.eye(4, dtype=np.float32)[i % 4],), 0)
        for i in range(20)
    ]
    found = run(doubler(tmp_path), Dataset("ties", samples, labelled=True))
    assert found.ties == 5
    assert found.accuracy.value == 0.25
    assert remark(notes.TIES, share=0.25) in found.accuracy.notes


# -- agreement and comparison


def test_without_labels_it_is_agreement_with_the_original(tmp_path: Path) -> None:
    dataset = vectors(20)
    first = run(doubler(tmp_path), dataset)
    assert (first.accuracy.kind, first.accuracy.value) == (Kind.AGREEMENT, 1)
    # The note stands beside all that is compared, not only beside the original.
    assert remark(notes.NO_LABELS) in first.accuracy.notes
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.mul(x, g.constant(np.array([[1, 1, 1, -1]], np.float32))), "y")
    second = run(model_of(tmp_path, g.build()), dataset, against=first)
    assert second.accuracy.kind is Kind.AGREEMENT
    values = [np.asarray(sample.inputs[0]) for sample in drawn(dataset)]  # type: ignore[index]
    wanted = np.mean([v.argmax() == (v * [1, 1, 1, -1]).argmax() for v in values])
    assert second.accuracy.value == pytest.approx(wanted)
    paired = compare_evaluations(first, second)
    assert (paired.samples, paired.won, paired.lost) == (20, 0, round(20 * (1 - wanted)))


def test_random_inputs_say_that_accuracy_is_unknown(tmp_path: Path) -> None:
    candidate, graph = open_model(doubler(tmp_path).path)
    dataset = random_dataset(forms_from_graph(graph, candidate.workload).inputs, 8)
    first = run(candidate, dataset, Preprocess(), Cosine())
    second = run(candidate, dataset, against=first)
    assert (second.accuracy.kind, second.accuracy.value) == (Kind.UNKNOWN, 1)
    assert remark(notes.RANDOM_INPUTS) in second.accuracy.notes


def test_only_what_was_evaluated_by_both_is_compared(tmp_path: Path, demo_evaluation: Evaluation) -> None:
    labels = [0] * 12
    first = run(doubler(tmp_path), vectors(12, labels=labels))
    second = run(doubler(tmp_path), vectors(12, labels=labels), options=EvaluationOptions(samples=5))
    assert compare_evaluations(first, second).samples == 5
    with pytest.raises(DataError, match="cannot be compared"):
        compare_evaluations(first, replace(second, metric=Cosine()))
    with pytest.raises(DataError, match="no sample in common"):
        compare_evaluations(first, replace(second, positions=(90, 91, 92, 93, 94)))


def test_a_floor_ends_it_early(tmp_path: Path) -> None:
    dataset = vectors(400, labels=[0] * 400)
    right = [int(np.asarray(sample.inputs[0]).argmax()) for sample in drawn(dataset)]  # type: ignore[index]
    dataset = vectors(400, labels=right)
    original = run(doubler(tmp_path), dataset)
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.mul(x, g.constant(np.full((1, 4), -1, np.float32))), "y")
    found = run(model_of(tmp_path, g.build()), dataset, against=baseline_of(original, 0.02))
    assert found.decision is not None
    assert found.decision.state is FloorState.BROKEN
    assert found.accuracy.samples == found.decision.samples < 200
    assert found.decision.ci95[0] > 0.02
    same = run(doubler(tmp_path), dataset, against=baseline_of(original, 0.02))
    assert same.decision is not None
    assert same.decision.state is FloorState.KEPT


def test_a_floor_of_errors_takes_all_samples(tmp_path: Path) -> None:
    dataset = vectors(10, labels=[np.zeros(4, np.float32)] * 10)
    original = run(doubler(tmp_path), dataset, Preprocess(), MeanAbsoluteError())
    found = run(doubler(tmp_path), dataset, Preprocess(), MeanAbsoluteError(), against=baseline_of(original, 0.0))
    assert found.decision is not None
    assert (found.decision.state, found.decision.samples) == (FloorState.KEPT, 10)


def test_samples_that_say_little_leave_a_floor_undecided(tmp_path: Path) -> None:
    dataset = vectors(60, labels=[0] * 60)
    original = run(doubler(tmp_path), dataset)
    same = run(doubler(tmp_path), dataset, against=baseline_of(original, 0.01)).decision
    assert same is not None
    assert (same.state, same.drop, same.samples) == (FloorState.UNDECIDED, 0.0, 60)
    assert same.ci95[1] > 0.01
    assert same.samples_needed == 390


# -- bad data


def test_bad_samples_end_it_or_are_listed(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.mean(g.input("image", (1, 6, 6, 3))), "scores")
    candidate = model_of(tmp_path, g.build())
    lines = ["file,label"]
    for i in range(10):
        Image.new("RGB", (6, 6), (255, 0, 0)).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png,{7 if i == 4 else 0}")
    (tmp_path / "2.png").write_text("no image")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    dataset = open_dataset(str(tmp_path / "labels.csv"))
    with pytest.raises(DataError, match=r"[24]\.png"):
        run(candidate, dataset)
    found = run(candidate, dataset, options=EvaluationOptions(skip_bad=True))
    assert sorted(entry.name for entry in found.skipped) == ["2.png", "4.png"]
    assert (found.accuracy.samples, found.accuracy.value) == (8, 1)
    assert remark(notes.SKIPPED, samples=2) in found.accuracy.notes


def test_nan_is_told_with_its_sample(tmp_path: Path) -> None:
    dataset = vectors(8, labels=[0] * 8)
    of_model, of_sample = "answered v5 with infinity", "v5 has NaN in input 'x'"
    for value, told in ((np.inf, of_model), (np.nan, of_sample)):
        np.asarray(drawn(dataset)[5].inputs[0])[1] = value  # type: ignore[index]
        with pytest.raises(DataError, match=told):
            run(doubler(tmp_path), dataset)
        skipped = run(doubler(tmp_path), dataset, options=EvaluationOptions(skip_bad=True)).skipped
        assert [(entry.name, entry.by_model) for entry in skipped] == [("v5", told == of_model)]


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="None of the 3 samples"):
        run(doubler(tmp_path), vectors(3, size=5, labels=[0] * 3), options=EvaluationOptions(skip_bad=True))
    with pytest.raises(DataError, match="holds no samples"):
        run(doubler(tmp_path), vectors(0))
    with pytest.raises(UsageError, match="at least 1 sample"):
        EvaluationOptions(samples=0)
    samples = [*drawn(vectors(2, labels=[0, 0])), *drawn(vectors(1))]
    with pytest.raises(DataError, match="has no label"):
        run(doubler(tmp_path), Dataset("mixed", samples, labelled=True), metric=TopK(1))


@pytest.mark.parametrize("labels", [[0] * 8, None], ids=["labels", "agreement"])
@pytest.mark.parametrize("k", [4, 5])
def test_a_metric_that_is_always_right_is_refused(tmp_path: Path, k: int, labels: list[int] | None) -> None:
    with pytest.raises(UsageError, match=f"top-{k} of 4 classes is always right") as caught:
        run(doubler(tmp_path), vectors(8, labels=labels), metric=TopK(k))
    assert "--metric" in caught.value.hint
    assert run(doubler(tmp_path), vectors(8, labels=labels), metric=TopK(3)).accuracy.metric == "top-3"


def test_wrong_number_of_classes_is_told_before_the_work(tmp_path: Path) -> None:
    dataset = replace(vectors(4, labels=["a", "b", "a", "b"]), classes=("a", "b"), classes_from="names")
    with pytest.raises(DataError, match=r"2 classes \(names\), but the model has 4 outputs"):
        run(doubler(tmp_path), dataset)


# -- trouble with runners


class Fragile(LocalTarget):
    """A local target whose runners die at chosen requests."""

    def __init__(self, deaths: int, seen: Callable[[Sequence[Any]], bool] = lambda batch: True) -> None:
        super().__init__()
        self._deaths, self._seen, self._lock = deaths, seen, threading.Lock()
        self.started = 0

    def start(self, plan: Plan) -> RunnerClient:
        with self._lock:
            self.started += 1
        runner = super().start(plan)
        really = runner.evaluate_many

        def evaluate_many(samples: Sequence[Any], *, fresh: bool = False) -> Any:
            with self._lock:
                dies = self._deaths > 0 and self._seen(samples)
                self._deaths -= dies
            if dies:
                raise RunnerFailed(Failure("evaluate", "crash", "The runner died."))
            return really(samples, fresh=fresh)

        runner.evaluate_many = evaluate_many  # type: ignore[method-assign]
        return runner


def test_a_runner_that_dies_once_costs_a_retry(tmp_path: Path) -> None:
    target = Fragile(deaths=1)
    dataset = vectors(40)
    found = evaluate(target, doubler(tmp_path), EvaluationData(dataset), options=EvaluationOptions(runners=2))
    assert isinstance(found, Evaluation)
    assert (found.retries, found.accuracy.samples, target.started) == (1, 40, 3)
    plain = run(doubler(tmp_path), dataset)
    np.testing.assert_array_equal(found.statistics, plain.statistics)
    assert remark(notes.RUNNER_REPLACED, times=1) in found.accuracy.notes


def test_a_second_death_is_a_failure_that_names_the_sample(tmp_path: Path) -> None:
    dataset = vectors(10)
    poison = np.asarray(drawn(dataset)[3].inputs[0]).tobytes()  # type: ignore[index]
    target = Fragile(99, lambda batch: any(bytes(inputs[0]) == poison for inputs in batch))
    found = evaluate(target, doubler(tmp_path), EvaluationData(dataset))
    assert isinstance(found, Failure)
    assert (found.kind, found.message) == ("crash", "v3 failed twice: The runner died.")


def test_a_sample_on_which_the_engine_fails_can_be_left_out(tmp_path: Path) -> None:
    dataset = vectors(10)
    poison = np.asarray(drawn(dataset)[3].inputs[0]).tobytes()  # type: ignore[index]
    target = Fragile(99, lambda batch: any(bytes(inputs[0]) == poison for inputs in batch))
    found = evaluate(target, doubler(tmp_path), EvaluationData(dataset), options=EvaluationOptions(skip_bad=True))
    assert isinstance(found, Evaluation)
    assert found.accuracy.samples == 9
    assert [(entry.name, entry.reason) for entry in found.skipped] == [("v3", "v3 failed twice: The runner died.")]


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_model_that_kills_its_runner_is_a_failure(tmp_path: Path, skip_bad: bool) -> None:
    dataset = Dataset("d", [Sample(f"s{n}", (np.zeros(4, np.int8),)) for n in range(100)], labelled=False)
    options = EvaluationOptions(skip_bad=skip_bad)
    found = evaluate(
        LocalTarget(), model_of(tmp_path, example_models.aborting()), EvaluationData(dataset), options=options
    )
    assert isinstance(found, Failure)
    assert found.kind == "crash"


def test_progress_ends_at_all_samples(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    run(doubler(tmp_path), vectors(30), progress=lambda share, text: told.append((share, text)))
    assert told[-1][0] == 1
    assert told[-1][1].startswith("30 of 30 samples, ")
    assert [share for share, _ in told] == sorted(share for share, _ in told)


@pytest.mark.skipif(not CASE.is_dir(), reason=f"the real models and data are not beside the project ({CASE})")
def test_a_real_model_has_its_known_accuracy() -> None:
    found = run(open_model(CASE / "model_int8.tflite")[0], open_dataset(str(CASE / "images")))
    assert found.accuracy.value == pytest.approx(0.7615, abs=0.001)
