"""Data that a user asks to evaluate with: its names, and how to read and score it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.core.checks import FROM_ONE, WHOLE, check_number, text_of
from hasten.data.preprocess import Preprocess, preprocess_from_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.data.tensor_forms import TensorForm


@dataclass(frozen=True, slots=True)
class Data:
    """Data by name, as the options of the same names take it. Without any, inputs are random, and tell nothing of
    accuracy."""

    source: str = ""
    calibration: str = ""
    """Samples for the ranges of activations; where none are given, some of those to judge by."""
    preprocess: str = ""
    metric: str = ""
    samples: int | None = None
    """The largest number of samples to use, drawn at random; None for all."""
    skip_bad: bool = False
    """Whether samples that cannot be used are listed and left out, instead of ending it all."""
    label_offset: int = 0
    """What to add to a label to get the model's output: 1 where its first output is a background class."""

    def __post_init__(self) -> None:
        for name in ("source", "calibration", "preprocess", "metric"):
            object.__setattr__(self, name, text_of(name, getattr(self, name)))
        if self.samples is not None:
            check_number("samples", self.samples, FROM_ONE)
        check_number("label_offset", self.label_offset, WHOLE)


@dataclass(frozen=True, slots=True)
class OpenData:
    """The same, opened."""

    given: Data
    dataset: Dataset
    calibration: Dataset | None = None
    preprocess: Preprocess = Preprocess()
    metric: Metric | None = None


def open_data(data: Data, inputs: Sequence[TensorForm]) -> OpenData:
    """Open the data, or make inputs up."""
    from hasten.data.metrics import metric_from_text
    from hasten.data.sources import open_dataset, random_dataset

    return OpenData(
        data,
        open_dataset(data.source) if data.source else random_dataset(inputs),
        open_dataset(data.calibration) if data.calibration else None,
        preprocess_from_text(data.preprocess),
        metric_from_text(data.metric) if data.metric else None,
    )
