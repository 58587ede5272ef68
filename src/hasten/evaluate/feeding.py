"""Samples on their way through a model: threads prepare them while several runners work, which get many at a time."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import numpy as np

from hasten.core.errors import DataError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.remark import each_once
from hasten.data.prepare import Preparer
from hasten.data.tensor_forms import forms_as_loaded, forms_from_graph
from hasten.evaluate.evaluation import NO_NUMBER, Skipped
from hasten.evaluate.prefetch import Prefetch
from hasten.evaluate.runner_pool import RunnerPool
from hasten.model.metadata import read_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from hasten.core.remark import Remark
    from hasten.data.dataset import Array, Sample
    from hasten.data.tensor_forms import LoadedForms
    from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
    from hasten.evaluate.runner_pool import Answer
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

T = TypeVar("T")
R = TypeVar("R", covariant=True)
_MOST_SAMPLES_A_REQUEST: Final = 64
# Few and large requests: around each one the runner waits for its next, and the parent for the interpreter's lock.
_MOST_BYTES_A_REQUEST: Final = 16 * 2**20
# For each runner, so that a floor is decided soon, and an interruption heard.
_ROUNDS: Final = 16
# Where only its end will tell.
_SAMPLES_OF_A_STREAM: Final = 2048
# Long enough to make a request cheap, short enough for a bar that moves and for an interruption.
_MOST_MS_A_REQUEST: Final = 500.0
# What it takes to ask and to answer is little beside this.
_FEWEST_MS_A_REQUEST: Final = 10.0


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model as the runners have loaded it."""

    graph: Graph
    forms: LoadedForms
    load: LoadReport


class Reader(Protocol[R]):
    """What is made of a model's answers. Safe to use from several threads."""

    def label(self, position: int, sample: Sample) -> Any:
        """What the answer is compared with; a DataError where the sample has no such label."""

    def score(self, position: int, sample: Sample, label: Any, answer: Sequence[bytes | memoryview]) -> R:
        """The result of one sample; a DataError where the answer cannot be used."""


def with_runners(
    target: Target,
    candidate: Candidate,
    data: EvaluationData,
    options: EvaluationOptions,
    graph: Graph,
    work: Callable[[RunnerPool, LoadedModel, Prefetch], T],
) -> T | Failure:
    """Start the runners, and prepare the first samples meanwhile; then do the work. Their failure is returned.

    On the CPU each runner has one thread, whatever the plan says: that is the fastest way through many samples, and
    threads change answers by no more than rounding.
    """
    try:
        candidate, runners = _spread(target, candidate, options)
    except RunnerFailed as failed:
        return failed.failure
    if data.prepared is not None:
        data.prepared.open()
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
    with RunnerPool(target, candidate, runners, data.idle) as pool:
        try:
            load = pool.open()
            prefetch.end()
            pool.fresh = graph.stateful and load.api == "CompiledModel"
            return work(pool, LoadedModel(graph, forms_as_loaded(graph, candidate.workload, load), load), prefetch)
        except RunnerFailed as failed:
            return failed.failure
        finally:
            prefetch.end()


