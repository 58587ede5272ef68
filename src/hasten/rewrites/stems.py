"""Turns strided slices that are concatenated ("focus", space to depth) into RESHAPE, TRANSPOSE and RESHAPE.

Exporters write the stem of a YOLO network as `concat(x[:, ::2, ::2], x[:, 1::2, ::2], …)`. XNNPACK takes no strided
slices, and the engine's own kernel copies single elements. A block of b elements is a dimension, too: (H, W) is
(H/b, b, W/b, b), and a TRANSPOSE brings the blocks to where they are concatenated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, permutations
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.orders import Order, moves_only_ones, order_of, ordered
from hasten.rewrites.patterns import nodes_of
from hasten.rewrites.reshapes import can_be_written
from hasten.rewrites.rewrite import EXACT, ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator
    from hasten.model.graph import Shape

# What a TRANSPOSE may have, in LiteRT's own kernel and in XNNPACK.
_MOST_DIMENSIONS: Final = 6


@dataclass(frozen=True, slots=True)
class _View:
    """Every `strides[axis]`-th element of a tensor along each axis, from `begins[axis]` on."""

    begins: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, outer: _View) -> _View:
        """This view of another view, as one."""
        begins = (outer.begins[a] + begin * outer.strides[a] for a, begin in enumerate(self.begins))
        return _View(tuple(begins), tuple(a * b for a, b in zip(self.strides, outer.strides, strict=True)))


@dataclass(frozen=True, slots=True)
class _Stem:
    """Slices of one tensor that are together the whole of it, and the concatenation that joins them."""

    source: int
    concatenation: Operator
    axis: int
    blocks: tuple[int, ...]
    """How many elements make a block, for each axis."""
    views: tuple[_View, ...]

    @property
    def blocked(self) -> tuple[int, ...]:
        """The axes along which there are blocks."""
        return tuple(axis for axis, block in enumerate(self.blocks) if block > 1)

    def number(self, view: _View, axes: tuple[int, ...]) -> int:
        """The place of a slice if slices are counted along these axes, the last of them fastest."""
        number = 0
        for axis in axes:
            number = number * self.blocks[axis] + view.begins[axis]
        return number

    def counted_axes(self) -> tuple[int, ...] | None:
        """The axes in the order in which the slices are counted along them; None where they stand in no such order."""
        for axes in permutations(self.blocked):
            if all(self.number(view, axes) == place for place, view in enumerate(self.views)):
                return axes
        return None


def rewrite_stems(graph: EditedGraph, *, reorder: bool) -> list[Change]:
    """Space-to-depth by slices; `reorder` takes those in an order that only a convolution behind them can undo."""
    changes = []
    for operator in list(graph.operators):
        stem = _stem(graph, operator) if graph.is_op(operator, "CONCATENATION") else None
        if stem is None:
            continue
        axes = stem.counted_axes()
        if axes is not None and not reorder:
            changes.append(_write(graph, stem, axes))
        elif axes is None and reorder and _reorder_weights(graph, stem):
            changes.append(_write(graph, stem, stem.blocked))
    return changes


# -- finding


def _stem(graph: EditedGraph, concatenation: Operator) -> _Stem | None:
    parts = concatenation.inputs
    if len(parts) < 2 or int(graph.option(concatenation, "fusedActivationFunction")):
        return None
    views = [_views(graph, part) for part in parts]
    for source in views[0]:
        if all(source in found for found in views) and graph.are_stored_alike(source, *parts, *concatenation.outputs):
            rank = len(graph.shape(source))
            axis = int(graph.option(concatenation, "axis")) % max(1, rank)
            seen = tuple(found[source] for found in views)
            stem = _Stem(source, concatenation, axis, seen[0].strides, seen)
            if _is_whole(graph, stem):
                return stem
    return None


def _views(graph: EditedGraph, tensor: int) -> dict[int, _View]:
    """A tensor as a view of itself and of all tensors that it is sliced from."""
    rank = len(graph.shape(tensor))
    view = _View((0,) * rank, (1,) * rank)
    found = {tensor: view}
    producer = graph.producer(tensor)
    while producer is not None and (outer := _sliced(graph, producer)) is not None and len(outer.begins) == rank:
        tensor, view = producer.inputs[0], view.of(outer)
        found[tensor] = view
        producer = graph.producer(tensor)
    return found


def _sliced(graph: EditedGraph, operator: Operator) -> _View | None:
    """What a STRIDED_SLICE takes of its input; None for other operators, and for slices that do more."""
    unusual = ("ellipsisMask", "newAxisMask", "shrinkAxisMask", "offset")
    if not graph.is_op(operator, "STRIDED_SLICE") or any(graph.option(operator, name) for name in unusual):
        return None
    sizes = graph.sizes(operator.inputs[0])
    rows = [values for index in operator.inputs[1:] if (values := graph.constant(index)) is not None]
    if len(rows) != 3 or len({values.size for values in rows}) != 1 or rows[0].size > len(sizes):
        return None
    begins, strides = [0] * len(sizes), [1] * len(sizes)
    for axis, (begin, stride) in enumerate(zip(rows[0].reshape(-1), rows[2].reshape(-1), strict=True)):
        is_from_start = int(graph.option(operator, "beginMask")) >> axis & 1
        is_to_end = int(graph.option(operator, "endMask")) >> axis & 1
        begins[axis] = 0 if is_from_start else int(begin) + (sizes[axis] if begin < 0 else 0)
        strides[axis] = int(stride)
        is_open = sizes[axis] < 0
        is_whole = begins[axis] == 0 and strides[axis] == 1 and is_to_end
        if strides[axis] < 1 or begins[axis] < 0 or (is_open and not is_whole):
            return None
    return _View(tuple(begins), tuple(strides))


def _is_whole(graph: EditedGraph, stem: _Stem) -> bool:
    """Whether the slices take every element of the source once."""
    sizes = graph.sizes(stem.source)
    if len(sizes) + len(stem.blocked) > _MOST_DIMENSIONS or not can_be_written(sizes) or -1 in sizes[1:]:
        return False
    if any(view.strides != stem.blocks for view in stem.views) or prod(stem.blocks) != len(stem.views):
        return False
    is_open = sizes[0] == -1
    if any(sizes[axis] % stem.blocks[axis] for axis in stem.blocked) or (is_open and 0 in (*stem.blocked, stem.axis)):
        return False
    part = tuple(size // block for size, block in zip(sizes, stem.blocks, strict=True))
    if any(graph.sizes(index) != part for index in stem.concatenation.inputs):
        return False
    inside = all(begin < block for view in stem.views for begin, block in zip(view.begins, stem.blocks, strict=True))
    return inside and len({view.begins for view in stem.views}) == len(stem.views)


# -- writing


def _write(graph: EditedGraph, stem: _Stem, axes: tuple[int, ...]) -> Change:
    """Write a stem whose slices are counted along these axes; a TRANSPOSE behind it becomes part of its own."""
    last, groups = stem.concatenation, _groups(stem, axes)
    follower = graph.only_reader(last.outputs[0])
    order = None if follower is None else order_of(graph, follower)
    if follower is not None and order is not None and _can_follow(graph, stem, follower, order):
        last, groups = follower, [groups[axis] for axis in order]
    slices = [producer for part in stem.concatenation.inputs if (producer := graph.producer(part)) is not None]
    nodes = nodes_of([stem.concatenation, last, *slices])
    _insert(graph, stem, tuple(chain.from_iterable(groups)), last, nodes)
    graph.remove(stem.concatenation, last)
    graph.remove(*_unread(graph, slices))
    return Change(nodes)


def _can_follow(graph: EditedGraph, stem: _Stem, transpose: Operator, order: Order) -> bool:
    """Whether a TRANSPOSE can be part of the stem's own; an open first dimension must stay where it is."""
    is_in_place = order[0] == 0 or -1 not in graph.sizes(stem.source)
    return is_in_place and graph.are_stored_alike(stem.source, transpose.outputs[0])


