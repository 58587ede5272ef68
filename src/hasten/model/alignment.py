"""Kernels back to nodes: the cheapest way to explain a partition's kernels, in their order, by its nodes in theirs.

A node has one main kernel, perhaps companions, or none if it was folded into a neighbor. The cheapest explanation is
found by dynamic programming; where another one is as cheap for a kernel, that kernel's node is called ambiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.kernels import OFTEN_WITHOUT_KERNEL, explains, kind_of_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

# Prices: what is usual costs nothing, what is possible a little, what no rule explains a lot (but it never fails).
# All are multiples of 0.25, so that sums are exact and equal prices are equal.
_COMPANION: Final = 0.25
_WITHOUT_OFTEN: Final = 0.5
_WITHOUT_SELDOM: Final = 1.5
_UNEXPLAINED: Final = 6.0
# More only where there are more kernels than this for each node.
_MOST_KERNELS_A_NODE: Final = 5


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
    prices = _Prices([kind_of_kernel(tag) for tag in kernels], len(operators))
    before = _cheapest_before(operators, prices)
    after = np.full(len(kernels) + 1, math.inf)
    after[-1] = 0.0
    owners = _Owners(len(kernels))
    for node in reversed(range(len(operators))):
        cheapest = np.full_like(after, math.inf)
        for count, price in enumerate(prices.of(operators[node])):
            rest = price + after[count:]
            np.minimum(cheapest[: len(rest)], rest, out=cheapest[: len(rest)])
            best = np.flatnonzero(before[node, : len(rest)] + rest == before[-1, -1])
            owners.add(node, best, count, price[best] >= _UNEXPLAINED)
        after = cheapest
    return owners.assignments()


def _cheapest_before(operators: Sequence[str], prices: _Prices) -> Floats:
    """The cheapest price of serving the first n nodes with the first k kernels, for every n and k."""
    table = np.full((len(operators) + 1, prices.kernels + 1), math.inf, dtype=np.float32)
    table[0, 0] = 0.0
    for node, operator in enumerate(operators):
        for count, price in enumerate(prices.of(operator)):
            reached = table[node + 1, count:]
            np.minimum(reached, table[node, : len(reached)] + price, out=reached)
    return table


class _Prices:
    """What each way to serve an operator costs, by the number of kernels and the first of them."""

    def __init__(self, kinds: Sequence[str], nodes: int) -> None:
        self.kernels = len(kinds)
        self._kinds = tuple(kinds)
        self._most = max(_MOST_KERNELS_A_NODE, math.ceil(len(kinds) / nodes))
        self._known: dict[str, list[Floats]] = {}

    def of(self, operator: str) -> list[Floats]:
        """For no kernel, one kernel, and so on: the price with each kernel as the first."""
        if operator not in self._known:
            most = min(self._most, self.kernels)
            self._known[operator] = [self._prices(operator, count) for count in range(most + 1)]
        return self._known[operator]

    def _prices(self, operator: str, count: int) -> Floats:
        windows = [self._kinds[first : first + count] for first in range(self.kernels - count + 1)]
        by_window = {window: _price(operator, window) for window in set(windows)}
        return np.array([by_window[window] for window in windows], dtype=np.float32)


def _price(operator: str, kinds: Sequence[str]) -> float:
    if not kinds:
        return _WITHOUT_OFTEN if operator in OFTEN_WITHOUT_KERNEL else _WITHOUT_SELDOM
    if not explains(operator, kinds):
        return _UNEXPLAINED * len(kinds)
    return _COMPANION * (len(kinds) - 1)


class _Owners:
    """The nodes that own a kernel in one of the cheapest explanations; to be told of the last node first."""

    def __init__(self, kernels: int) -> None:
        self._node = np.zeros(kernels, dtype=np.int64)
        self._newest = np.full(kernels, -1, dtype=np.int64)
        self._nodes_found = np.zeros(kernels, dtype=np.int64)
        self._guessed = np.zeros(kernels, dtype=np.bool_)

    def add(self, node: int, first: NDArray[np.int64], count: int, guessed: NDArray[np.bool_]) -> None:
        """This node may own this number of kernels from each of these positions on."""
        for offset in range(count):
            kernels = first + offset
            new = self._newest[kernels] != node
            self._nodes_found[kernels[new]] += 1
            self._guessed[kernels] = guessed | (self._guessed[kernels] & ~new)
            self._newest[kernels] = self._node[kernels] = node

    def assignments(self) -> list[Assignment]:
        """The first of its nodes for each kernel, and whether there are others."""
        found = zip(self._node.tolist(), self._nodes_found.tolist(), self._guessed.tolist(), strict=True)
        return [
            Assignment(node, "guess" if guessed else "exact" if nodes == 1 else "ambiguous")
            for node, nodes, guessed in found
        ]
