"""Orders of dimensions: what a TRANSPOSE does to sizes and axes, and what becomes of an order behind a RESHAPE."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hasten.model.edit.graph import EditedGraph, Operator
    from hasten.model.graph import Shape

Order = tuple[int, ...]
"""Dimension `order[i]` of the source becomes dimension `i`, as in TRANSPOSE's own input."""


def order_of(graph: EditedGraph, operator: Operator) -> Order | None:
    """The order that a TRANSPOSE brings about; None for other operators, and where it is known at run time only."""
    values = graph.constant(operator.inputs[1]) if graph.is_op(operator, "TRANSPOSE") else None
    if values is None:
        return None
    order = tuple(int(axis) % max(1, values.size) for axis in values.reshape(-1))
    rank = len(graph.shape(operator.inputs[0]))
    return order if len(order) == rank and is_order(order) else None


def is_order(order: Order) -> bool:
    """Whether every dimension occurs once."""
    return sorted(order) == list(range(len(order)))


def is_identity(order: Order) -> bool:
    """Whether everything stays in its place."""
    return list(order) == list(range(len(order)))


def inverse(order: Order) -> Order:
    """The order that undoes another; at `axis` stands where the source's dimension `axis` went."""
    return tuple(order.index(axis) for axis in range(len(order)))


def composed(first: Order, second: Order) -> Order:
    """The one order that does what two do, one after the other."""
    return tuple(first[axis] for axis in second)


def ordered(sizes: Shape, order: Order) -> Shape:
    """The sizes of a tensor after a TRANSPOSE."""
    return tuple(sizes[axis] for axis in order)


def without(order: Order, gone: Collection[int]) -> Order:
    """What is left of an order when dimensions of the source are dropped."""
    numbers = {axis: number for number, axis in enumerate(axis for axis in sorted(order) if axis not in gone)}
    return tuple(numbers[axis] for axis in order if axis not in gone)


def moves_only_ones(order: Order, sizes: Shape) -> bool:
    """Whether only dimensions of size 1 change places, so that every element stays where it is in memory."""
    solid = _solid(order, sizes)
    return solid == sorted(solid)


def through_reshape(order: Order, before: Shape, after: Shape) -> Order | None:
    """The order of a RESHAPE's output if its input has this order; None where a RESHAPE would mix elements then.

    A RESHAPE splits and merges neighbors: (N, C, H, W) to (N, C, H·W). It can do the same in another order as long as
    those that it merges, or takes apart, stay neighbors.
    """
    groups = _groups(before, after)
    if groups is None:
        return None
    starts = {sources[0]: (sources, targets) for sources, targets in groups}
    solid, found = _solid(order, before), list[int]()
    while solid:
        sources, targets = starts.get(solid[0], ([], []))
        if not sources or solid[: len(sources)] != sources:
            return None
        solid, found = solid[len(sources) :], found + targets
    return _with_ones(found, after)


def _solid(axes: Sequence[int], sizes: Shape) -> list[int]:
    return [axis for axis in axes if sizes[axis] != 1]


def _groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Which dimensions of one shape are which of another: the smallest runs with equal products. An open one (-1) is
    only like another open one."""
    left, right = _solid(range(len(before)), before), _solid(range(len(after)), after)
    groups = []
    while left and right:
        sources, targets = [left.pop(0)], [right.pop(0)]
        size, wanted = before[sources[0]], after[targets[0]]
        if (size < 0) != (wanted < 0):
            return None
        while size != wanted:
            rest, taken, sizes = (left, sources, before) if size < wanted else (right, targets, after)
            if not rest or sizes[rest[0]] < 0:
                return None
            factor = sizes[rest[0]]
            taken.append(rest.pop(0))
            size, wanted = (size * factor, wanted) if taken is sources else (size, wanted * factor)
        groups.append((sources, targets))
    return None if left or right else groups


def _with_ones(solid: list[int], sizes: Shape) -> Order:
    """An order of all dimensions: one of size 1 follows the dimension that it follows in the shape."""
    leading = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    found = list(range(leading))
    for axis in solid:
        found.append(axis)
        follower = axis + 1
        while follower < len(sizes) and sizes[follower] == 1:
            found.append(follower)
            follower += 1
    return tuple(found)
