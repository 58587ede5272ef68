"""The head that a model has: its weights and bias as real numbers, whatever they are stored in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.model import EditedModel
from hasten.retraining.softmax import Head

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.model.edit.graph import EditedGraph
    from hasten.model.graph import Graph
    from hasten.retraining.ending import Ending

    Floats = NDArray[np.float64]

# Behind the head, these leave open which logits it gave: anything else that may stand there changes them.
_HARMLESS: Final = frozenset({"SOFTMAX", "LOGISTIC", "LOG_SOFTMAX", "RESHAPE", "SQUEEZE", "DEQUANTIZE", "QUANTIZE"})


def read_head(graph: Graph, ending: Ending) -> Head | None:
    """The head; None where there is none to be read, or where more than it makes the logits."""
    if ending.head is None or ending.pooled or not _HARMLESS.issuperset(ending.passed):
        return None
    edited = EditedModel.read(graph.path).graphs[ending.subgraph]
    operator = edited.operators[ending.head]
    if edited.option(operator, "fusedActivationFunction"):
        return None
    weights = _real(edited, operator.inputs[1])
    if weights is None:
        return None
    bias: Floats | None = np.zeros(len(weights))
    if len(operator.inputs) > 2 and operator.inputs[2] >= 0:
        bias = _real(edited, operator.inputs[2])
    return None if bias is None else Head(weights.reshape(len(weights), -1), bias.reshape(-1))


def _real(graph: EditedGraph, index: int) -> Floats | None:
    """A constant as real numbers, perhaps behind a conversion from float16."""
    producer = graph.producer(index)
    if producer is not None and graph.is_op(producer, "DEQUANTIZE"):
        index = producer.inputs[0]
    stored = graph.constant(index)
    if stored is None:
        return None
    values: Floats = stored.astype(np.float64)
    if not graph.is_quantized(index):
        return values
    known = graph.tensor(index).quantization
    scales, zeros = np.asarray(known.scale, np.float64), np.asarray(known.zeroPoint, np.float64)
    shape = [-1 if axis == known.quantizedDimension else 1 for axis in range(values.ndim)]
    if len(scales) > 1:
        scales, zeros = scales.reshape(shape), zeros.reshape(shape) if len(zeros) > 1 else zeros
    real: Floats = (values - zeros) * scales
    return real
