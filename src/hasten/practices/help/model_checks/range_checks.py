"""Checks of quantization: parameters that cannot be right, and ranges that waste the levels which an integer has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import ModelError
from hasten.core.remark import remark
from hasten.model.reader import read_constant
from hasten.practices.help.model_checks.findings import Subject, better, broken, good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.remark import Remark
    from hasten.model.graph import Graph, Node, Quantization, Tensor
    from hasten.practices.help.facts import Check

PARAMETERS, RANGES = "quantization parameters", "quantization ranges"
_LIMITS: Final = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int32": (-(2**31), 2**31 - 1),
}
# The 8-bit kernel has outputs of this scale only. Those of LOGISTIC and TANH take any.
_FIXED_SCALE: Final = 1 / 256
_NEVER_NEGATIVE: Final = frozenset({"RELU", "RELU6", "RELU_0_TO_1"})
_CHANNEL_AXIS: Final = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
# The kernels' own tolerance for the scale of a bias.
_BIAS_TOLERANCE: Final = 0.02
_FIXED_TOLERANCE: Final = 0.001
# A quarter of the levels is a part of a bit; 16 of 127 levels are three bits lost.
_WASTED: Final = 0.25
_FEW_LEVELS: Final = 16
_CLIPPED: Final = 0.01
_SMALLEST: Final = 64


def range_checks(subject: Subject) -> Iterator[Check]:
    """Everything that scales and zero points tell, alone and next to the weights that they stand for."""
    graph = subject.graph
    if not any(tensor.quantization for subgraph in graph.subgraphs for tensor in subgraph.tensors):
        yield good(PARAMETERS, "model.not-quantized")
        return
    yield _parameters(graph)
    yield _ranges(subject)


def _parameters(graph: Graph) -> Check:
    for subgraph in graph.subgraphs:
        for tensor in subgraph.tensors:
            if (fault := _fault(tensor)) is not None:
                return broken(PARAMETERS, fault.code, tensor=tensor.index, name=tensor.name, **fault.facts)
    for node in graph.main.nodes:
        if (fixed := _fixed_fault(graph, node)) is not None:
            return broken(PARAMETERS, "model.fixed-parameters", node=node.index, op=node.op, **fixed)
        if (ratio := _bias_ratio(graph, node)) is not None and abs(ratio - 1) > _BIAS_TOLERANCE:
            return broken(PARAMETERS, "model.bias-scale", node=node.index, op=node.op, ratio=ratio)
    return good(PARAMETERS, "model.parameters")


def _fault(tensor: Tensor) -> Remark | None:
    """A scale or zero point that no number can be stored by."""
    found, limits = tensor.quantization, _LIMITS.get(tensor.dtype)
    if found is None or limits is None:
        return None
    for scale in found.scales:
        if not math.isfinite(scale) or scale < 0 or max(found.scales) == 0:
            value = scale if math.isfinite(scale) else str(scale)
            return remark("model.bad-parameters", parameter="scale", value=value)
    for point in found.zero_points:
        if not limits[0] <= point <= limits[1]:
            return remark("model.bad-parameters", parameter="zero point", value=point)
    if found.per_channel and not _has_scale_for_each(found, tensor):
        told = {"count": len(found.scales), "dimension": found.dimension, "shape": list(tensor.shape)}
        return remark("model.scale-count", **told)
    return None


def _has_scale_for_each(found: Quantization, tensor: Tensor) -> bool:
    if not 0 <= found.dimension < len(tensor.shape):
        return False
    return tensor.shape[found.dimension] in (len(found.scales), -1)


def _fixed_fault(graph: Graph, node: Node) -> dict[str, Any] | None:
    if node.op != "SOFTMAX" or not node.outputs or node.outputs[0] < 0:
        return None
    tensor = graph.main.tensors[node.outputs[0]]
    if tensor.quantization is None or tensor.dtype not in ("int8", "uint8"):
        return None
    point = _LIMITS[tensor.dtype][0]
    given = (tensor.quantization.scales[0], (tensor.quantization.zero_points or (0,))[0])
    if abs(given[0] / _FIXED_SCALE - 1) <= _FIXED_TOLERANCE and given[1] == point:
        return None
    return {"scale": given[0], "zero_point": given[1], "needed_scale": _FIXED_SCALE, "needed_zero_point": point}


def _bias_ratio(graph: Graph, node: Node) -> float | None:
    """The scale of the bias over that of the products it is added to; the worst channel's."""
    if node.op not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") or len(node.inputs) < 3 or node.inputs[2] < 0:
        return None
    given = [graph.main.tensors[index].quantization for index in node.inputs[:3]]
    image, weights, bias = given
    if image is None or weights is None or bias is None:
        return None
    products = np.array(image.scales[0]) * np.array(weights.scales)
    if len(bias.scales) not in (1, len(products)):
        return None
    ratios = np.divide(bias.scales, products, out=np.ones_like(products), where=products > 0)
    return float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-30))))])


