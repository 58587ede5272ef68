"""From a model's answer to a score: outputs as real values, labels as the metric wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import DataError, UsageError
from hasten.data.classes import LabelReader, packed_labels
from hasten.data.functions import words_of
from hasten.data.images import mask_from_file
from hasten.data.metric_choice import metric_for_output, telling_label
from hasten.data.metrics import TopK
from hasten.data.tensor_forms import forms_from_graph, real_from_bytes
from hasten.evaluate.evaluation import NO_NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.plan import Workload
    from hasten.data.dataset import Array, Dataset, Label, Sample
    from hasten.data.metrics import Metric
    from hasten.data.tensor_forms import TensorForm
    from hasten.evaluate.evaluation import EvaluationOptions
    from hasten.model.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One sample's result."""

    position: int
    name: str
    statistics: NDArray[np.float64]
    tied: bool
    reference: Label = field(repr=False)


class Scorer:
    """Scores answers by one metric. Safe to use from several threads."""

    def __init__(
        self,
        metric: Metric,
        forms: Sequence[TensorForm],
        reader: LabelReader,
        *,
        output: str = "",
        references: Mapping[int, Label] | None = None,
        labelled: bool = True,
    ) -> None:
        self.metric = metric
        self._forms, self._reader, self._references, self._labelled = tuple(forms), reader, references, labelled
        self._scored = scored_place(forms, output)
        self._classes = self._forms[self._scored].elements
        classes = max(2, self._classes)  # one value alone stands for two classes
        if isinstance(metric, TopK) and metric.k >= classes:
            raise UsageError(
                f"{metric.name} of {classes} classes is always right and shows nothing.", "Choose another --metric."
            )
        if labelled and metric.labels == "class":
            reader.check_count(self._classes)

    def label(self, position: int, sample: Sample) -> Any:
        """What the sample is compared with; None where a model is its own original."""
        if self._references is not None:
            if position not in self._references:
                raise DataError(f"{sample.name} has no answer of the original to compare with.")
            return self._references[position]
        if not self._labelled:
            return None
        if sample.label is None:
            raise DataError(f"{sample.name} has no label, but other samples have one.")
        if self.metric.labels == "class":
            return self._reader.number(sample.label, self._classes, sample.name)
        if self.metric.labels == "anything":
            return sample.label
        if isinstance(sample.label, Path):
            return mask_from_file(sample.label)
        if isinstance(sample.label, str):
            raise DataError(f"{sample.name} has the label {sample.label!r}, which {self.metric.name} cannot use.")
        return np.asarray(sample.label)

    def score(self, position: int, sample: Sample, label: Any, answer: Sequence[bytes | memoryview]) -> Score:
        """The score of one answer; the output that counts comes first."""
        outputs: list[Array] = [real_from_bytes(data, form) for data, form in zip(answer, self._forms, strict=True)]
        outputs.insert(0, outputs.pop(self._scored))
        scored = outputs[0]
        if scored.dtype.kind == "f" and not np.isfinite(scored).all():
            bad = "NaN" if np.isnan(scored).any() else "infinity"
            raise DataError(
                f"The model answered {sample.name} with {bad} in output {self._forms[self._scored].name!r}.",
                "Check the preprocessing; a model in half precision may also overflow.",
                code=NO_NUMBER,
            )
        try:
            # Only an original's answers are kept: they can be large, and no other model's are needed.
            reference = self.metric.reference(outputs) if label is None else None
            found = self.metric.score(outputs, reference if label is None else label)
        except DataError as error:
            raise DataError(f"{sample.name}: {error.message}", error.hint) from error
        except SystemExit as error:  # in a metric that is a class of the user's own
            raise DataError(f"{sample.name}: the metric {self.metric.name} failed: {words_of(error)}.") from error
        return Score(position, sample.name, found.statistics, found.tied, reference)


def scored_place(forms: Sequence[TensorForm], output: str) -> int:
    """Which of a model's outputs has this name; the first one where there is no name."""
    names = [name for form in forms for name in (form.name, form.tensor_name)]
    if output and output not in names:
        raise UsageError(
            f"The model has no output {output!r}.", f"Choose one of {', '.join(form.name for form in forms)}."
        )
    return names.index(output) // 2 if output else 0


def metric_by_labels(graph: Graph, workload: Workload, dataset: Dataset) -> Metric | None:
    """The metric that suits all labels; None where they, or the model's outputs, are not known before the work."""
    if not _can_look(graph, workload, dataset):
        return None
    return metric_for_output(graph, forms_from_graph(graph, workload).outputs[0], telling_label(dataset))


def check_labels(
    graph: Graph, workload: Workload, dataset: Dataset, metric: Metric | None, options: EvaluationOptions
) -> None:
    """Raise what an evaluation with these options would raise once it came to a bad label.

    Only what is cheap to know is looked at: no samples that a function has yet to make, and no masks in files.
    """
    metric = metric or metric_by_labels(graph, workload, dataset)
    if metric is None or options.skip_bad or not _can_look(graph, workload, dataset):
        return
    reader = LabelReader(dataset, packed_labels(graph), options.label_offset)
    scorer = Scorer(metric, forms_from_graph(graph, workload).outputs, reader, output=options.output)
    for position, sample in dataset.drawn(options.samples, options.seed):
        if not isinstance(sample.label, Path):
            scorer.label(position, sample)


def _can_look(graph: Graph, workload: Workload, dataset: Dataset) -> bool:
    return dataset.labelled and not callable(dataset.samples) and _has_known_outputs(graph, workload)


def _has_known_outputs(graph: Graph, workload: Workload) -> bool:
    """Whether the file tells how many outputs there are, whatever the batch; else only the engine will."""
    return not workload.shapes and not any(
        tensor.is_unranked or -1 in (*tensor.shape_signature[1:], *tensor.shape[1:]) for tensor in graph.outputs
    )
