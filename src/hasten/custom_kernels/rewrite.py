"""Puts kernels into a model: a CUSTOM operator in the place of the nodes that each replaces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from hasten.custom_kernels.offer import Found
from hasten.custom_kernels.own import LAYER_NORM, NORM_TOLERANCE, OWN_KERNELS, own_kernels
from hasten.custom_kernels.user import TOLERANCE, user_kernels
from hasten.rewrites.rewrite import EXACT, Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hasten.custom_kernels.offer import Offer
    from hasten.engine.numba_kernels import ArrayType
    from hasten.model.edit.graph import EditedGraph

_PREFIX: Final = "kernel-"


@dataclass(frozen=True, slots=True)
class KernelRewrite:
    """A kernel as a rewrite: tried, checked and raced like any other.

    A model that it changed runs only on a plan that names the library with the kernel.
    """

    name: str
    find: Callable[[EditedGraph], Iterable[Found]]
    """The places in a graph where the kernel could stand."""
    tolerance: float = EXACT

    @property
    def rewrite(self) -> Rewrite:
        """The rewrite that puts the kernel wherever it could stand."""
        return Rewrite(self.name, self._apply, self.tolerance)

    def _apply(self, graph: EditedGraph) -> list[Change]:
        """In the main graph only: that is what a check can cut out."""
        if graph.index != 0:
            return []
        chosen = list(self.find(graph))
        for found in chosen:
            _insert(graph, found)
        return [Change(found.offer.nodes, {"kernel": found.offer.kernel}) for found in chosen]


def own_rewrites() -> tuple[KernelRewrite, ...]:
    """hasten's own kernels, one rewrite for each kind."""
    return tuple(
        KernelRewrite(
            f"{_PREFIX}{name.replace('_', '-')}",
            partial(own_kernels, kernel=name),
            NORM_TOLERANCE if name == LAYER_NORM else EXACT,
        )
        for name in OWN_KERNELS
    )


def user_rewrite(kernel: str, replaces: str, types: Sequence[ArrayType] = ()) -> KernelRewrite:
    """A user's kernel; `types` as `user_kernels` takes them."""
    find = partial(user_kernels, kernel=kernel, replaces=replaces, types=types)
    return KernelRewrite(f"{_PREFIX}{kernel}", find, TOLERANCE)


def put_kernel(graph: EditedGraph, offer: Offer) -> None:
    """Put a kernel into a graph that was just read: nodes and tensors have the numbers of its file."""
    by_node = {operator.nodes[0]: operator for operator in graph.operators}
    _insert(graph, Found(offer, tuple(by_node[node] for node in sorted(offer.nodes))))


def _insert(graph: EditedGraph, found: Found) -> None:
    offer, last = found.offer, found.operators[-1]
    # Before the last of them: its inputs are there by then, and nobody outside has read its outputs yet.
    graph.insert_custom(offer.custom_code, offer.inputs, offer.outputs, before=last, data=offer.data)
    graph.remove(*found.operators)
