"""Which metric suits a model and its data, where the user names none."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy_notes import NO_PROBABILITY
from hasten.core.remark import remark
from hasten.data.classes import is_class_number, is_one_hot
from hasten.data.metrics import Cosine, MeanAbsoluteError, MeanIoU, TopK
from hasten.model.graph import CONVERSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Dataset, Label
    from hasten.data.metrics import Metric
    from hasten.data.tensor_forms import TensorForm
    from hasten.model.graph import Graph, Subgraph

_SHAPE_OPERATORS: Final = (*CONVERSIONS, "RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def metric_for_output(graph: Graph, form: TensorForm, label: Label) -> Metric:
    """The metric that suits an output of a model, and a label; None stands for data without labels."""
    return default_metric(label, form.shape, is_probability=_producing_operator(graph, form.tensor_name) == "LOGISTIC")


def default_metric(label: Label, output_shape: Sequence[int], *, is_probability: bool = False) -> Metric:
    """The metric that suits a label; without one, that suits an output, which may be known to be a probability.

    A whole number beside several outputs is a class, whatever its type, and so is a row with a single 1. Beside one
    value that is no probability it is a number to be predicted, as an age.
    """
    if label is None:
        if prod(output_shape) == 1 and not is_probability:
            return MeanAbsoluteError()
        return TopK(1) if sum(size > 1 for size in output_shape) <= 1 else Cosine()
    if isinstance(label, str):
        return TopK(1)
    values = None if isinstance(label, Path) else np.asarray(label)
    if values is None or (values.ndim >= 2 and values.dtype.kind in "iu"):
        return MeanIoU()
    kinds = "iubf" if prod(output_shape) > 1 else "iub" if is_probability else "b"
    is_class = is_class_number(label) and values.dtype.kind in kinds
    is_class = is_class or (is_one_hot(label) and values.size == prod(output_shape))
    if is_class:
        return TopK(1)
    # Those of two classes, perhaps, beside a score that no sigmoid has made a probability.
    may_be_classes = (
        prod(output_shape) == 1 and values.dtype.kind in "iu" and values.size == 1 and values.item() in (0, 1)
    )
    return MeanAbsoluteError((remark(NO_PROBABILITY),) if may_be_classes else ())


def telling_label(dataset: Dataset, first: Label = None) -> Label:
    """The label by which to choose a metric for all of them; None where there are none.

    Some samples may lack theirs, and of numbers to be predicted some may be whole: one that is no class decides. Of a
    function's samples the first with a label has to do, perhaps one that is known already.
    """
    if not dataset.labelled:
        return None
    if callable(dataset.samples):
        found = (sample.label for sample in dataset.samples())
        return first if first is not None else next((label for label in found if label is not None), None)
    labels = (sample.label for sample in dataset.samples if sample.label is not None)
    first = next(labels, None)
    if isinstance(first, str) or not is_class_number(first):
        return first
    return next((label for label in labels if not is_class_number(label)), first)


def _producing_operator(graph: Graph, output: str) -> str:
    """The operator that computes an output's values, past conversions and reshapes; empty where there is none."""
    for subgraph in graph.subgraphs:
        for index in subgraph.outputs:
            if subgraph.tensors[index].name == output:
                return _producer(subgraph, index)
    return ""


def _producer(subgraph: Subgraph, tensor: int) -> str:
    producers = {index: node for node in subgraph.nodes for index in node.outputs}
    for _ in subgraph.nodes:  # a damaged graph may have a cycle
        node = producers.get(tensor)
        if node is None or node.op not in _SHAPE_OPERATORS:
            return "" if node is None else node.op
        tensor = node.inputs[0]
    return ""
