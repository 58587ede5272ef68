"""Whether a model keeps the floor, told while it is being evaluated: as soon as no more samples are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.core.units import percent
from hasten.data.metrics import Cosine, MeanAbsoluteError, MeanIoU
from hasten.evaluate.scoring import Score
from hasten.evaluate.sequential_test import DEFAULT_RISK, Decision, FloorDecision, FloorTest

if TYPE_CHECKING:
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.evaluate.evaluation import Evaluation, Skipped

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Floor:
    """Stop as soon as it is clear whether a model stays within `max_drop` of the original on this data.

    Of a metric whose scores are shares (top-1, miou, cosine) so many points may be lost; of any other, whose unit is
    not known, so large a part of the original's own value.
    """

    original: Evaluation
    max_drop: float
    risk: float = DEFAULT_RISK

    @property
    def is_relative(self) -> bool:
        """Whether the drop is a part of the original's value, not so many points."""
        metric = self.original.metric
        return not (metric.proportion or isinstance(metric, (MeanIoU, Cosine)))

    @property
    def base(self) -> float:
        """What a relative drop is a part of; 0 where there is nothing to relate it to.

        An original that is its own measure has no error: then the mean size of its outputs.
        """
        value, references = abs(self.original.accuracy.value), self.original.references.values()
        if value or not isinstance(self.original.metric, MeanAbsoluteError):
            return value
        sizes = [float(np.abs(np.asarray(entry)).mean()) for entry in references if entry is not None]
        return float(np.mean(sizes)) if sizes else 0.0

    @property
    def allowed(self) -> float | None:
        """The most that the metric's value may lose; None where nothing says how much that is."""
        if not self.is_relative or self.max_drop == 0:
            return self.max_drop
        return self.max_drop * self.base or None

    def keeps(self, drop: float) -> bool:
        """Whether a drop is within what is allowed."""
        scale = self.base if self.is_relative else 1.0
        return self.allowed is not None and drop <= self.allowed + _ROUNDING * scale

    @property
    def unit(self) -> str:
        """What a loss is counted in: share, or value where the metric has a scale of its own."""
        return "value" if self.is_relative or isinstance(self.original.metric, Cosine) else "share"

    def lost(self, drop: float) -> str:
        """A loss in words."""
        if self.unit == "share":
            return percent(drop)
        part = f" ({percent(drop / self.base)} of {self._base_words()})" if self.is_relative and self.base else ""
        return f"{drop:.3g} of {self.original.metric.name}{part}"

    def describe(self, original: str = "the original") -> str:
        """The floor in words, in which the original can have another name."""
        name, value = self.original.metric.name, self.original.accuracy.value
        if not self.is_relative:
            if name == Cosine.name:
                return f"at most {self.max_drop:.3g} of {name} lost"
            points = f"{100 * self.max_drop:.3g}"
            return f"at most {points} percentage point{'' if points == '1' else 's'} of {name} lost"
        if self.allowed is None:
            return f"none: {original}'s {name} is 0, of which {percent(self.max_drop)} is nothing"
        if not value and self.max_drop:
            return f"{name} at most {self.allowed:.3g}, {percent(self.max_drop)} of {self._base_words()}"
        return f"{name} at most {percent(self.max_drop)} ({self.allowed:.3g}) worse than {original}'s {value:.3g}"

    def as_data(self) -> dict[str, Any]:
        """The floor as JSON can hold it."""
        return {
            "max_drop": self.max_drop,
            "kind": "relative" if self.is_relative else "points",
            "allowed": self.allowed,
            "relative_to": self.base if self.is_relative else None,
            "text": self.describe(),
        }

    def _base_words(self) -> str:
        return "the original's" if self.original.accuracy.value else "the mean size of the outputs"


class FloorGuard:
    """Tells after each batch whether the floor is decided, and at the end whether it held."""

    def __init__(self, floor: Floor, metric: Metric, total: int | None, dataset: Dataset) -> None:
        self._floor, self._metric = floor, metric
        self._rows = {position: row for row, position in enumerate(floor.original.positions)}
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._decision: FloorDecision | None = None
        # A stream comes in its own order, so that its beginning says nothing about its end.
        self._test = None
        allowed = floor.allowed
        if allowed is not None and metric.span is not None and dataset.count is not None and total is not None:
            # Samples that the original could not be judged by do not count.
            self._test = FloorTest(allowed, min(total, len(self._rows)), span=metric.span, risk=floor.risk)

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
        both = [entry for entry in scores if entry.position in self._rows]
        if self._decision is not None and self._decision.decision is not Decision.UNSURE:
            return replace(self._decision, samples=len(both))
        if not both:
            raise DataError("The original was evaluated on none of these samples.")
        first = self._floor.original.statistics[[self._rows[entry.position] for entry in both]].sum(axis=0)
        second = np.sum([entry.statistics for entry in both], axis=0)
        drop = self._sign * (self._metric.value(first, len(both)) - self._metric.value(second, len(both)))
        decision = Decision.KEPT if self._floor.keeps(drop) else Decision.BROKEN
        if self._floor.allowed is None:
            decision = Decision.UNSURE
        allowed = self._floor.allowed or 0.0
        return FloorDecision(decision, allowed, len(both), len(both), drop, self._floor.risk)
