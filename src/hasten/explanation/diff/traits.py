"""What can be known of a node before it runs: how many terms it sums up, and which number formats it has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.explanation.diff.rules import Traits
from hasten.explanation.inner_tensors import dequantized, is_comparable
from hasten.model.cost import count_cost, stored_shapes
from hasten.model.graph import CONVERSIONS, FLOAT_DTYPES
from hasten.model.reader import read_constant

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.explanation.diff.pairing import Section, Wiring
    from hasten.explanation.inner_tensors import Subject
    from hasten.model.graph import Graph, Node, Tensor

# Relative errors of rounding, uniform over the last place.
_OF_FLOATS: Final = {"float16": 2.0**-11 / 3**0.5, "bfloat16": 2.0**-8 / 3**0.5}
_NARROW_INTEGERS: Final = frozenset({"int2", "int4", "uint4", "int8", "uint8", "int16"})
# They sum up, or scan, along their last dimension without a formula of multiplications.
_ALONG_THE_LAST: Final = frozenset({"SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "CUMSUM"})


def traits_of(
    subjects: tuple[Subject, Subject], wirings: tuple[Wiring, Wiring], section: Section, outputs: tuple[int, int]
) -> Traits:
    """The traits of a section, for one pair of its outputs."""
    tensors = [wiring.subgraph.tensors[index] for wiring, index in zip(wirings, outputs, strict=True)]
    nodes = [wirings[1].subgraph.nodes[index] for index in section.nodes[1] or (section.node,)]
    graphs = subjects[0].graph, subjects[1].graph
    return Traits(
        is_choice=not all(map(is_comparable, tensors)),
        terms=max(_terms(wirings[1], node) for node in nodes),
        step_before=step_of(tensors[0]),
        step_after=step_of(tensors[1]),
        dtype_before=tensors[0].dtype,
        dtype_after=tensors[1].dtype,
        weights=_weight_error(graphs, wirings, section),
        half=any(computes_in_half(subject.candidate.plan) for subject in subjects)
        or any(tensor.dtype in _OF_FLOATS for tensor in tensors),
        is_dynamic=tensors[1].dtype in FLOAT_DTYPES and any(_has_integer_weights(wirings[1], node) for node in nodes),
    )


def computes_in_half(plan: Plan) -> bool:
    """Whether a plan is known, or allowed, to compute in half precision where the file says float32."""
    return not plan.runs_on_cpu and not (plan.accelerator == "gpu" and plan.precision == "fp32")


def step_of(tensor: Tensor) -> float:
    """Between neighbors in a quantized type; 0 for others."""
    if tensor.quantization is None or tensor.dtype in FLOAT_DTYPES:
        return 0.0
    return max(tensor.quantization.scales)


def _terms(wiring: Wiring, node: Node) -> float:
    """How many terms a value of its output is the sum of."""
    tensors = wiring.subgraph.tensors
    written = max((tensors[index].elements or 1 for index in node.outputs if index >= 0), default=1)
    read = max((tensors[index].elements or 1 for index in node.inputs if index >= 0), default=1)
    if node.op in _ALONG_THE_LAST:
        shape = tensors[node.outputs[0]].shape
        return float(shape[-1]) if shape else 1.0
    macs = count_cost(wiring.subgraph, node, stored_shapes(wiring.subgraph)).macs
    return max(1.0, (macs or read) / written)


def _has_integer_weights(wiring: Wiring, node: Node) -> bool:
    tensors = (wiring.subgraph.tensors[index] for index in node.inputs if index in wiring.settled)
    return any(tensor.dtype in _NARROW_INTEGERS and tensor.quantization is not None for tensor in tensors)


def _weight_error(graphs: tuple[Graph, Graph], wirings: tuple[Wiring, Wiring], section: Section) -> float:
    """The relative error that the types of the second model's weights make, by their scales.

    It says nothing of the weights that are really there: those may be wrong.
    """
    before = [source for node in section.nodes[0] for source in _weights(wirings[0], node)]
    after = [source for node in section.nodes[1] for source in _weights(wirings[1], node)]
    if len(before) != len(after):
        return 0.0
    pairs = zip(before, after, strict=True)
    return max((error_of_type(graphs[0], first, second) for first, second in pairs), default=0.0)


def _weights(wiring: Wiring, node: int) -> list[Tensor]:
    """The constants that a node reads as weights, as they are stored."""
    stored = [source_of(wiring, index) for index in wiring.subgraph.nodes[node].inputs if index in wiring.settled]
    return [tensor for tensor in stored if tensor.is_weight]


def source_of(wiring: Wiring, tensor: int) -> Tensor:
    """The constant that conversions make a tensor from. Bounded: a damaged graph may be a circle."""
    for _ in wiring.subgraph.nodes:
        node = wiring.producers.get(tensor)
        if node is None or node.op not in CONVERSIONS or not node.inputs or node.inputs[0] < 0:
            break
        tensor = node.inputs[0]
    return wiring.subgraph.tensors[tensor]


def error_of_type(graph: Graph, before: Tensor, after: Tensor) -> float:
    """The relative error that the type of the second model's constant makes, where it is another one."""
    if (before.dtype, before.quantization) == (after.dtype, after.quantization):
        return 0.0
    if after.dtype in _OF_FLOATS:
        return _OF_FLOATS[after.dtype]
    if after.quantization is None or after.dtype not in _NARROW_INTEGERS:
        return 0.0
    size = _constant_rms(graph, before)
    steps = np.asarray(after.quantization.scales, dtype=np.float64)
    return float(np.sqrt(np.mean(np.square(steps)) / 12) / size) if size else 0.0


def _constant_rms(graph: Graph, tensor: Tensor) -> float:
    values = read_constant(graph, tensor)
    if values is None or not values.size:
        return 0.0
    real = dequantized(values, tensor)
    finite = real[np.isfinite(real)]
    return math.sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
