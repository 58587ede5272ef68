"""The floor of an evaluation: what it means for a metric, and whether a model keeps it, as soon as that is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import DataError
from hasten.core.floor import POINTS, RELATIVE, SHARE, VALUE, Floor, FloorState
from hasten.data.metrics import Cosine, MeanAbsoluteError, MeanIoU
from hasten.evaluate.intervals import compare_scores
from hasten.evaluate.scoring import Score
from hasten.evaluate.sequential_test import DEFAULT_RISK, FloorTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.floor import FloorVerdict
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.evaluate.evaluation import Evaluation, Skipped


@dataclass(frozen=True, slots=True)
class Baseline:
    """An original's evaluation, and what another model may lose against it."""

    original: Evaluation
    floor: Floor
    risk: float = DEFAULT_RISK


def baseline_of(original: Evaluation, max_drop: float) -> Baseline:
    """The original with its floor."""
    return Baseline(original, floor_of_original(original, max_drop))


def floor_of_original(original: Evaluation, max_drop: float) -> Floor:
    """What the largest drop means for this metric and this original."""
    metric, value = original.metric, original.accuracy.value
    if metric.proportion or isinstance(metric, MeanIoU | Cosine):
        unit = VALUE if isinstance(metric, Cosine) else SHARE
        return Floor(max_drop, POINTS, unit, metric.name, value, None, max_drop)
    base = _base(original)
    allowed = max_drop * base or None if max_drop else max_drop
    return Floor(max_drop, RELATIVE, VALUE, metric.name, value, base, allowed)


def _base(original: Evaluation) -> float:
    """What a relative drop is a part of. An original that is its own measure has no error: then the mean magnitude of
    its outputs."""
    value = abs(original.accuracy.value)
    if value or not isinstance(original.metric, MeanAbsoluteError):
        return value
    answers = [entry for entry in original.references.values() if entry is not None]
    sizes = [float(np.abs(np.asarray(entry)).mean()) for entry in answers]
    return float(np.mean(sizes)) if sizes else 0.0


class FloorGuard:
    """Tells after each batch whether the floor is decided, and at the end whether it held."""

    def __init__(self, baseline: Baseline, metric: Metric, dataset: Dataset) -> None:
        self._floor, self._original, self._metric = baseline.floor, baseline.original, metric
        self._rows = {position: row for row, position in enumerate(self._original.positions)}
        self._seen: list[Score] = []
        self._test = None
        allowed = self._floor.allowed
        # A stream comes in its own order, so that its beginning says nothing about its end.
        if allowed is not None and metric.span is not None and dataset.count is not None:
            self._test = FloorTest(allowed, span=metric.span, risk=baseline.risk)

    def is_decided(self, batch: list[Score | Skipped]) -> bool:
        """Add a batch; return whether the floor is decided: by the test, and by the interval that will be shown."""
        if self._test is None:
            return False
        scores = self._comparable(batch)
        self._seen += scores
        original, sign = self._original.statistics, 1.0 if self._metric.higher_is_better else -1.0
        drops = [original[self._rows[entry.position], 0] - entry.statistics[0] for entry in scores]
        state = self._test.add(sign * np.asarray(drops))
        return state is not FloorState.UNDECIDED and self.verdict(self._seen).state is state

    def verdict(self, scores: Sequence[Score | Skipped]) -> FloorVerdict:
        """How the model stands after these samples."""
        both = self._comparable(scores)
        if not both:
            raise DataError("The original was evaluated on none of these samples.", "Evaluate both on the same data.")
        first = self._original.statistics[[self._rows[entry.position] for entry in both]]
        second = np.stack([entry.statistics for entry in both])
        return self._floor.judge(compare_scores(self._metric, [entry.name for entry in both], first, second))

    def _comparable(self, scores: Sequence[Score | Skipped]) -> list[Score]:
        """Samples that the original could not be judged by do not count."""
        return [entry for entry in scores if isinstance(entry, Score) and entry.position in self._rows]
