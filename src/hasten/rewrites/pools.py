"""Writes an average over the whole height and width of 8-bit values as MEAN: XNNPACK pools float32 only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.layers import window
from hasten.rewrites.patterns import NONE, activation, each, replace
from hasten.rewrites.quantization import STEP
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator


def average_by_mean(graph: EditedGraph) -> list[Change]:
    """AVERAGE_POOL_2D with one window that has all values of a channel, and no others."""
    changes = []
    for operator in each(graph, "AVERAGE_POOL_2D"):
        x, result = operator.inputs[0], operator.outputs[0]
        is_integer = graph.dtype(x) in {"int8", "uint8"} and graph.is_quantized(x)
        if is_integer and _is_whole(graph, operator) and graph.kind(x)[3] == graph.kind(result)[3]:
            axes = graph.add_constant(np.asarray([1, 2], np.int32), "axes")
            chosen = options("ReducerOptions", keepDims=True)
            changes.append(replace(graph, [operator], "MEAN", [x, axes], chosen))
    return changes


def _is_whole(graph: EditedGraph, operator: Operator) -> bool:
    kernel = (int(graph.option(operator, "filterHeight")), int(graph.option(operator, "filterWidth")))
    slid = window(graph, operator, kernel)
    if slid is None or activation(graph, operator) != NONE:
        return False
    return slid.sizes == kernel and slid.counts() == (1, 1) and not slid.is_padded()


GLOBAL_POOLS = Rewrite("global-pools", average_by_mean, STEP, is_form=True)
