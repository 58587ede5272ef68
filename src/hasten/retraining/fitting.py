"""A head fitted to one model: features of all samples by real runners, the fit, and the file, checked by running it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import DataError
from hasten.core.failure import Failure, RunnerFailed
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.answers import Answers, answers_on
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
from hasten.measure.opening import open_model
from hasten.model.reader import read_graph
from hasten.retraining.ending import find_ending
from hasten.retraining.facts import Written
from hasten.retraining.head_file import NewHead, backbone_bytes, model_with_head, telling_range
from hasten.retraining.judging import Part, balanced_counts, class_counts, head_predictions, predicted_classes
from hasten.retraining.options import AUTO, BALANCED
from hasten.retraining.softmax import Samples, fit_by_cross_validation
from hasten.retraining.split import folds_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.core.plan import Plan, Workload
    from hasten.data.dataset import Dataset
    from hasten.data.preprocess import Preprocess
    from hasten.measure.rounds import Progress
    from hasten.model.graph import Graph
    from hasten.retraining.ending import Ending
    from hasten.retraining.labels import LabeledSamples
    from hasten.retraining.options import HeadOptions
    from hasten.retraining.softmax import CrossValidation, Head
    from hasten.targets.base import Target


@dataclass(frozen=True, slots=True)
class Feed:
    """How samples reach a model: where it runs, on which plan, and how they are prepared."""

    target: Target
    plan: Plan
    workload: Workload
    preprocess: Preprocess
    skip_bad: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """Samples as a model's features."""

    part: Part
    hashes: tuple[str, ...]
    answers: Answers
    preprocess: dict[str, Preprocess]
    """How each input was made, by the name of its tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A head that was fitted to a model, with the samples that it was fitted to."""

    graph: Graph
    ending: Ending
    new: NewHead
    known: CrossValidation
    train: Embedded
    balanced: bool
    fit_seconds: float

    def file(self) -> bytes:
        """The model with the head."""
        return model_with_head(self.graph, self.ending, self.new, self.train.preprocess)


def embed(
    path: Path, graph: Graph, ending: Ending, feed: Feed, samples: LabeledSamples, progress: Progress
) -> Embedded:
    """The features of samples, each with its hash; `path` is a place for the model that gives them out."""
    path.write_bytes(backbone_bytes(graph, ending))
    answers = answers_of(path, feed, samples.dataset, progress)
    if answers.rows.shape[1] != ending.count:
        raise DataError(
            f"{graph.path.name} gives {answers.rows.shape[1]} features, where {ending.count} were expected.",
            "Fix the size of its inputs: --shape INPUT=1x224x224x3.",
        )
    used = samples.with_rows(answers.positions)
    part = Part(answers.rows, used.targets, answers.names, used.multi_label)
    names = [form.tensor_name for form in forms_from_graph(graph, feed.workload).inputs]
    return Embedded(part, used.hashes, answers, dict(zip(names, answers.preprocess, strict=True)))


def answers_of(path: Path, feed: Feed, dataset: Dataset, progress: Progress, output: int = 0) -> Answers:
    """One output of a model on all samples; a failure of the runners is raised as RunnerFailed."""
    candidate, graph = open_model(path, feed.plan, feed.workload)
    found = answers_on(
        feed.target,
        candidate,
        graph,
        EvaluationData(dataset, feed.preprocess),
        output=output,
        options=EvaluationOptions(skip_bad=feed.skip_bad),
        progress=progress,
    )
    if isinstance(found, Failure):
        raise RunnerFailed(found)
    return found


def fit(
    graph: Graph, ending: Ending, train: Embedded, classes: tuple[str, ...], options: HeadOptions, progress: Progress
) -> Fitted:
    """Fit a head to features, with the weight decay that cross-validation chooses."""
    begin, part = time.monotonic(), train.part
    missing = [name for name, count in zip(classes, part.targets.sum(axis=0).tolist(), strict=True) if count == 0]
    if missing:
        raise DataError(f"No usable sample to learn from has the class {missing[0]!r}.", "Give more samples of it.")
    counts, balanced = class_counts(part.targets)
    if options.weighting != AUTO:
        balanced = options.weighting == BALANCED
        counts = balanced_counts(part.targets) if balanced else np.ones(len(part.names))
    folds = folds_of(np.asarray(part.targets.argmax(axis=1), np.int64), train.hashes, options.seed)
    samples = Samples(part.features, part.targets, counts, part.multi_label)
    head, known = fit_by_cross_validation(samples, folds, lambda share: progress(share, "fitting the head"))
    told = telling_range(head.logits(part.features), multi_label=part.multi_label)
    new = NewHead(head, classes, told)
    return Fitted(graph, ending, new, known, train, balanced, time.monotonic() - begin)


def fit_to(
    path: Path, graph: Graph, feed: Feed, samples: LabeledSamples, options: HeadOptions, progress: Progress
) -> Fitted:
    """Find the head of a model, and fit a new one to samples; `path` is a place for a file on the way."""
    signature = feed.workload.signature
    ending = find_ending(graph, signature=signature, output=options.output, features=options.features)
    train = embed(path, graph, ending, feed, samples, part_of(progress, 0.0, 0.7))
    return fit(graph, ending, train, samples.classes, options, part_of(progress, 0.7, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The test part as a written file answers it."""

    test: Part
    shares: NDArray[np.float64]
    """The file's probabilities, a row for each sample."""
    positions: tuple[int, ...]
    """Those of the samples in the data, in rising order."""

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """What the file takes each sample for."""
        return predicted_classes(self.shares, multi_label=self.test.multi_label)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which samples it tells right."""
        return self.test.right(self.predicted)


def check_file(
    path: Path, output: str, feed: Feed, dataset: Dataset, known: Part, positions: Sequence[int], progress: Progress
) -> Checked:
    """Run a file on a test part, of which the samples at these positions are known; `output` tells the classes."""
    names = [form.name for form in forms_from_graph(read_graph(path), feed.workload).outputs]
    answers = answers_of(path, feed, dataset, progress, names.index(output) if output in names else 0)
    rows = {position: row for row, position in enumerate(answers.positions)}
    kept = [row for row, position in enumerate(positions) if position in rows]
    if not kept:
        raise DataError("No sample of the test part could be used.", "Check the test data.")
    both = tuple(positions[row] for row in kept)
    return Checked(known.with_rows(kept), answers.rows[[rows[position] for position in both]].astype(np.float64), both)


def against_head(checked: Checked, head: Head) -> Written:
    """The predictions of a written file against those of embeddings + head."""
    found, expected = checked.predicted, head_predictions(head, checked.test.features)
    same = int((found == expected).all(axis=1).sum())
    right, head_right = (int(checked.test.right(flags).sum()) for flags in (found, expected))
    return Written(same, len(found), right, head_right)


def part_of(progress: Progress, begin: float, end: float) -> Progress:
    """A share of the whole bar for one step."""
    return lambda share, text: progress(begin + (end - begin) * share, text)
