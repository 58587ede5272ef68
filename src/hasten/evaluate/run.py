"""Run a model over data: threads prepare samples while several runners work, which get many samples at a time;
the run ends early where a floor is decided."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy import Accuracy
from hasten.core.accuracy_notes import DECIDED_EARLY, NO_LABELS, RUNNER_REPLACED, SKIPPED, STATEFUL, TIES
from hasten.core.errors import DataError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.remark import each_once, remark
from hasten.data.classes import LabelReader, packed_labels
from hasten.data.metric_choice import metric_for_output, telling_label
from hasten.data.prepare import Preparer
from hasten.data.tensor_forms import forms_as_loaded, forms_from_graph
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions, Skipped, kind_of
from hasten.evaluate.floor import Baseline, FloorGuard
from hasten.evaluate.intervals import interval_of_scores
from hasten.evaluate.prefetch import Prefetch
from hasten.evaluate.runner_pool import RunnerPool
from hasten.evaluate.scoring import Score, Scorer
from hasten.measure.rounds import no_progress
from hasten.model.metadata import read_metadata
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from hasten.data.dataset import Array, Sample
    from hasten.data.tensor_forms import LoadedForms
    from hasten.evaluate.runner_pool import Answer
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

_MOST_SAMPLES_A_REQUEST: Final = 64
# Few and large requests: around each one the runner waits for its next, and the parent for the interpreter's lock.
_MOST_BYTES_A_REQUEST: Final = 16 * 2**20
# For each runner, so that none waits long for the last one.
_ROUNDS: Final = 16
# Long enough to make a request cheap, short enough for a bar that moves and for an interruption.
_MOST_MS_A_REQUEST: Final = 500.0


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
    original. On the CPU each runner has one thread, whatever the plan says: that is the fastest way through many
    samples, and threads change answers by no more than rounding.
    """
    baseline = against if isinstance(against, Baseline) else None
    original = against if isinstance(against, Evaluation) else None
    if baseline is not None and not data.dataset.labelled:
        original = baseline.original
    if data.metric is None and original is not None:
        data = replace(data, metric=original.metric)
    begin = time.monotonic()
    graph = graph or read_graph(candidate.path)
    try:
        candidate, runners = _spread(target, candidate, options)
    except RunnerFailed as failed:
        return failed.failure
    forms = forms_from_graph(graph, candidate.workload).inputs
    prefetch = Prefetch(
        data.dataset,
        forms,
        data.preprocess,
        read_metadata(graph),
        samples=0 if data.prepared is not None and data.prepared.has(data.dataset, forms) else options.samples,
        seed=options.seed,
        threads=runners,
    )
    with RunnerPool(target, candidate, runners) as pool:
        try:
            load = pool.open()
            prefetch.end()
            pool.fresh = graph.stateful and load.api == "CompiledModel"
            model = _LoadedModel(graph, forms_as_loaded(graph, candidate.workload, load), load)
            return _Work(pool, model, data, options, original, prefetch).run(baseline, progress, begin)
        except RunnerFailed as failed:
            return failed.failure
        finally:
            prefetch.end()


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    graph: Graph
    forms: LoadedForms
    load: LoadReport


