"""Run a model over data and score its answers; the run ends early where a floor is decided."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hasten.core.accuracy import Accuracy
from hasten.core.accuracy_notes import DECIDED_EARLY, NO_LABELS, RUNNER_REPLACED, SKIPPED, STATEFUL, TIES
from hasten.core.errors import DataError
from hasten.core.remark import remark
from hasten.data.classes import LabelReader, packed_labels
from hasten.data.metric_choice import metric_for_output, telling_label, with_threshold
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions, Skipped, kind_of
from hasten.evaluate.feeding import Feeding, LoadedModel, with_runners
from hasten.evaluate.floor import Baseline, FloorGuard
from hasten.evaluate.intervals import interval_of_scores
from hasten.evaluate.scoring import Score, Scorer, scored_place
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from hasten.core.failure import Failure
    from hasten.evaluate.prefetch import Prefetch
    from hasten.evaluate.runner_pool import RunnerPool
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.targets.base import Target


def evaluate(
    target: Target,
    candidate: Candidate,
    data: EvaluationData,
    *,
    options: EvaluationOptions = EvaluationOptions(),
    against: Evaluation | Baseline | None = None,
    graph: Graph | None = None,
    progress: Progress = no_progress,
) -> Evaluation | Failure:
    """Score a model on data. Bad data raises a DataError; a failure of the runners is returned as a Failure.

    `against` an original's evaluation, the model's answers are compared with the original's. `against` a baseline, the
    evaluation stops as soon as its floor is decided, by labels where there are some. A model without either is its own
    original.
    """
    baseline = against if isinstance(against, Baseline) else None
    original = against if isinstance(against, Evaluation) else None
    if baseline is not None and not data.dataset.labelled:
        original = baseline.original
    if data.metric is None and original is not None:
        data = replace(data, metric=original.metric)
    begin = time.monotonic()

    def work(pool: RunnerPool, model: LoadedModel, prefetch: Prefetch) -> Evaluation:
        return _Work(pool, model, data, options, original, prefetch).run(baseline, progress, begin)

    return with_runners(target, candidate, data, options, graph or read_graph(candidate.path), work)


class _Work:
    """One evaluation."""

    def __init__(
        self,
        pool: RunnerPool,
        model: LoadedModel,
        data: EvaluationData,
        options: EvaluationOptions,
        original: Evaluation | None,
        prefetch: Prefetch,
    ) -> None:
        graph, forms, dataset = model.graph, model.forms, data.dataset
        self._pool, self._dataset = pool, dataset
        first = next((sample for _, sample in dataset.drawn(1, options.seed)), None)
        if first is None:
            raise DataError(f"{dataset.source} holds no samples.", "Give data with at least one sample.")
        self._against_labels = dataset.labelled and original is None
        metric = data.metric or metric_for_output(graph, forms.outputs[0], telling_label(dataset, first.label))
        self._scorer = Scorer(
            with_threshold(metric, graph, forms.outputs[scored_place(forms.outputs, options.output)]),
            forms.outputs,
            LabelReader(dataset, packed_labels(graph), options.label_offset),
            output=options.output,
            references=original.references if original is not None else None,
            labelled=self._against_labels,
        )
        self._feeding: Feeding[Score] = Feeding(pool, model, data, options, prefetch, self._scorer)
        self._notes = list(dataset.notes)
        if original is None and not dataset.labelled and not dataset.is_random:
            # The figures of all models that are compared with this one carry the note.
            self._notes.append(remark(NO_LABELS))
        self._notes += getattr(self._scorer.metric, "notes", ())
        if graph.stateful:
            self._notes.append(remark(STATEFUL))

    def run(self, baseline: Baseline | None, progress: Progress, begin: float) -> Evaluation:
        """All samples, or as many as the floor needs."""
        scores: list[Score] = []
        skipped: list[Skipped] = []
        feeding, total = self._feeding, self._feeding.total
        if baseline is not None:
            feeding.answer_sooner()
        guard = FloorGuard(baseline, self._scorer.metric, self._dataset) if baseline else None
        for batch in feeding.batches():
            scores += [entry for entry in batch if isinstance(entry, Score)]
            skipped += [entry for entry in batch if isinstance(entry, Skipped)]
            done, rate = len(scores) + len(skipped), len(scores) / (time.monotonic() - begin)
            of_all = f" of {total}" if total else ""
            progress(done / total if total else 0.0, f"{done}{of_all} samples, {rate:.0f}/s")
            if guard is not None and guard.is_decided(batch):
                break
        if not scores:
            raise DataError(f"None of the {len(skipped)} samples could be used. The first: {skipped[0].reason}")
        return self._result(scores, skipped, guard, time.monotonic() - begin)

    def _result(
        self, scores: list[Score], skipped: list[Skipped], guard: FloorGuard | None, seconds: float
    ) -> Evaluation:
        scores = sorted(scores, key=lambda entry: entry.position)
        metric, total = self._scorer.metric, self._feeding.total
        statistics = np.stack([entry.statistics for entry in scores])
        interval = interval_of_scores(statistics, metric)
        ties = sum(entry.tied for entry in scores)
        notes = [*self._notes, *self._feeding.guessed]
        if ties:
            notes.append(remark(TIES, share=ties / len(scores)))
        if skipped:
            notes.append(remark(SKIPPED, samples=len(skipped)))
        if self._pool.retries:
            notes.append(remark(RUNNER_REPLACED, times=self._pool.retries))
        if guard is not None and total is not None and len(scores) + len(skipped) < total:
            notes.append(remark(DECIDED_EARLY, samples=len(scores), total=total))
        kind = kind_of(labelled=self._against_labels, is_random=self._dataset.is_random)
        return Evaluation(
            accuracy=Accuracy(
                metric.name,
                interval.estimate,
                interval.low,
                interval.high,
                len(scores),
                self._dataset.source,
                kind,
                tuple(notes),
                metric.higher_is_better,
            ),
            metric=metric,
            positions=tuple(entry.position for entry in scores),
            names=tuple(entry.name for entry in scores),
            statistics=statistics,
            references={entry.position: entry.reference for entry in scores},
            preprocess=self._feeding.preparer.preprocess,
            ties=ties,
            skipped=tuple(skipped),
            decision=guard.verdict(scores) if guard is not None else None,
            seconds=seconds,
            runners=self._pool.size,
            retries=self._pool.retries,
        )