def _ranges(subject: Subject) -> Check:
    graph = subject.graph
    empty = [node.index for node in graph.main.nodes if _has_channel_without_scale(graph, node)]
    if empty:
        return better(RANGES, "model.zero-scales", nodes=empty, count=len(empty))
    half = [node.index for node in graph.main.nodes if _wastes_negatives(graph, node)]
    if half:
        return better(RANGES, "model.half-range", nodes=half, count=len(half))
    few, clipped = [], []
    for node in graph.main.nodes:
        weights = _weights_of(graph, node)
        if weights is None:
            continue
        levels, beyond = _use_of_levels(*weights, axis=_CHANNEL_AXIS[node.op])
        if levels < _FEW_LEVELS:
            few.append(node.index)
        if beyond > _CLIPPED:
            clipped.append(node.index)
    if clipped:
        return better(RANGES, "model.clipped-weights", nodes=clipped, count=len(clipped))
    if few:
        return better(RANGES, "model.few-levels", nodes=few, count=len(few))
    return good(RANGES, "model.ranges")


def _has_channel_without_scale(graph: Graph, node: Node) -> bool:
    """Whether a scale of zero takes all that some channels of the weights hold."""
    if node.op not in _CHANNEL_AXIS or len(node.inputs) < 2 or node.inputs[1] < 0:
        return False
    weights = graph.main.tensors[node.inputs[1]].quantization
    return weights is not None and 0.0 in weights.scales


def _wastes_negatives(graph: Graph, node: Node) -> bool:
    """Whether a result that is never negative keeps a quarter of its levels for negative numbers."""
    rectified = node.op in _NEVER_NEGATIVE or node.options.get("fused_activation_function") in _NEVER_NEGATIVE
    if not rectified or not node.outputs or node.outputs[0] < 0:
        return False
    tensor = graph.main.tensors[node.outputs[0]]
    if tensor.quantization is None or tensor.dtype not in ("int8", "uint8"):
        return False
    lowest, highest = _LIMITS[tensor.dtype]
    point = (tensor.quantization.zero_points or (0,))[0]
    return (point - lowest) / (highest - lowest) > _WASTED


def _weights_of(graph: Graph, node: Node) -> tuple[np.ndarray[Any, Any], Tensor] | None:
    """The 8-bit weights of a layer with what they are."""
    if node.op not in _CHANNEL_AXIS or len(node.inputs) < 2 or node.inputs[1] < 0:
        return None
    tensor = graph.main.tensors[node.inputs[1]]
    if tensor.quantization is None or tensor.dtype not in ("int8", "uint8") or (tensor.elements or 0) < _SMALLEST:
        return None
    try:
        values = read_constant(graph, tensor)
    except ModelError:
        return None
    return None if values is None else (values, tensor)


def _use_of_levels(values: np.ndarray[Any, Any], tensor: Tensor, *, axis: int) -> tuple[float, float]:
    """How many levels the middle channel uses on either side, and the share of weights at the ends of the range.

    One weight of a channel at each end is what a scale is made from; only more than that is clipped.
    """
    assert tensor.quantization is not None
    points = tensor.quantization.zero_points or (0,)
    point = points[0] if len(set(points)) == 1 else 0
    lowest, highest = _LIMITS[tensor.dtype]
    channels = np.moveaxis(values.astype(np.int64) - point, axis, 0).reshape(values.shape[axis], -1)
    used = np.abs(channels).max(axis=1)
    used = used[used > 0]  # a channel of zeros needs no level
    narrow = lowest + 1 if tensor.dtype == "int8" else lowest
    ends = np.count_nonzero((values <= narrow) | (values >= highest))
    beyond = max(0, int(ends) - 2 * len(channels)) / values.size
    return float(np.median(used)) if used.size else float(_FEW_LEVELS), beyond
