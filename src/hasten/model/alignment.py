"""Kernels back to nodes: the cheapest way to explain a partition's kernels, in their order, by its nodes in theirs.

A node has one main kernel, perhaps companions, or none if it was folded into a neighbour. The cheapest explanation is
found by dynamic programming; where another one is as cheap for a kernel, that kernel's node is called ambiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.model.kernels import OFTEN_WITHOUT_KERNEL, explains, kind_of_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Prices: what is usual costs nothing, what is possible a little, what no rule explains a lot (but it never fails).
_COMPANION: Final = 0.25
_WITHOUT_OFTEN: Final = 0.5
_WITHOUT_SELDOM: Final = 1.5
_UNEXPLAINED: Final = 6.0
_MOST_KERNELS_A_NODE: Final = 4
# Nodes and kernels stay in step; looking further aside than this only costs time.
_BAND: Final = 48
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a kernel belongs: a position among the partition's nodes, and how sure that is."""

    node: int
    certainty: str
    """`exact`, `ambiguous` (another node explains it as well) or `guess` (no rule explains it)."""


def align(operators: Sequence[str], kernels: Sequence[str]) -> list[Assignment]:
    """For each kernel, by its tag, the node that it comes from."""
    if not operators:
        raise ValueError("kernels without nodes")
    kinds = [kind_of_kernel(tag) for tag in kernels]
    grid = _Grid(operators, kinds)
    forward, backward = grid.forward(), grid.backward()
    best = forward[len(operators)][len(kinds)]
    owners: list[dict[int, bool]] = [{} for _ in kinds]
    for node in range(len(operators)):
        for begin, end, price in grid.moves_of(node):
            total = forward[node][begin] + price + backward[node + 1][end]
            if total <= best + _SAME and math.isfinite(total):
                for kernel in range(begin, end):
                    owners[kernel][node] = price >= _UNEXPLAINED
    return [_assignment(found) for found in owners]


def _assignment(found: dict[int, bool]) -> Assignment:
    node = min(found)
    if found[node]:
        return Assignment(node, "guess")
    return Assignment(node, "exact" if len(found) == 1 else "ambiguous")


class _Grid:
    """All ways to give kernels to nodes, near the diagonal."""

    def __init__(self, operators: Sequence[str], kinds: Sequence[str]) -> None:
        self._operators, self._kinds = operators, kinds
        self._slope = len(kinds) / len(operators)
        self._band = _BAND + abs(len(kinds) - len(operators))

    def moves_of(self, node: int) -> Iterator[tuple[int, int, float]]:
        """(first kernel, end, price) of each way to serve a node."""
        centre = int(node * self._slope)
        for begin in range(max(0, centre - self._band), min(len(self._kinds), centre + self._band) + 1):
            for end in range(begin, min(begin + _MOST_KERNELS_A_NODE, len(self._kinds)) + 1):
                yield begin, end, self._price(node, begin, end)

    def forward(self) -> list[list[float]]:
        """The cheapest price of serving the first nodes with the first kernels."""
        table = self._empty_table()
        table[0][0] = 0.0
        for node in range(len(self._operators)):
            for begin, end, price in self.moves_of(node):
                table[node + 1][end] = min(table[node + 1][end], table[node][begin] + price)
        return table

    def backward(self) -> list[list[float]]:
        """The cheapest price of serving the remaining nodes with the remaining kernels."""
        table = self._empty_table()
        table[-1][-1] = 0.0
        for node in reversed(range(len(self._operators))):
            for begin, end, price in self.moves_of(node):
                table[node][begin] = min(table[node][begin], table[node + 1][end] + price)
        return table

    def _empty_table(self) -> list[list[float]]:
        return [[math.inf] * (len(self._kinds) + 1) for _ in range(len(self._operators) + 1)]

    def _price(self, node: int, begin: int, end: int) -> float:
        operator, kinds = self._operators[node], self._kinds[begin:end]
        if not kinds:
            return _WITHOUT_OFTEN if operator in OFTEN_WITHOUT_KERNEL else _WITHOUT_SELDOM
        if not explains(operator, kinds):
            return _UNEXPLAINED * len(kinds)
        return _COMPANION * (len(kinds) - 1)
