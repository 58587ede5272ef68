"""What an evaluation found: a figure with its interval, and each sample's statistics behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.codec import to_data
from hasten.core.errors import DataError, UsageError
from hasten.data.preprocess import Preprocess
from hasten.evaluate.intervals import compare_scores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hasten.core.floor import FloorVerdict
    from hasten.data.dataset import Dataset, Label
    from hasten.data.metrics import Metric
    from hasten.evaluate.prepared import PreparedSamples
    from hasten.evaluate.runner_pool import IdleRunners

# The code of a DataError: the model answered with NaN or infinity.
NO_NUMBER: Final = "no_number"
_OWN_FAILURE: Final = "Check the model and --preprocess: --skip-bad leaves out bad samples, not failures of the model."


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How to evaluate; the defaults take all samples, on all cores."""

    samples: int | None = None
    """The most samples to use, drawn at random; None for all."""
    seed: int = 0
    runners: int = 0
    """How many processes; 0 for one on each core of the CPU, or one on an accelerator."""
    skip_bad: bool = False
    """Whether samples that cannot be used are listed and left out, instead of ending it all."""
    label_offset: int = 0
    """What to add to a label to get the model's output: 1 where its first output is a background class."""
    output: str = ""
    """Which output is scored; the first unless it is named."""

    def __post_init__(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise UsageError(f"An evaluation needs at least 1 sample, not {self.samples}.")


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationData:
    """What to evaluate on: samples, how they become inputs, and by what answers are scored."""

    dataset: Dataset
    preprocess: Preprocess = Preprocess()
    metric: Metric | None = None
    """None for the one that suits the labels and the output."""
    prepared: PreparedSamples | None = None
    """Where samples are kept for the next model, if there will be one."""
    idle: IdleRunners | None = None
    """Where runners wait for the next model, if there will be one."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sample that could not be used, and why."""

    name: str
    reason: str
    by_model: bool = False
    """Whether the model failed on it: a crash, or an answer that is no number. The sample may be a good one."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A model's predictions on some data, scored. The rows of `statistics` follow `positions`, in rising order."""

    accuracy: Accuracy
    metric: Metric
    positions: tuple[int, ...]
    names: tuple[str, ...]
    statistics: NDArray[np.float64] = field(repr=False)
    references: Mapping[int, Label] = field(repr=False)
    """What another model must answer at each position to agree with this one."""
    preprocess: tuple[Preprocess, ...]
    ties: int
    skipped: tuple[Skipped, ...]
    decision: FloorVerdict | None
    """Against the floor, where one was given."""
    seconds: float
    runners: int
    retries: int

    @property
    def samples_per_second(self) -> float:
        """Throughput, with reading, preprocessing and the start of the runners."""
        return len(self.positions) / self.seconds if self.seconds else 0.0

    def as_data(self) -> dict[str, Any]:
        """The evaluation as JSON can hold it, without each sample's statistics."""
        return {
            **self.accuracy.as_data(),
            "preprocess": [entry.as_data() for entry in self.preprocess],
            "ties": self.ties,
            "skipped": [{"name": entry.name, "reason": entry.reason} for entry in self.skipped],
            "decision": None if self.decision is None else to_data(self.decision),
            "seconds": self.seconds,
            "samples_per_second": self.samples_per_second,
            "runners": self.runners,
        }


def compare_evaluations(first: Evaluation, second: Evaluation) -> PairedAccuracy:
    """The second model against the first, on the samples that both were evaluated on."""
    if first.metric.name != second.metric.name:
        raise DataError(f"A {first.metric.name} cannot be compared with a {second.metric.name}.")
    both = sorted(set(first.positions) & set(second.positions))
    if not both:
        raise DataError("The two evaluations have no sample in common.")
    rows = [np.searchsorted(entry.positions, both) for entry in (first, second)]
    return compare_scores(
        first.metric,
        [first.names[row] for row in rows[0].tolist()],
        first.statistics[rows[0]],
        second.statistics[rows[1]],
    )


def refuse_failed_samples(found: Evaluation, original: Evaluation | None = None) -> None:
    """Raise what a model failed on: to leave that out would hide it.

    That is what the original could be judged by; without one, what the model itself had no usable answer to.
    """
    known = set(original.names) if original is not None else ()
    for entry in found.skipped:
        if entry.name in known or (original is None and entry.by_model):
            raise DataError(entry.reason, _OWN_FAILURE)


def kind_of(*, labelled: bool, is_random: bool) -> Kind:
    """What a figure on such data may be called."""
    return Kind.UNKNOWN if is_random else Kind.ACCURACY if labelled else Kind.AGREEMENT