class Feeding(Generic[T]):
    """Batches go through a pool of threads, and their results come back in the order of the samples."""

    def __init__(
        self,
        pool: RunnerPool,
        model: LoadedModel,
        data: EvaluationData,
        options: EvaluationOptions,
        prefetch: Prefetch,
        reader: Reader[T],
    ) -> None:
        forms, dataset = model.forms, data.dataset
        self._pool, self._forms, self._dataset, self._options = pool, forms, dataset, options
        self.preparer = Preparer(forms.inputs, data.preprocess, read_metadata(model.graph))
        # The engine may give its inputs other shapes than the file.
        self._prefetch = prefetch if prefetch.forms == forms.inputs else None
        kept = data.prepared
        self._shelf = kept.shelf(dataset, forms.inputs, self.preparer.preprocess) if kept is not None else None
        self._reader = reader
        self.total = dataset.count if options.samples is None else min(options.samples, dataset.count or 2**62)
        """How many samples there are to come; None where only the end of a stream will tell."""
        self._load = model.load
        self.batch_size = _batch_size(model.load, self.total, _ROUNDS * pool.size)
        self._stop = threading.Event()
        self._of_thread = threading.local()

    @property
    def guessed(self) -> tuple[Remark, ...]:
        """What had to be guessed to prepare the samples."""
        found = [*self.preparer.notes, *(self._prefetch.notes if self._prefetch is not None else ())]
        if self._shelf is not None:
            # What was guessed when the samples were prepared holds for all who take them.
            self._shelf.notes |= {note.code: note for note in found}
            found = list(self._shelf.notes.values())
        return each_once(found)

    def answer_sooner(self) -> None:
        """Ask for fewer samples at a time: what is under way when a decision falls is wasted."""
        self.batch_size = _batch_size(self._load, self.total, 4 * _ROUNDS * self._pool.size)

    def batches(self) -> Iterator[list[T | Skipped]]:
        """The results, batch by batch."""
        samples = self._dataset.drawn(self._options.samples, self._options.seed)
        # Twice as many threads as runners: while one half waits for predictions, the other reads and prepares.
        threads = 2 * self._pool.size
        pending: deque[Future[list[T | Skipped]]] = deque()
        pool = ThreadPoolExecutor(threads, thread_name_prefix="evaluate")
        try:
            left = self.total
            while batch := list(islice(samples, self._next_size(left))):
                left = None if left is None else left - len(batch)
                pending.append(pool.submit(self._process, batch))
                if len(pending) > threads + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _next_size(self, left: int | None) -> int:
        """Fewer samples a request towards the end, so that no runner waits long for the last one."""
        return self.batch_size if left is None else max(1, min(self.batch_size, left // (2 * self._pool.size)))

    def _process(self, batch: list[tuple[int, Sample]]) -> list[T | Skipped]:
        """Prepare, predict and score. A bad sample is left out of the request, but keeps its place in the results."""
        results: list[T | Skipped | None] = []
        inputs, good = [], []
        for position, sample in batch:
            if self._stop.is_set():
                return []
            try:
                arrays = self._inputs(position, sample, len(results))
                label = self._reader.label(position, sample)
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
        if arrays is None:
            arrays = self.preparer.prepare(sample, self._buffers(place))
        return arrays if shelf is None else shelf.put(position, arrays)

    def _buffers(self, place: int) -> tuple[Array, ...]:
        """Memory for one sample of a batch; each thread has its own, and is done with it when its batch is."""
        buffers: list[tuple[Array, ...]] = self._of_thread.__dict__.setdefault("buffers", [])
        while len(buffers) <= place:
            buffers.append(self.preparer.create_buffers())
        return buffers[place]

    def _score(self, position: int, sample: Sample, label: Any, answer: Answer) -> T | Skipped:
        if isinstance(answer, Failure):
            return Skipped(sample.name, answer.message, by_model=True)
        try:
            return self._reader.score(position, sample, label, self._forms.read(answer))
        except DataError as error:
            return self._skip(sample, error)

    def _skip(self, sample: Sample, error: DataError) -> Skipped:
        if not self._options.skip_bad:
            raise error
        return Skipped(sample.name, error.message, by_model=error.code == NO_NUMBER)


def _spread(target: Target, candidate: Candidate, options: EvaluationOptions) -> tuple[Candidate, int]:
    """The plan for each of several runners, and how many."""
    plan = candidate.plan
    if not plan.runs_on_cpu:
        return candidate, options.runners or 1
    candidate = replace(candidate, plan=replace(plan, threads=1))
    return candidate, options.runners or target.machine().cores


def _batch_size(load: LoadReport, total: int | None, requests: int) -> int:
    """How many samples a request has, so that there are about so many requests."""
    sample_bytes = sum(tensor.bytes for tensor in (*load.inputs, *load.outputs))
    by_bytes = _MOST_BYTES_A_REQUEST // max(1, sample_bytes)
    run_ms = max(load.first_run_ms, 1e-3)
    by_count = (total or _SAMPLES_OF_A_STREAM) // requests
    wanted = max(by_count, int(_FEWEST_MS_A_REQUEST / run_ms))
    return max(1, min(_MOST_SAMPLES_A_REQUEST, by_bytes, int(_MOST_MS_A_REQUEST / run_ms), wanted))
