"""A model's answers on data, sample by sample: one output as rows of real numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.accuracy_notes import RUNNER_REPLACED, SKIPPED
from hasten.core.errors import DataError
from hasten.core.remark import remark
from hasten.data.tensor_forms import real_from_bytes
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions, Skipped
from hasten.evaluate.feeding import Feeding, LoadedModel, with_runners
from hasten.measure.rounds import no_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.core.failure import Failure
    from hasten.core.remark import Remark
    from hasten.data.dataset import Sample
    from hasten.data.preprocess import Preprocess
    from hasten.data.tensor_forms import TensorForm
    from hasten.evaluate.prefetch import Prefetch
    from hasten.evaluate.runner_pool import RunnerPool
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.targets.base import Target


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The values of one output, a row for each sample; rows follow `positions`, in rising order."""

    rows: NDArray[np.float32]
    positions: tuple[int, ...]
    names: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    preprocess: tuple[Preprocess, ...]
    """How each input was made."""
    notes: tuple[Remark, ...]
    seconds: float


def answers_on(
    target: Target,
    candidate: Candidate,
    graph: Graph,
    data: EvaluationData,
    *,
    output: int = 0,
    options: EvaluationOptions = EvaluationOptions(),
    progress: Progress = no_progress,
) -> Answers | Failure:
    """The values of one output (by its place in the file) for each sample. Bad data raises a DataError."""
    begin = time.monotonic()

    def work(pool: RunnerPool, model: LoadedModel, prefetch: Prefetch) -> Answers:
        reader = _RowReader(model.forms.outputs[output], output)
        feeding: Feeding[_Row] = Feeding(pool, model, data, options, prefetch, reader)
        rows: list[_Row] = []
        skipped: list[Skipped] = []
        for batch in feeding.batches():
            rows += [entry for entry in batch if isinstance(entry, _Row)]
            skipped += [entry for entry in batch if isinstance(entry, Skipped)]
            done, rate = len(rows) + len(skipped), len(rows) / (time.monotonic() - begin)
            progress(done / feeding.total if feeding.total else 0.0, f"{done} samples, {rate:.0f}/s")
        if not rows:
            reason = skipped[0].reason if skipped else ""
            raise DataError(f"No sample of {data.dataset.source} can be used. {reason}".rstrip())
        rows.sort(key=lambda row: row.position)
        notes = [*data.dataset.notes, *feeding.guessed]
        if skipped:
            notes.append(remark(SKIPPED, samples=len(skipped)))
        if pool.retries:
            notes.append(remark(RUNNER_REPLACED, times=pool.retries))
        return Answers(
            rows=np.stack([row.values for row in rows]),
            positions=tuple(row.position for row in rows),
            names=tuple(row.name for row in rows),
            skipped=tuple(skipped),
            preprocess=feeding.preparer.preprocess,
            notes=tuple(notes),
            seconds=time.monotonic() - begin,
        )

    return with_runners(target, candidate, data, options, graph, work)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    position: int
    name: str
    values: NDArray[np.float32]


class _RowReader:
    """Keeps the values of one output, and looks at no label."""

    def __init__(self, form: TensorForm, place: int) -> None:
        self._form, self._place = form, place

    def label(self, position: int, sample: Sample) -> Any:
        return None

    def score(self, position: int, sample: Sample, label: Any, answer: Sequence[bytes | memoryview]) -> _Row:
        values = np.array(real_from_bytes(answer[self._place], self._form), np.float32).reshape(-1)
        if not np.isfinite(values).all():
            raise DataError(
                f"The model answered {sample.name} with values in {self._form.name!r} that are not finite.",
                "Check the preprocessing, or skip such samples with --skip-bad.",
            )
        return _Row(position, sample.name, values)