def _groups(stem: _Stem, axes: tuple[int, ...]) -> list[list[int]]:
    """For each dimension of the concatenation the dimensions that make it, once blocks are dimensions, too."""
    places: dict[int, int] = {}
    place = 0
    for axis, block in enumerate(stem.blocks):
        places[axis] = place
        place += 1 if block == 1 else 2
    blocks = [places[axis] + 1 for axis in axes]
    return [[*(blocks if axis == stem.axis else ()), places[axis]] for axis in range(len(stem.blocks))]


def _split(sizes: Shape, blocks: tuple[int, ...]) -> Shape:
    pairs = ((size,) if block == 1 else (size // block, block) for size, block in zip(sizes, blocks, strict=True))
    return tuple(chain.from_iterable(pairs))


def _insert(graph: EditedGraph, stem: _Stem, order: Order, last: Operator, nodes: tuple[int, ...]) -> None:
    """Put the three operators before the last one that they replace; one of them will do if no element moves."""
    source, result = stem.source, last.outputs[0]
    name = graph.name(result)
    shape, sizes = (_split(found, stem.blocks) for found in (graph.shape(source), graph.sizes(source)))
    steps: list[tuple[str, int, Shape, int]] = []
    if not moves_only_ones(order, sizes):
        split = graph.add_tensor(shape, source, f"{name}/blocks")
        moved = graph.add_tensor(ordered(shape, order), source, f"{name}/moved")
        steps = [("RESHAPE", source, sizes, split), ("TRANSPOSE", split, order, moved)]
        source = moved
    steps.append(("RESHAPE", source, graph.sizes(result), result))
    for op, read, values, written in steps:
        chosen = options("ReshapeOptions", newShape=list(values)) if op == "RESHAPE" else options("TransposeOptions")
        parameter = graph.add_constant(np.array(values, np.int32), f"{name}/{op.lower()}")
        made = graph.insert(op, [read, parameter], [written], before=last, chosen=chosen)
        made.nodes = nodes


def _unread(graph: EditedGraph, slices: list[Operator]) -> list[Operator]:
    """Slices, and slices before them, that nobody reads any more."""
    unneeded = {id(operator) for operator in graph.unneeded()}
    found: list[Operator] = []
    waiting = list(slices)
    while waiting:
        operator = waiting.pop()
        if id(operator) in unneeded and graph.is_op(operator, "STRIDED_SLICE"):
            found.append(operator)
            producer = graph.producer(operator.inputs[0])
            waiting += [] if producer is None else [producer]
    return found


def _reorder_weights(graph: EditedGraph, stem: _Stem) -> bool:
    """Let a convolution behind a stem expect its slices in the order of `stem.blocked`; False where none can."""
    follower = graph.only_reader(stem.concatenation.outputs[0])
    if follower is None or not graph.is_op(follower, "CONV_2D") or stem.axis != len(stem.blocks) - 1:
        return False
    weights = follower.inputs[1]
    values = graph.constant(weights)
    channels = graph.shape(stem.concatenation.outputs[0])[-1]
    if values is None or not graph.is_read_only_by(weights, follower) or values.shape[-1] != channels:
        return False
    if graph.is_quantized(weights) and graph.tensor(weights).quantization.quantizedDimension != 0:
        return False
    numbers = [stem.number(view, stem.blocked) for view in stem.views]
    parts = np.split(values, len(numbers), -1)
    sorted_parts = [parts[place] for place in np.argsort(numbers)]
    made = graph.add_constant(np.concatenate(sorted_parts, -1), graph.name(weights), like=weights)
    graph.set_input(follower, 1, made)
    return True


SPACE_TO_DEPTH = Rewrite("space-to-depth", partial(rewrite_stems, reorder=False), EXACT)
SPACE_TO_DEPTH_REORDERED = Rewrite("space-to-depth-reordered", partial(rewrite_stems, reorder=True), ROUNDING)
"""As SPACE_TO_DEPTH, for slices in an order that no TRANSPOSE gives: the convolution behind adds in another order."""
