"""Writes SPLIT, SPLIT_V, UNPACK, GATHER of neighbors and STRIDED_SLICE that drops axes as SLICE and RESHAPE.

Delegates take SLICE almost everywhere; each of the others is refused by some, and splits the graph there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import VALUE_TYPES, each, insert_reshape, integers, made_from, open_axes
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.edit.graph import EditedGraph, Operator


# LiteRT's own kernel takes no more.
_MOST_AXES: Final = 5
_MASKS: Final = ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where a part of a value begins, how large it is, and the tensor that holds it, maybe in another shape."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    result: int


def slice_instead(graph: EditedGraph) -> list[Change]:
    """Parts of a value, each by a SLICE of its own."""
    changes = []
    for operator in each(graph, "SPLIT", "SPLIT_V", "UNPACK", "STRIDED_SLICE", "GATHER"):
        source, pieces = _pieces(graph, operator)
        if not pieces or not _fits(graph, source, pieces):
            continue
        used = [piece for piece in pieces if graph.readers(piece.result) or piece.result in graph.outputs]
        made = [_slice(graph, operator, source, piece) for piece in used]
        if made:
            graph.remove(operator)
            changes.append(made_from(made[-1], [operator]))
    return changes


def _fits(graph: EditedGraph, source: int, pieces: Sequence[_Piece]) -> bool:
    """Whether a SLICE can take the parts, and XNNPACK the SLICE: it refuses sizes that are open.

    Shapes that a model works out as it is loaded are none of a delegate's business, and must stay known by then.
    """
    is_known = not open_axes(graph, source) and len(graph.shape(source)) <= _MOST_AXES
    return is_known and graph.dtype(source) in VALUE_TYPES and all(graph.shape(piece.result) for piece in pieces)


def _pieces(graph: EditedGraph, operator: Operator) -> tuple[int, list[_Piece]]:
    """The value that an operator cuts, and its parts; none if it does anything else."""
    op = graph.op(operator)
    if op in {"SPLIT", "SPLIT_V", "UNPACK"}:
        return _split(graph, operator)
    source = operator.inputs[0]
    found = _gathered(graph, operator) if op == "GATHER" else _strided(graph, operator)
    return source, [] if found is None else [found]


def _split(graph: EditedGraph, operator: Operator) -> tuple[int, list[_Piece]]:
    op, results = graph.op(operator), operator.outputs
    source = operator.inputs[1 if op == "SPLIT" else 0]
    shape = graph.shape(source)
    if op == "UNPACK":
        axes: tuple[int, ...] | None = (int(graph.option(operator, "axis")),)
    else:
        axes = integers(graph, operator.inputs[0 if op == "SPLIT" else 2])
    if not axes or not shape:
        return source, []
    axis = axes[0] % len(shape)
    # UNPACK drops the axis, so that its results do not tell their size.
    sizes = [1 if op == "UNPACK" else graph.shape(result)[axis] for result in results]
    if sum(sizes) != shape[axis]:
        return source, []
    begins = [0, *accumulate(sizes)]
    return source, [
        _along(shape, axis, begin, size, result) for begin, size, result in zip(begins, sizes, results, strict=False)
    ]


def _gathered(graph: EditedGraph, operator: Operator) -> _Piece | None:
    source, indices = operator.inputs
    shape, taken = graph.shape(source), integers(graph, indices)
    if not taken or not shape or graph.option(operator, "batchDims"):
        return None
    axis = int(graph.option(operator, "axis")) % len(shape)
    is_run = taken == tuple(range(taken[0], taken[0] + len(taken)))
    if taken[0] < 0 or not is_run or taken[-1] >= shape[axis]:
        return None
    return _along(shape, axis, taken[0], len(taken), operator.outputs[0])


def _strided(graph: EditedGraph, operator: Operator) -> _Piece | None:
    """Without axes to drop, XNNPACK takes the operator as it is."""
    source = operator.inputs[0]
    shape = graph.shape(source)
    begins, ends, strides = (integers(graph, index) for index in operator.inputs[1:4])
    masks = {name: int(graph.option(operator, name + "Mask")) for name in _MASKS}
    # An axis to drop that has no begin is not worth a thought.
    odd = masks["begin"] & masks["shrinkAxis"]
    others = odd or masks["ellipsis"] or masks["newAxis"] or graph.option(operator, "offset", False)
    if begins is None or ends is None or strides is None or others or not masks["shrinkAxis"]:
        return None
    if set(strides) != {1} or not len(begins) == len(ends) == len(strides) <= len(shape):
        return None
    begin, size = [0] * len(shape), list(shape)
    for axis in range(len(begins)):
        bit = 1 << axis
        first = 0 if masks["begin"] & bit else _place(begins[axis], shape[axis])
        last = shape[axis] if masks["end"] & bit else _place(ends[axis], shape[axis])
        if masks["shrinkAxis"] & bit:
            last = first + 1
        begin[axis], size[axis] = first, last - first
    if min(size) < 1 or any(first + much > whole for first, much, whole in zip(begin, size, shape, strict=True)):
        return None
    return _Piece(tuple(begin), tuple(size), operator.outputs[0])


def _place(index: int, size: int) -> int:
    """An index from either end, within the axis."""
    return min(max(index + size if index < 0 else index, 0), size)


def _along(shape: Sequence[int], axis: int, begin: int, size: int, result: int) -> _Piece:
    """A part along one axis."""
    begins, sizes = [0] * len(shape), list(shape)
    begins[axis], sizes[axis] = begin, size
    return _Piece(tuple(begins), tuple(sizes), result)


def _slice(graph: EditedGraph, before: Operator, source: int, piece: _Piece) -> Operator:
    is_whole = graph.shape(piece.result) == piece.size
    target = piece.result if is_whole else graph.add_tensor(piece.size, source, f"{graph.name(piece.result)}/slice")
    begin = graph.add_constant(np.asarray(piece.begin, np.int32), "begin")
    size = graph.add_constant(np.asarray(piece.size, np.int32), "size")
    made = graph.insert("SLICE", [source, begin, size], [target], before=before, chosen=options("SliceOptions"))
    return made if is_whole else insert_reshape(graph, target, piece.result, before=before)


SLICES = Rewrite("slices", slice_instead, is_form=True)
