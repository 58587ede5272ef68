"""The search for the smallest set of nodes that shows a problem. Pure: a test is a function from nodes to yes or no.

First halves, as most problems are one operator's, then bites from both ends, then delta debugging (Zeller and
Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) for nodes that are not neighbors. The order is
fixed, so that a search that goes on where another ended asks the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Nodes = tuple[int, ...]
Shows = Callable[[Nodes], bool]


def reductions(nodes: Nodes, shows: Shows) -> Iterator[Nodes]:
    """Smaller and smaller sets that show the problem, each as soon as it is known; the last has none to spare.

    `nodes` themselves must show it.
    """
    for step in (_halved, _trimmed, _thinned):
        for smaller in step(nodes, shows):
            nodes = smaller
            yield nodes


def _halved(nodes: Nodes, shows: Shows) -> Iterator[Nodes]:
    while len(nodes) > 1:
        middle = len(nodes) // 2
        half = next((part for part in (nodes[:middle], nodes[middle:]) if shows(part)), None)
        if half is None:
            return
        nodes = half
        yield nodes


def _trimmed(nodes: Nodes, shows: Shows) -> Iterator[Nodes]:
    """Bites of half, a quarter, … one node from either end."""
    size = len(nodes) // 2
    while size and len(nodes) > 1:
        size = min(size, len(nodes) - 1)
        shorter = next((part for part in (nodes[size:], nodes[:-size]) if shows(part)), None)
        if shorter is None:
            size //= 2
            continue
        nodes = shorter
        yield nodes


def _thinned(nodes: Nodes, shows: Shows) -> Iterator[Nodes]:
    """Without one piece of several; the pieces get smaller until each is one node."""
    pieces = 2
    while len(nodes) > 1:
        rest = next((rest for rest in _without_a_piece(nodes, pieces) if shows(rest)), None)
        if rest is not None:
            nodes, pieces = rest, max(2, pieces - 1)
            yield nodes
        elif pieces >= len(nodes):
            return
        else:
            pieces = min(2 * pieces, len(nodes))


def _without_a_piece(nodes: Nodes, pieces: int) -> Iterator[Nodes]:
    size = -(-len(nodes) // pieces)
    for begin in range(0, len(nodes), size):
        rest = nodes[:begin] + nodes[begin + size :]
        if rest:
            yield rest
