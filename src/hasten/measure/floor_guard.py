"""Whether a model keeps the floor, told while it is being evaluated: as soon as no more samples are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import DataError
from hasten.core.floor import DEFAULT_RISK, Decision, FloorDecision, FloorTest
from hasten.measure.scoring import Score

if TYPE_CHECKING:
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.measure.evaluation import Evaluation, Skipped


@dataclass(frozen=True, slots=True)
class Floor:
    """Stop as soon as it is clear whether a model stays within `max_drop` of the original on this data."""

    original: Evaluation
    max_drop: float
    risk: float = DEFAULT_RISK


class FloorGuard:
    """Tells after each batch whether the floor is decided, and at the end whether it held."""

    def __init__(self, floor: Floor, metric: Metric, total: int | None, dataset: Dataset) -> None:
        self._floor, self._metric = floor, metric
        self._rows = {position: row for row, position in enumerate(floor.original.positions)}
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._decision: FloorDecision | None = None
        # A stream comes in its own order, so that its beginning says nothing about its end.
        self._test = None
        if metric.span is not None and dataset.count is not None and total is not None:
            self._test = FloorTest(floor.max_drop, total, span=metric.span, risk=floor.risk)

    def is_decided(self, batch: list[Score | Skipped]) -> bool:
        """Take a batch in."""
        if self._test is None:
            return False
        original = self._floor.original.statistics
        scores = [entry for entry in batch if isinstance(entry, Score) and entry.position in self._rows]
        drops = [original[self._rows[entry.position], 0] - entry.statistics[0] for entry in scores]
        self._decision = self._test.add(self._sign * np.asarray(drops))
        return self._decision.decision is not Decision.UNSURE

    def final(self, scores: list[Score]) -> FloorDecision:
        """The decision; if it did not fall on the way, by what all samples together show."""
        if self._decision is not None and self._decision.decision is not Decision.UNSURE:
            return replace(self._decision, samples=len(scores))
        both = [entry for entry in scores if entry.position in self._rows]
        if not both:
            raise DataError("the original was evaluated on none of these samples")
        first = self._floor.original.statistics[[self._rows[entry.position] for entry in both]].sum(axis=0)
        second = np.sum([entry.statistics for entry in both], axis=0)
        drop = self._sign * (self._metric.value(first, len(both)) - self._metric.value(second, len(both)))
        decision = Decision.KEPT if drop <= self._floor.max_drop + 1e-9 else Decision.BROKEN
        return FloorDecision(decision, self._floor.max_drop, len(both), len(both), drop, self._floor.risk)
