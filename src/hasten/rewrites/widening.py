"""Widens convolutions with few output channels and a wide kernel: several output columns become channels of one.

A kernel of XNNPACK computes 8 to 32 output channels at once, whether the model has that many or not. With m columns as
channels, the convolution steps m columns at a time, and its kernel holds m copies of the weights, each shifted by one
step and filled up with zeros. The result has the same numbers in the same order, so that a RESHAPE gives them back.

What it costs, in relation to the original, per output (k columns of kernel, stride s, c channels, l channels at once):

    R(m) = ceil(m·c / l) · (k + (m - 1)·s)  /  (m · ceil(c / l) · k)

The kernel grows to k + (m - 1)·s columns, m outputs share one pass over it, and a pass takes one turn for each l
channels. Where m does not divide the columns, the last block computes some for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.layers import VALID, layer, window
from hasten.rewrites.patterns import each, insert_reshape, made_from, set_option, target_shape
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.edit.graph import Array, EditedGraph
    from hasten.rewrites.layers import Layer, Window

# Output channels that one turn of XNNPACK's float kernels computes on AVX2 and AVX-512; 8 on NEON.
_LANES: Final = 16
# Narrower kernels, the 3x3 stems of image models above all, took 1.05 to 1.54 of their time when widened: XNNPACK has
# kernels of its own for them, and every shift adds a third of the work.
_NARROWEST_KERNEL: Final = 5
# The estimate leaves out what the new operators around the convolution cost.
_MOST_COST: Final = 0.75
_COST_OF_SLICE: Final = 0.02
_MOST_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class _Widening:
    """`m` places along one side (0 height, 1 width) as channels; `cost` in relation to the original's, as estimated."""

    side: int
    m: int
    blocks: int
    cost: float


def widen_convolutions(graph: EditedGraph) -> list[Change]:
    """CONV_2D along its width, and along its height where the output is one column wide: a convolution over time."""
    changes = []
    for operator in each(graph, "CONV_2D"):
        found = layer(graph, operator)
        slid = None if found is None else window(graph, operator, (found.weights.shape[1], found.weights.shape[2]))
        if found is None or slid is None or found.weights.shape[3] != graph.shape(operator.inputs[0])[3]:
            continue
        best = min(_widenings(found, slid), key=lambda choice: (choice.cost, choice.m), default=None)
        if best is not None and best.cost <= _MOST_COST:
            changes.append(_widened(graph, found, slid, best))
    return changes


def _widenings(found: Layer, slid: Window) -> Iterator[_Widening]:
    """All that can be chosen, with what each is estimated to cost."""
    channels, *_ = found.weights.shape
    for side in (0, 1):
        count, kernel, stride = slid.counts()[side], slid.kernel[side], slid.strides[side]
        # Rows stand next to each other in memory only if there is one column.
        is_whole = side == 1 or slid.counts()[1] == 1
        if not is_whole or kernel < _NARROWEST_KERNEL or slid.dilations[side] != 1:
            continue
        turns = -(-channels // _LANES)
        for m in range(2, min(count, _LANES) + 1):
            blocks = -(-count // m)
            wider = kernel + (m - 1) * stride
            cost = -(-m * channels // _LANES) * wider / (m * turns * kernel) * (blocks * m / count)
            size = found.weights.nbytes // kernel * wider * m
            if size <= _MOST_BYTES:
                yield _Widening(side, m, blocks, cost + (_COST_OF_SLICE if count % m else 0))


def _widened(graph: EditedGraph, found: Layer, slid: Window, chosen: _Widening) -> Change:
    old = found.operator
    (result,) = old.outputs
    name, side, m = graph.name(result), chosen.side, chosen.m
    weights = graph.add_constant(_shifted(found.weights, side + 1, m, slid.strides[side]), f"{name}/wide_weights")
    bias = graph.add_constant(np.tile(found.bias, m), f"{name}/wide_bias")
    source = _padded(graph, found, slid, chosen)
    shape = graph.shape(result)
    blocks = list(shape)
    blocks[side + 1], blocks[3] = chosen.blocks, shape[3] * m
    wide = graph.add_tensor(blocks, result, f"{name}/wide")
    made = graph.insert_copy(old, [source, weights, bias], [wide], before=old)
    set_option(made, "padding", VALID)
    set_option(made, ("strideH", "strideW")[side], slid.strides[side] * m)
    whole = list(shape)
    whole[side + 1] = chosen.blocks * m
    _reshape_back(graph, found, wide, whole)
    graph.remove(old)
    return made_from(made, [old], columns=m, estimate=round(chosen.cost, 3))


def _shifted(weights: Array, axis: int, m: int, stride: int) -> Array:
    """Weights for m·channels outputs: those of the place i are shifted by i steps, with zeros around them."""
    channels, kernel = weights.shape[0], weights.shape[axis]
    shape = list(weights.shape)
    shape[0], shape[axis] = m * channels, kernel + (m - 1) * stride
    made = np.zeros(shape, np.float32)
    for place in range(m):
        taps = [slice(None)] * weights.ndim
        taps[0] = slice(place * channels, (place + 1) * channels)
        taps[axis] = slice(place * stride, place * stride + kernel)
        made[tuple(taps)] = weights
    return made


def _padded(graph: EditedGraph, found: Layer, slid: Window, chosen: _Widening) -> int:
    """The input with the zeros that SAME stood for, and those that the last block reads beyond the end."""
    old = found.operator
    x: int = old.inputs[0]
    counts = list(slid.counts())
    counts[chosen.side] = chosen.blocks * chosen.m
    widths = [(0, 0)]
    for side, (size, first) in enumerate(zip(slid.sizes, slid.before(), strict=True)):
        needed = (counts[side] - 1) * slid.strides[side] + slid.reach(side)
        widths.append((first, max(needed - size - first, 0)))
    widths.append((0, 0))
    if not any(map(any, widths)):
        return x
    shape = [size + sum(width) for size, width in zip(graph.shape(x), widths, strict=True)]
    padded = graph.add_tensor(shape, x, f"{graph.name(old.outputs[0])}/padded")
    paddings = graph.add_constant(np.asarray(widths, np.int32), "paddings")
    graph.insert("PAD", [x, paddings], [padded], before=old, chosen=options("PadOptions"))
    return padded


def _reshape_back(graph: EditedGraph, found: Layer, wide: int, whole: list[int]) -> None:
    """Let the columns stand in their places again, and drop those beyond the end."""
    old = found.operator
    (result,) = old.outputs
    is_whole = tuple(whole) == graph.shape(result)
    columns = result if is_whole else graph.add_tensor(whole, result, f"{graph.name(result)}/columns")
    insert_reshape(graph, wide, columns, before=old)
    if not is_whole:
        begin = graph.add_constant(np.zeros(4, np.int32), "begin")
        size = graph.add_constant(np.asarray(target_shape(graph, result), np.int32), "size")
        graph.insert("SLICE", [columns, begin, size], [result], before=old, chosen=options("SliceOptions"))


WIDENING = Rewrite("widening", widen_convolutions, ROUNDING)
