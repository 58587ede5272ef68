"""Which metric suits a model and its data, where the user names none."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy_notes import ABOVE_ZERO, NO_PROBABILITY
from hasten.core.remark import remark
from hasten.data.classes import is_class_number, is_one_hot
from hasten.data.metrics import Cosine, MeanAbsoluteError, MeanIoU, TopK
from hasten.model.graph import CONVERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.data.dataset import Dataset, Label
    from hasten.data.metrics import Metric
    from hasten.data.tensor_forms import TensorForm
    from hasten.model.graph import Graph, Node, Subgraph

_PROBABILITY_OPERATORS: Final = ("LOGISTIC", "SOFTMAX")
_PRODUCT_OPERATORS: Final = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "BATCH_MATMUL")
_MOVING_OPERATORS: Final = frozenset(
    {*CONVERSIONS, "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SLICE", "STRIDED_SLICE", "GATHER", "UNPACK"}
)


def metric_for_output(graph: Graph, form: TensorForm, label: Label) -> Metric:
    """The metric that suits an output of a model, and a label; None stands for data without labels."""
    metric = default_metric(label, form.shape, is_probability=_is_probability(graph, form.tensor_name))
    return with_threshold(metric, graph, form)


def with_threshold(metric: Metric, graph: Graph, form: TensorForm) -> Metric:
    """The metric for this output: classes by one value change at 0 if it is evidently a logit, and else at 0.5."""
    if type(metric) is not TopK:
        return metric
    if form.elements == 1 and _is_logit(graph, form.tensor_name):
        return TopK(metric.k, 0.0, (remark(ABOVE_ZERO),))
    return TopK(metric.k)


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


def _is_probability(graph: Graph, output: str) -> bool:
    """Whether a sigmoid or a softmax computes an output's values."""
    found = _output_named(graph, output)
    return found is not None and _makes_probabilities(*found)


def _is_logit(graph: Graph, output: str) -> bool:
    """Whether an output's values are evidently logits: those of a last layer without an activation."""
    found = _output_named(graph, output)
    return found is not None and _makes_logits(*found)


def _output_named(graph: Graph, output: str) -> tuple[Subgraph, int] | None:
    """The subgraph and the tensor of an output."""
    for subgraph in graph.subgraphs:
        for index in subgraph.outputs:
            if subgraph.tensors[index].name == output:
                return subgraph, index
    return None


def _makes_probabilities(subgraph: Subgraph, tensor: int) -> bool:
    """Whether the operator behind a tensor does, past those that move or convert values."""
    producers = _producers(subgraph)
    node = _producer(producers, tensor)
    if node is None or node.op != "DIV":
        return node is not None and node.op in _PROBABILITY_OPERATORS
    # A sigmoid may be spelled out: 1 / (1 + exp(-x)).
    below = _producer(producers, node.inputs[1])
    terms = [_producer(producers, index) for index in below.inputs] if below is not None and below.op == "ADD" else []
    return any(term is not None and term.op == "EXP" for term in terms)


def _makes_logits(subgraph: Subgraph, tensor: int) -> bool:
    """Whether a product makes a tensor's values, perhaps with a constant added, and no activation bounds them."""
    producers = _producers(subgraph)
    node = _producer(producers, tensor)
    if node is None or node.op != "ADD":
        return _is_unbounded_product(node)
    terms = [_origin(producers, index) for index in node.inputs]
    has_constant = any(subgraph.tensors[term].is_constant for term in terms)
    return has_constant and _is_unbounded(node) and any(_is_unbounded_product(producers.get(term)) for term in terms)


def _is_unbounded_product(node: Node | None) -> bool:
    return node is not None and node.op in _PRODUCT_OPERATORS and _is_unbounded(node)


def _is_unbounded(node: Node) -> bool:
    return node.options.get("fused_activation_function", "NONE") == "NONE"


def _producers(subgraph: Subgraph) -> dict[int, Node]:
    """The node that makes each tensor."""
    return {index: node for node in subgraph.nodes for index in node.outputs}


def _producer(producers: Mapping[int, Node], tensor: int) -> Node | None:
    """The node that computes a tensor's values, past those that move or convert them; None where there is none."""
    return producers.get(_origin(producers, tensor))


def _origin(producers: Mapping[int, Node], tensor: int) -> int:
    """The tensor that a tensor's values come from, before nodes that move or convert them."""
    for _ in producers:  # a damaged graph may have a cycle
        node = producers.get(tensor)
        if node is None or node.op not in _MOVING_OPERATORS:
            break
        tensor = node.inputs[0]
    return tensor
