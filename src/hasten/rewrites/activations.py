"""Fuses activations into the operators before them, and recovers those that are spelled with MAXIMUM and MINIMUM."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from hasten.rewrites.patterns import RANGES, activation, clamped, cone, each, nodes_of, replace, set_option
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Collection

    from hasten.model.edit.graph import EditedGraph, Operator

# Operators whose kernels, those of XNNPACK included, clamp what they write. CONCATENATION and L2_NORMALIZATION have the
# option in the schema only.
FUSING: Final = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "DIV", "AVERAGE_POOL_2D", "MAX_POOL_2D"}
)
_FUSED_BY_RANGE: Final = {limits: number for number, limits in RANGES.items()}
_FUSED_BY_OPERATOR: Final = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
_OPERATOR_BY_RANGE: Final = {
    (0.0, inf): "RELU",
    (0.0, 6.0): "RELU6",
    (-1.0, 1.0): "RELU_N1_TO_1",
    (0.0, 1.0): "RELU_0_TO_1",
}
_CLAMPING: Final = ("MAXIMUM", "MINIMUM", *_OPERATOR_BY_RANGE.values())


def fuse_activations(graph: EditedGraph) -> list[Change]:
    """RELU, RELU6 and RELU_N1_TO_1 after an operator that can clamp its own results.

    Quantized ones too, where input and output have one scale: to clamp is then the same in integers.
    """
    changes = []
    for operator in each(graph, *_FUSED_BY_OPERATOR):
        (source, *_), (result,) = operator.inputs, operator.outputs
        producer = graph.producer(source)
        if producer is None or not graph.is_read_only_by(source, operator) or graph.kind(source) != graph.kind(result):
            continue
        fused = _fused(graph, producer, _FUSED_BY_OPERATOR[graph.op(operator)])
        if fused is not None:
            set_option(producer, "fusedActivationFunction", fused)
            graph.remove(operator)
            graph.set_output(producer, 0, result)
            producer.nodes = nodes_of([producer, operator])
            changes.append(Change(producer.nodes))
    return changes


def _fused(graph: EditedGraph, producer: Operator, outer: int) -> int | None:
    if graph.op(producer) not in FUSING or producer.builtinOptions is None or len(producer.outputs) != 1:
        return None
    return composed(activation(graph, producer), outer)


def composed(inner: int, outer: int) -> int | None:
    """The fused activation that does what two do one after the other; None if there is no such one."""
    if inner not in RANGES or outer not in RANGES:
        return None
    low, high = RANGES[outer]
    first, last = (min(max(limit, low), high) for limit in RANGES[inner])
    return _FUSED_BY_RANGE.get((first, last))


def recover_clamps(graph: EditedGraph) -> list[Change]:
    """MAXIMUM and MINIMUM with constants, and activations one after the other, as the one activation that they are."""
    return _recovered(graph, _FUSED_BY_OPERATOR)


def recover_unit_clamps(graph: EditedGraph) -> list[Change]:
    """The same for RELU_0_TO_1, which no operator can fuse and some delegates refuse."""
    return _recovered(graph, {"RELU_0_TO_1"})


def _recovered(graph: EditedGraph, wanted: Collection[str]) -> list[Change]:
    changes = []
    # From the end, so that a chain is taken as a whole.
    for root in each(graph, *_CLAMPING, backward=True):
        found = clamped(graph, root.outputs[0])
        op = _OPERATOR_BY_RANGE.get((found.low, found.high))
        source = found.tensor
        if found.is_fused or op not in wanted or graph.shape(source) != graph.shape(root.outputs[0]):
            continue
        chain = cone(graph, root, [source])
        if op is not None and chain is not None and (len(chain) > 1 or graph.op(root) != op):
            changes.append(replace(graph, chain, op, [source]))
    return changes


ACTIVATION_FUSION = Rewrite("activation-fusion", fuse_activations)
CLAMPS = Rewrite("clamps", recover_clamps)
RELU_0_TO_1 = Rewrite("relu-0-to-1", recover_unit_clamps)
