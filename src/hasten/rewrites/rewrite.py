"""What a rewrite is: a change of a graph that keeps what it computes, with the error that its rounding may bring.

A rewrite promises nothing about speed: what it brings on a device is measured, and only what pays is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.model.edit.graph import EditedGraph
    from hasten.model.edit.model import EditedModel

EXACT: Final = 0.0
"""Outputs are bit-equal."""
ROUNDING: Final = 1e-6
"""The largest error in relation to the largest output, where sums are rounded in another order."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place that a rewrite changed: which nodes of the file it was, by index, and what may be told about it."""

    nodes: tuple[int, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A named change. `apply` changes the graph in place and tells where; it changes nothing if it finds nothing."""

    name: str
    apply: Callable[[EditedGraph], list[Change]]
    tolerance: float = EXACT
    is_form: bool = False
    """Whether it writes operators in a form that a delegate prefers, which may undo what other rewrites do."""
    undo_unused: Callable[[EditedGraph], bool] | None = None
    """For one that only opens the way for others: put back what none of them has used, and tell whether that is all."""


def apply(model: EditedModel, rewrites: Sequence[Rewrite], most_passes: int = 8) -> dict[str, list[Change]]:
    """Apply rewrites until none finds anything, as one opens the way for another; return the changes of each.

    Forms come last, once each. The model is cleaned if anything changed. All graphs are rewritten, bodies of loops
    included.
    """
    found: dict[str, list[Change]] = {rewrite.name: [] for rewrite in rewrites}
    simpler, forms = ([rewrite for rewrite in rewrites if rewrite.is_form is is_form] for is_form in (False, True))
    total = 0
    # How many changes there were when a rewrite found nothing: it need not look again before there are more.
    settled: dict[str, int] = {}
    for _ in range(most_passes):
        before = total
        for rewrite in simpler:
            if settled.get(rewrite.name) == total:
                continue
            changes = _changes(model, rewrite)
            found[rewrite.name] += changes
            total += len(changes)
            if not changes:
                settled[rewrite.name] = total
        if total == before:
            break
    for rewrite in forms:
        found[rewrite.name] += _changes(model, rewrite)
    is_changed = any(found.values())
    if len(rewrites) > 1:
        _undo_unused(model, rewrites, found)
    if is_changed:
        model.clean()
    return {name: changes for name, changes in found.items() if changes}


def _undo_unused(model: EditedModel, rewrites: Sequence[Rewrite], found: dict[str, list[Change]]) -> None:
    for rewrite in rewrites:
        if found[rewrite.name] and rewrite.undo_unused is not None:
            is_undone = [rewrite.undo_unused(graph) for graph in model.graphs]
            if all(is_undone):
                found[rewrite.name] = []


def _changes(model: EditedModel, rewrite: Rewrite) -> list[Change]:
    return [change for graph in model.graphs for change in rewrite.apply(graph)]
