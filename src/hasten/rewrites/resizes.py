"""Nearest-neighbor resizes by whole factors: found where they are spelled by copies, and spelled by copies on request.

XNNPACK leaves RESIZE_NEAREST_NEIGHBOR out; CONCATENATION and RESHAPE keep a graph in one partition.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.concatenations import MOST_INPUTS
from hasten.rewrites.patterns import (
    VALUE_TYPES,
    cone,
    each,
    insert_reshape,
    integers,
    is_float,
    made_from,
    replace,
    scalar,
)
from hasten.rewrites.rewrite import Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.edit.graph import Array, EditedGraph, Operator
    from hasten.model.graph import Shape

# A proof by numbers takes 30 ms for as many.
_MOST_NUMBERS: Final = 2**23


def recover_resizes(graph: EditedGraph) -> list[Change]:
    """Copies along new axes between two RESHAPEs, GATHERs that repeat rows or columns, one resize after another."""
    changes = []
    for operator in each(graph, "RESHAPE"):
        changes += _from_copies(graph, operator)
    for operator in each(graph, "GATHER"):
        changes += _from_gather(graph, operator)
    for operator in each(graph, "RESIZE_NEAREST_NEIGHBOR"):
        changes += _from_two(graph, operator)
    return changes


def _from_copies(graph: EditedGraph, last: Operator) -> list[Change]:
    """x as [n, h, 1, w, 1, c], broadcast along the new axes, as [n, h·f, w·g, c]."""
    copy = graph.producer(last.inputs[0])
    copied = None if copy is None else _copied(graph, copy)
    first = None if copied is None else graph.producer(copied)
    if copy is None or copied is None or first is None or not graph.is_op(first, "RESHAPE"):
        return []
    x, result = first.inputs[0], last.outputs[0]
    tensors = (x, copied, copy.outputs[0], result)
    chain = cone(graph, last, [x])
    is_fixed = all(map(graph.is_fixed, tensors))
    if chain is None or not is_fixed or not _can_resize(graph, x) or not _are_repeated(*map(graph.shape, tensors)):
        return []
    return [_resize(graph, chain, x, graph.shape(result))]


def _are_repeated(shape: Shape, spread: Shape, copied: Shape, wanted: Shape) -> bool:
    """Whether numbers that are reshaped, broadcast and reshaped again come out with every row and column repeated."""
    is_small = prod(wanted) <= _MOST_NUMBERS
    if len(shape) != 4 or len(wanted) != 4 or not is_small or not _repeats(shape[1:3], wanted[1:3]):
        return False
    aligned = (1,) * (len(copied) - len(spread)) + tuple(spread)
    if any(old not in {1, new} for old, new in zip(aligned, copied, strict=True)):
        return False
    numbers = np.arange(prod(shape), dtype=np.int32)
    found = np.broadcast_to(numbers.reshape(spread), copied).reshape(wanted)
    rows, columns = wanted[1] // shape[1], wanted[2] // shape[2]
    expected = numbers.reshape(shape).repeat(rows, axis=1).repeat(columns, axis=2)
    return rows * columns > 1 and np.array_equal(found, expected)


def _copied(graph: EditedGraph, operator: Operator) -> int | None:
    """The value that an operator copies along axes of size 1."""
    if graph.is_op(operator, "BROADCAST_TO", "TILE"):
        source: int = operator.inputs[0]
        return source
    if graph.is_op(operator, "MUL") and is_float(graph, *operator.inputs):
        places = [place for place in (0, 1) if scalar(graph, operator.inputs[1 - place]) == 1]
        return operator.inputs[places[0]] if places and not graph.option(operator, "fusedActivationFunction") else None
    return None


def _from_gather(graph: EditedGraph, operator: Operator) -> list[Change]:
    x, indices = operator.inputs
    axis, shape = int(graph.option(operator, "axis")), graph.shape(x)
    taken = integers(graph, indices)
    axis %= max(len(shape), 1)
    if taken is None or len(shape) != 4 or axis not in {1, 2} or graph.option(operator, "batchDims"):
        return []
    wanted = graph.shape(operator.outputs[0])
    factor = len(taken) // max(shape[axis], 1)
    is_repeat = factor > 1 and taken == tuple(np.repeat(np.arange(shape[axis]), factor))
    if not is_repeat or not _can_resize(graph, x) or not _repeats(shape[1:3], wanted[1:3]):
        return []
    return [_resize(graph, [operator], x, wanted)]


def _from_two(graph: EditedGraph, operator: Operator) -> list[Change]:
    before = graph.producer(operator.inputs[0])
    if before is None or not graph.is_op(before, "RESIZE_NEAREST_NEIGHBOR"):
        return []
    x, wanted = before.inputs[0], graph.shape(operator.outputs[0])
    chain = cone(graph, operator, [x])
    is_known = chain is not None and _factors(graph, before) is not None and _factors(graph, operator) is not None
    if chain is None or not is_known or not _repeats(graph.shape(x)[1:3], wanted[1:3]):
        return []
    return [_resize(graph, chain, x, wanted)]


def _can_resize(graph: EditedGraph, x: int) -> bool:
    return graph.is_fixed(x) and graph.dtype(x) in VALUE_TYPES


def _resize(graph: EditedGraph, old: list[Operator], x: int, wanted: Sequence[int]) -> Change:
    size = graph.add_constant(np.asarray(wanted[1:3], np.int32), "size")
    return replace(graph, old, "RESIZE_NEAREST_NEIGHBOR", [x, size], options("ResizeNearestNeighborOptions"))


def copy_instead_of_resizing(graph: EditedGraph) -> list[Change]:
    """Resizes by whole factors as CONCATENATIONs: along the channels for columns, then of whole rows."""
    changes = []
    for operator in each(graph, "RESIZE_NEAREST_NEIGHBOR"):
        factors = _factors(graph, operator)
        if factors is None or max(factors) > MOST_INPUTS or max(factors) == 1:
            continue
        x, result = operator.inputs[0], operator.outputs[0]
        batch, height, width, channels = graph.shape(x)
        rows, columns = factors
        value = _copies(graph, operator, x, columns, (batch, height, width, columns * channels))
        if rows > 1:
            flat = graph.add_tensor((batch, height, 1, width * columns * channels), x, f"{graph.name(result)}/rows")
            insert_reshape(graph, value, flat, before=operator)
            value = _copies(graph, operator, flat, rows, (batch, height, rows, width * columns * channels))
        made = insert_reshape(graph, value, result, before=operator)
        graph.remove(operator)
        changes.append(made_from(made, [operator]))
    return changes


def _copies(graph: EditedGraph, before: Operator, value: int, count: int, shape: tuple[int, ...]) -> int:
    """A value several times, along the axis that the shape has more of."""
    if count == 1:
        return value
    axis = next(axis for axis, size in enumerate(shape) if size != graph.shape(value)[axis])
    joined = graph.add_tensor(shape, value, f"{graph.name(before.outputs[0])}/copies")
    version = 1 if graph.dtype(value) == "float32" else 2
    chosen = options("ConcatenationOptions", axis=axis)
    graph.insert("CONCATENATION", [value] * count, [joined], before=before, chosen=chosen, version=version)
    return joined


def _factors(graph: EditedGraph, operator: Operator) -> tuple[int, int] | None:
    """By how much a resize copies rows and columns; None if it does anything else."""
    x, result = operator.inputs[0], operator.outputs[0]
    sizes, wanted = graph.shape(x)[1:3], graph.shape(result)[1:3]
    align, half = (bool(graph.option(operator, name)) for name in ("alignCorners", "halfPixelCenters"))
    is_known = len(graph.shape(x)) == 4 and integers(graph, operator.inputs[1]) == wanted and 0 not in sizes
    if not is_known or not _repeats(sizes, wanted, align=align, half=half):
        return None
    return wanted[0] // sizes[0], wanted[1] // sizes[1]


def _repeats(sizes: Sequence[int], wanted: Sequence[int], *, align: bool = False, half: bool = False) -> bool:
    """Whether a resize repeats every row and column equally often, in the arithmetic of the engine."""
    return all(
        size > 0 and much % size == 0 and (_sources(size, much, align, half) == np.arange(much) // (much // size)).all()
        for size, much in zip(sizes, wanted, strict=True)
    )


def _sources(size: int, wanted: int, align: bool, half: bool) -> Array:
    """Which row each row of the result is, as the engine's kernel finds it in single precision."""
    one = np.float32(1)
    steps = (size - 1, wanted - 1) if align and wanted > 1 else (size, wanted)
    scale = np.float32(steps[0]) / np.float32(steps[1])
    places = (np.arange(wanted, dtype=np.float32) + (one / 2 if half else one * 0)) * scale
    found = np.floor(places + one / 2) if align else np.floor(places)
    rows: Array = np.clip(found, 0, size - 1).astype(np.int64)
    return rows


RESIZES = Rewrite("resizes", recover_resizes)
RESIZES_AS_COPIES = Rewrite("resizes-as-copies", copy_instead_of_resizing, is_form=True)
