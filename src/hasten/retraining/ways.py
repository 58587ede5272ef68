"""Ways to retrain beside a new head: all weights by Keras, and for integers; each judged on the same test part."""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import HastenError, UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Workload
from hasten.data.preprocess import Preprocess, preprocess_from_text
from hasten.evaluate.intervals import wilson_interval
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.retraining.facts import FINE_TUNED, HEAD, QAT, RetrainFound, Way
from hasten.retraining.fitting import Checked, Feed, check_file, part_of
from hasten.retraining.head_file import with_labels
from hasten.retraining.judging import Part, class_rows, confusions, paired, rivals, scores_on, worst_tested
from hasten.retraining.keras_program import INSTALL
from hasten.retraining.rules import recommended
from hasten.retraining.training import Trained, Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hasten.measure.rounds import Progress
    from hasten.retraining.labels import LabeledSamples
    from hasten.retraining.options import TrainingOptions

_FOLDER: Final = "{stem}.training"


def way_path(out: Path, name: str) -> Path:
    """Where the file of a way lies that is not the result."""
    return out.with_name(f"{out.stem}.{name}.tflite")


@contextlib.contextmanager
def trained(
    options: TrainingOptions, out: Path, samples: LabeledSamples, progress: Progress, *, skip_bad: bool
) -> Iterator[list[Trained]]:
    """Train, for as long as the files are needed. What the user can mend is raised; other trouble costs one way.

    Everything is kept beside the result until the end, so that the same command goes on after an interruption.
    """
    folder = out.with_name(_FOLDER.format(stem=out.stem))
    trainer = Trainer(options, folder, samples)
    trainer.prepare(part_of(progress, 0.0, 0.05), skip_bad=skip_bad)
    names = (FINE_TUNED, QAT) if options.qat else (FINE_TUNED,)
    ends = (0.05, 0.75, 1.0) if options.qat else (0.05, 1.0)
    found: list[Trained] = []
    for place, name in enumerate(names):
        found.append(_made(trainer, name, samples.classes, part_of(progress, ends[place], ends[place + 1])))
        if found[-1].failure:
            break  # integers are learned from the network that all layers have learned
    yield found
    if not any(way.failure for way in found):
        trainer.close()


def _made(trainer: Trainer, name: str, classes: Sequence[str], progress: Progress) -> Trained:
    """A trained network as a file that says how it is fed and what it tells."""
    try:
        made = trainer.train(name, progress)
        graph = read_graph(made.path)
        fed = {graph.inputs[0].name: preprocess_from_text(trainer.backbone.preprocess)}
        made.path.write_bytes(with_labels(graph, classes, fed))
    except UsageError:
        raise
    except HastenError as error:
        return Trained(name, failure=error.message)
    return made


def refuse_missing(options: TrainingOptions) -> None:
    """Say before long work which package is missing for it."""
    needed = ["tensorflow", "keras", *(("tf_keras", "tensorflow_model_optimization") if options.qat else ())]
    missing = [name for name in needed if not _is_installed(name)]
    if missing:
        raise UsageError(f"Training needs the package {missing[0]}, which is not installed.", f"Install it: {INSTALL}")


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def compared(
    found: RetrainFound, head: tuple[Part, Checked], ways: Sequence[Trained], feed: Feed, test: LabeledSamples
) -> RetrainFound:
    """The result with all ways, each with the place of its file; the one that is proven better than the head alone is
    the result. `head` are the samples that it learned from, and what its file makes of the test part."""
    out, own, (train, checked) = Path(found.model.path), found.accuracy, head
    # The files say themselves how they are fed, and have one signature.
    plain = replace(feed, preprocess=Preprocess(), workload=Workload())
    answers = {way.name: _answers(way, plain, checked, test) for way in ways}
    judged = [Way(HEAD, own.test, own.interval, found.seconds)]
    judged += [_judged(way, checked, answers[way.name]) for way in ways]
    best = recommended(judged)
    places = {way.name: "" if way.failure else str(out if way is best else way_path(out, way.name)) for way in judged}
    found = replace(
        found,
        ways=tuple(replace(way, path=places[way.name]) for way in judged),
        seconds=found.seconds + sum(way.seconds for way in ways),
    )
    chosen, answered = next((way for way in ways if way.name == best.name), None), answers.get(best.name)
    return found if chosen is None or not isinstance(answered, Checked) else _in_place(found, chosen, answered, train)


def _answers(way: Trained, feed: Feed, head: Checked, test: LabeledSamples) -> Checked | str:
    """What the file of a way makes of the samples that the head was tested on; or why that is not known."""
    if way.failure:
        return way.failure
    try:
        return check_file(way.path, "", feed, test.dataset, head.test, head.positions, no_progress)
    except (HastenError, RunnerFailed) as error:
        return str(error)


def _judged(way: Trained, head: Checked, answers: Checked | str) -> Way:
    if isinstance(answers, str):
        return Way(way.name, 0.0, (0.0, 1.0), way.seconds, failure=answers)
    rows = np.searchsorted(head.positions, answers.positions)
    change = paired(head.right[rows], answers.right, answers.test.names)
    interval = wilson_interval(int(answers.right.sum()), len(answers.right))
    return Way(way.name, interval.estimate, (interval.low, interval.high), way.seconds, change=change)


def _in_place(found: RetrainFound, best: Trained, checked: Checked, train: Part) -> RetrainFound:
    """The result with a trained network in place of the head alone."""
    graph, classes = read_graph(best.path), [row.name for row in found.classes]
    test, predicted = checked.test, checked.predicted
    return replace(
        found,
        model=Model(found.model.path, graph.size_bytes, graph.sha256),
        accuracy=scores_on(test, predicted, len(train.names), best.checked),
        classes=class_rows(train, test, predicted, classes),
        baselines=rivals(train, test, predicted),
        confusions=confusions(test, predicted, classes),
        worst=worst_tested(test, checked.shares, classes),
        curve=(),
        doubling=None,
    )