class _Work:
    """One evaluation: batches go through a pool of threads, and their scores come back in the order of the samples."""

    def __init__(
        self,
        pool: RunnerPool,
        model: _LoadedModel,
        data: EvaluationData,
        options: EvaluationOptions,
        original: Evaluation | None,
        prefetch: Prefetch,
    ) -> None:
        graph, forms, dataset = model.graph, model.forms, data.dataset
        self._pool, self._forms, self._dataset, self._options = pool, forms, dataset, options
        self._preparer = Preparer(forms.inputs, data.preprocess, read_metadata(graph))
        # The engine may give its inputs other shapes than the file.
        self._prefetch = prefetch if prefetch.forms == forms.inputs else None
        kept = data.prepared
        self._shelf = kept.shelf(dataset, forms.inputs, self._preparer.preprocess) if kept is not None else None
        first = next((sample for _, sample in dataset.drawn(1, options.seed)), None)
        if first is None:
            raise DataError(f"{dataset.source} holds no samples.", "Give data with at least one sample.")
        self._against_labels = dataset.labelled and original is None
        self._scorer = Scorer(
            data.metric or metric_for_output(graph, forms.outputs[0], telling_label(dataset, first.label)),
            forms.outputs,
            LabelReader(dataset, packed_labels(graph), options.label_offset),
            output=options.output,
            references=original.references if original is not None else None,
            labelled=self._against_labels,
        )
        self._total = dataset.count if options.samples is None else min(options.samples, dataset.count or 2**62)
        self._batch = _batch_size(model.load, self._total, pool.size)
        self._notes = list(dataset.notes)
        if original is None and not dataset.labelled and not dataset.is_random:
            # The figures of all models that are compared with this one carry the note.
            self._notes.append(remark(NO_LABELS))
        self._notes += getattr(self._scorer.metric, "notes", ())
        if graph.stateful:
            self._notes.append(remark(STATEFUL))
        self._stop = threading.Event()
        self._of_thread = threading.local()

    def run(self, baseline: Baseline | None, progress: Progress, begin: float) -> Evaluation:
        """All samples, or as many as the floor needs."""
        scores: list[Score] = []
        skipped: list[Skipped] = []
        if baseline is not None:
            self._batch = max(1, self._batch // 4)  # what is under way when the decision falls is wasted
        guard = FloorGuard(baseline, self._scorer.metric, self._dataset) if baseline else None
        for batch in self._batches():
            scores += [entry for entry in batch if isinstance(entry, Score)]
            skipped += [entry for entry in batch if isinstance(entry, Skipped)]
            done, rate = len(scores) + len(skipped), len(scores) / (time.monotonic() - begin)
            of_all = f" of {self._total}" if self._total else ""
            progress(done / self._total if self._total else 0.0, f"{done}{of_all} samples, {rate:.0f}/s")
            if guard is not None and guard.is_decided(batch):
                break
        if not scores:
            raise DataError(f"None of the {len(skipped)} samples could be used. The first: {skipped[0].reason}")
        return self._result(scores, skipped, guard, time.monotonic() - begin)

    def _batches(self) -> Iterator[list[Score | Skipped]]:
        samples = self._dataset.drawn(self._options.samples, self._options.seed)
        # Twice as many threads as runners: while one half waits for predictions, the other reads and prepares.
        threads = 2 * self._pool.size
        pending: deque[Future[list[Score | Skipped]]] = deque()
        pool = ThreadPoolExecutor(threads, thread_name_prefix="evaluate")
        try:
            while batch := list(islice(samples, self._batch)):
                pending.append(pool.submit(self._process, batch))
                if len(pending) > threads + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _process(self, batch: list[tuple[int, Sample]]) -> list[Score | Skipped]:
        """Prepare, predict and score. A bad sample is left out of the request, but keeps its place in the results."""
        results: list[Score | Skipped | None] = []
        inputs, good = [], []
        for position, sample in batch:
            if self._stop.is_set():
                return []
            try:
                arrays = self._inputs(position, sample, len(results))
                label = self._scorer.label(position, sample)
            except DataError as error:
                results.append(self._skip(sample, error))
                continue
            inputs.append([array.reshape(-1).view(np.uint8).data for array in self._forms.fed(arrays)])
            good.append((len(results), position, sample, label))
            results.append(None)
        names, skip_bad = [sample.name for _, _, sample, _ in good], self._options.skip_bad
        answers = self._pool.predict(inputs, names, skip_bad=skip_bad) if inputs else []
        for (place, position, sample, label), answer in zip(good, answers, strict=True):
            results[place] = self._score(position, sample, label, answer)
        return [entry for entry in results if entry is not None]

    def _inputs(self, position: int, sample: Sample, place: int) -> tuple[Array, ...]:
        """The inputs of a sample: kept from before, prepared ahead, or prepared now."""
        shelf = self._shelf
        known = shelf.get(position) if shelf is not None else None
        if known is not None:
            return known
        arrays = self._prefetch.take(position) if self._prefetch is not None else None
        if shelf is None:
            return arrays if arrays is not None else self._preparer.prepare(sample, self._buffers(place))
        arrays = arrays if arrays is not None else self._preparer.prepare(sample)
        shelf.put(position, arrays)
        return arrays

    def _buffers(self, place: int) -> tuple[Array, ...]:
        """Memory for one sample of a batch; each thread has its own, and is done with it when its batch is."""
        buffers: list[tuple[Array, ...]] = self._of_thread.__dict__.setdefault("buffers", [])
        while len(buffers) <= place:
            buffers.append(self._preparer.create_buffers())
        return buffers[place]

    def _score(self, position: int, sample: Sample, label: Any, answer: Answer) -> Score | Skipped:
        if isinstance(answer, Failure):
            return Skipped(sample.name, answer.message)
        try:
            return self._scorer.score(position, sample, label, self._forms.read(answer))
        except DataError as error:
            return self._skip(sample, error)

    def _skip(self, sample: Sample, error: DataError) -> Skipped:
        if not self._options.skip_bad:
            raise error
        return Skipped(sample.name, error.message)

    def _result(
        self, scores: list[Score], skipped: list[Skipped], guard: FloorGuard | None, seconds: float
    ) -> Evaluation:
        scores = sorted(scores, key=lambda entry: entry.position)
        metric = self._scorer.metric
        statistics = np.stack([entry.statistics for entry in scores])
        interval = interval_of_scores(statistics, metric)
        ties = sum(entry.tied for entry in scores)
        guessed = [*self._preparer.notes, *(self._prefetch.notes if self._prefetch is not None else ())]
        if self._shelf is not None:
            # What was guessed when the samples were prepared holds for all who take them.
            self._shelf.notes |= {note.code: note for note in guessed}
            guessed = list(self._shelf.notes.values())
        notes = [*self._notes, *each_once(guessed)]
        if ties:
            notes.append(remark(TIES, share=ties / len(scores)))
        if skipped:
            notes.append(remark(SKIPPED, samples=len(skipped)))
        if self._pool.retries:
            notes.append(remark(RUNNER_REPLACED, times=self._pool.retries))
        if guard is not None and self._total is not None and len(scores) + len(skipped) < self._total:
            notes.append(remark(DECIDED_EARLY, samples=len(scores), total=self._total))
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
            preprocess=self._preparer.preprocess,
            ties=ties,
            skipped=tuple(skipped),
            decision=guard.verdict(scores) if guard is not None else None,
            seconds=seconds,
            runners=self._pool.size,
            retries=self._pool.retries,
        )


def _spread(target: Target, candidate: Candidate, options: EvaluationOptions) -> tuple[Candidate, int]:
    """The plan for each of several runners, and how many."""
    plan = candidate.plan
    if not plan.runs_on_cpu:
        return candidate, options.runners or 1
    candidate = replace(candidate, plan=replace(plan, threads=1))
    return candidate, options.runners or target.machine().cores


def _batch_size(load: LoadReport, total: int | None, runners: int) -> int:
    sample_bytes = sum(tensor.bytes for tensor in (*load.inputs, *load.outputs))
    by_bytes = _MOST_BYTES_A_REQUEST // max(1, sample_bytes)
    by_time = int(_MOST_MS_A_REQUEST / max(load.first_run_ms, 1e-3))
    by_count = (total or _MOST_SAMPLES_A_REQUEST * _ROUNDS * runners) // (_ROUNDS * runners)
    return max(1, min(_MOST_SAMPLES_A_REQUEST, by_bytes, by_time, by_count))
