"""Labels looked at before the work: one that cannot be used should not turn up only after minutes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.data.classes import LabelReader, packed_labels
from hasten.data.forms import forms_from_graph
from hasten.data.metric_choice import metric_for_output, telling_label
from hasten.measure.scoring import Scorer

if TYPE_CHECKING:
    from hasten.core.plan import Workload
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.measure.evaluate import EvaluationOptions
    from hasten.model.graph import Graph


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
