"""Takes PAD into the SAME padding of the convolution or pool after it, where SAME puts exactly these zeros."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.rewrites.layers import SAME, window
from hasten.rewrites.patterns import (
    RANGES,
    activation,
    clamped,
    drop_unread,
    each,
    integers,
    is_float,
    nodes_of,
    open_axes,
    scalar,
    set_option,
)
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator

_LOWEST: Final = float(np.finfo(np.float32).min)


def take_paddings_in(graph: EditedGraph) -> list[Change]:
    """PAD before CONV_2D and DEPTHWISE_CONV_2D; before MAX_POOL_2D where what is padded can never be the largest.

    There is no explicit padding in these operators: paddings of any other size stay.
    """
    changes = []
    for operator in each(graph, "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"):
        pad = graph.producer(operator.inputs[0])
        if pad is not None and graph.is_op(pad, "PAD", "PADV2") and _is_same(graph, pad, operator):
            set_option(operator, "padding", SAME)
            graph.set_input(operator, 0, pad.inputs[0])
            operator.nodes = nodes_of([pad, operator])
            changes.append(Change(operator.nodes))
            drop_unread(graph, pad)
    return changes


def _is_same(graph: EditedGraph, pad: Operator, operator: Operator) -> bool:
    """Whether the operator itself, with SAME, starts its windows where it does now, and has as many of them."""
    source, padded = pad.inputs[0], pad.outputs[0]
    widths = integers(graph, pad.inputs[1])
    kernel = _kernel(graph, operator)
    outer = None if kernel is None else window(graph, operator, kernel)
    if widths is None or len(widths) != 8 or outer is None or operator.builtinOptions is None:
        return False
    # Batch and channels, before and after; sizes that are open; other scales.
    if any(widths[:2]) or any(widths[6:]) or open_axes(graph, source) & {1, 2}:
        return False
    if not graph.are_stored_alike(source, padded) or not _pads_neutrally(graph, pad, operator):
        return False
    inner = replace(outer, sizes=graph.shape(source)[1:3], padding=SAME)
    starts = (widths[2] + outer.before()[0], widths[4] + outer.before()[1])
    return inner.counts() == outer.counts() and inner.before() == starts


def _kernel(graph: EditedGraph, operator: Operator) -> tuple[int, int] | None:
    if graph.is_op(operator, "MAX_POOL_2D"):
        return int(graph.option(operator, "filterHeight")), int(graph.option(operator, "filterWidth"))
    shape = graph.shape(operator.inputs[1])
    return (shape[1], shape[2]) if len(shape) == 4 else None


def _pads_neutrally(graph: EditedGraph, pad: Operator, operator: Operator) -> bool:
    """Whether the value that PAD puts is the one that SAME stands for: zero, and for a pool lower than all others."""
    value = 0.0
    if graph.is_op(pad, "PADV2"):
        found = scalar(graph, pad.inputs[2])
        if found is None:
            return False
        value = found
    if not graph.is_op(operator, "MAX_POOL_2D"):
        return value == 0
    return is_float(graph, pad.inputs[0]) and value <= _lowest(graph, pad.inputs[0])


def _lowest(graph: EditedGraph, tensor: int) -> float:
    """A limit that no value of a tensor is below."""
    producer = graph.producer(tensor)
    fused = RANGES.get(activation(graph, producer), RANGES[0]) if producer is not None else RANGES[0]
    found = max(fused[0], clamped(graph, tensor).low)
    return found if found > -inf else _LOWEST


SAME_PADDING = Rewrite("same-padding", take_paddings_in)
