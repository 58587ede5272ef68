"""How accurate the models are, and by how much one is more accurate than another, where that can be compared.

Measured accuracies are compared sample by sample, with the interval of the difference. Published ones are taken as
they stand. Figures of the two kinds are of different data, and never compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy import Accuracy
from hasten.core.codec import typed_from_data
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.core.session import damage_as_error
from hasten.core.statistics import Interval
from hasten.data.functions import is_function_name
from hasten.data.metrics import metric_from_text
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions, refuse_failed_samples
from hasten.evaluate.fingerprint import data_fingerprint
from hasten.evaluate.intervals import compare_scores, counts_samples
from hasten.evaluate.run import evaluate
from hasten.practices.choose.facts import ModelRow, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from hasten.core.session import Line
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.data.request import Data
    from hasten.evaluate.evaluation import Evaluation
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Progress
    from hasten.practices.choose.candidates import Contender

_KIND = "accuracy"
# By which rules outputs are scored; raised when the same outputs may come to another accuracy. 2: the threshold of a
# single output depends on the operators that make it, and `miou` finds the classes of outputs that are not square.
_RULES: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What each sample came to: a row of statistics for each position, in rising order."""

    positions: tuple[int, ...]
    statistics: NDArray[np.float64]


@dataclass(slots=True)
class Accuracies:
    """Every accuracy that is known, by the name of the row."""

    known: dict[str, tuple[Accuracy, Source]] = field(default_factory=dict)
    _scores: dict[str, Scores] = field(default_factory=dict)
    _metric: Metric | None = None
    _gains: dict[tuple[str, str], Interval | None] = field(default_factory=dict)
    _data: tuple[Dataset, str] | None = None
    """What all models are judged on, and its fingerprint."""

    def add_published(self, rows: Iterable[ModelRow]) -> None:
        """Take what rows say themselves."""
        for row in rows:
            if row.accuracy is not None:
                self.known[row.name] = row.accuracy, row.accuracy_source

    def add_measured(self, name: str, accuracy: Accuracy, scores: Scores, metric: Metric) -> None:
        """Take what was measured here. All of them have one metric."""
        self.known[name], self._scores[name], self._metric = (accuracy, Source.MEASURED), scores, metric

    def gain(self, name: str, over: str) -> Interval | None:
        """By how much a model is more accurate than another, above 0 if it is; None where that cannot be compared."""
        pair = name, over
        if pair not in self._gains:
            self._gains[pair] = self._gain(name, over)
        return self._gains[pair]

    def _gain(self, name: str, over: str) -> Interval | None:
        if name not in self.known or over not in self.known:
            return None
        (one, source), (other, other_source) = self.known[name], self.known[over]
        if source is not other_source or one.metric != other.metric:
            return None
        sign = 1.0 if one.higher_is_better else -1.0
        if source is Source.PUBLISHED:
            difference = sign * (one.value - other.value)
            return Interval(difference, difference, difference)
        return self._paired(name, over, sign)

    def _paired(self, name: str, over: str, sign: float) -> Interval | None:
        one, other = self._scores[name], self._scores[over]
        both = sorted(set(one.positions) & set(other.positions))
        if not both or self._metric is None:
            return None
        mine, theirs = (found.statistics[np.searchsorted(found.positions, both)] for found in (one, other))
        if mine.shape != theirs.shape:  # one of them is from a session, which may have been made by anybody
            raise DataError(
                f"The saved scores of {name} and {over} do not fit together.", "Choose another folder with -o."
            )
        found = compare_scores(self._metric, [str(place) for place in both], theirs, mine)
        low, high = sorted((sign * found.low, sign * found.high))
        return Interval(sign * found.difference, low, high)

    def measure(self, contender: Contender, effort: Effort, progress: Progress) -> Failure | None:
        """Evaluate a model on its data and save what each sample came to; the failure of its runners, if they fail."""
        data = contender.data
        assert data is not None, "nothing to evaluate on"
        dataset, _ = self._opened(data.source)
        if not dataset.labelled:
            raise DataError(
                f"{dataset.source} has no labels, so no accuracy can be measured on it.", "Give labeled data."
            )
        # One metric for all: the one asked for, or the one that suits the first of them.
        metric = self._metric or (metric_from_text(data.metric) if data.metric else None)
        options = EvaluationOptions(data.samples, skip_bad=data.skip_bad, label_offset=data.label_offset)
        given = EvaluationData(dataset, preprocess_from_text(data.preprocess), metric)
        found = evaluate(effort.target, contender.candidate, given, options=options, progress=progress)
        if isinstance(found, Failure):
            return found
        refuse_failed_samples(found)
        self.add_measured(contender.name, found.accuracy, Scores(found.positions, found.statistics), found.metric)
        effort.keep(_KIND, contender.name, {**_kept(found), "compared": self._asked(contender, data)})
        return None

    def restore(self, contender: Contender, lines: Iterable[Line]) -> bool:
        """Take what an earlier run of the session measured of this model on the same data; whether there is any."""
        data, kept = contender.data, [line for line in lines if line.kind == _KIND and line.label == contender.name]
        if data is None or not kept:
            return False
        asked = self._asked(contender, data)
        line = next((line.data for line in kept if line.data.get("compared") == asked), None)
        if line is None:
            return False
        with damage_as_error(f"line on {contender.name}"):
            accuracy = typed_from_data(Accuracy, line)
            if not data.metric and is_function_name(accuracy.metric):
                return False  # a session may come from anybody, and must not load code that was not asked for
            metric = metric_from_text(data.metric or accuracy.metric)
            self.add_measured(contender.name, accuracy, _scores_from_data(line), metric)
        return True

    def _opened(self, source: str) -> tuple[Dataset, str]:
        if self._data is None:
            dataset = open_dataset(source)
            self._data = dataset, data_fingerprint(dataset)
        return self._data

    def _asked(self, contender: Contender, data: Data) -> dict[str, Any]:
        """What must be the same for an accuracy to be used again."""
        return {
            "rules": _RULES,
            "model": contender.candidate.model.sha256,
            "accelerator": contender.candidate.plan.accelerator,
            "data": self._opened(data.source)[1],
            "preprocess": data.preprocess,
            "metric": data.metric,
            "samples": data.samples,
            "skip_bad": data.skip_bad,
            "label_offset": data.label_offset,
        }

    def row(self, row: ModelRow) -> ModelRow:
        """The row with its accuracy."""
        if row.name not in self.known:
            return row
        accuracy, source = self.known[row.name]
        scores = self._scores.get(row.name)
        counted = scores is not None and self._metric is not None and counts_samples(self._metric, scores.statistics)
        return replace(row, accuracy=accuracy, accuracy_source=source, counted=counted)


def _scores_from_data(data: Mapping[str, Any]) -> Scores:
    positions, statistics = tuple(data["positions"]), np.asarray(data["statistics"], dtype=np.float64)
    rising = list(positions) == sorted(set(map(int, positions)))
    if not rising or statistics.ndim != 2 or len(statistics) != len(positions):
        raise ValueError(f"{len(positions)} positions have statistics of the shape {statistics.shape}")
    return Scores(positions, statistics)


def _kept(found: Evaluation) -> dict[str, Any]:
    """The evaluation with each sample's statistics, so that a later run can pair them."""
    return {**found.as_data(), "positions": list(found.positions), "statistics": found.statistics.tolist()}
