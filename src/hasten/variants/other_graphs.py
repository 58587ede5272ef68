"""What a variant's user should know of the graphs in the file that the recipe was not for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.variants.recipes import RECIPES

if TYPE_CHECKING:
    from hasten.model.graph import Graph, Signature, Subgraph
    from hasten.variants.selection import Selection


def left_as_they_were(original: Graph, variant: Graph, way_in: Signature, selection: Selection) -> list[str]:
    """Sentences on graphs that were left alone, weights they share, and signatures that change by the way."""
    notes, count, total = [], len(selection.subgraphs), len(original.subgraphs)
    if count < total:
        what = (
            f"the graph of signature {way_in.key!r} was"
            if count == 1
            else f"the {count} graphs that signature {way_in.key!r} runs were"
        )
        notes.append(f"only {what} quantised, of {total} in the file")
        if _holds_weights_twice(original, variant, selection):
            notes.append("weights that it shares with other graphs are in the file twice, quantised and as they were")
    touched = [
        repr(other.key)
        for other in original.signatures
        if other.subgraph != way_in.subgraph and original.run_by(other.subgraph) & selection.subgraphs
    ]
    if touched:
        notes.append(f"other signatures run quantised graphs too: {', '.join(touched)}")
    return notes


def called_in_float(original: Graph, subgraph: Subgraph) -> list[str]:
    """A sentence on weights that a static recipe does not reach, as loops and branches run them."""
    called = original.run_by(subgraph.index) - {subgraph.index}
    if not any(tensor.is_weight for index in called for tensor in original.subgraphs[index].tensors):
        return []
    callers = sorted({node.label for node in subgraph.nodes if node.called_subgraphs})
    recipes = [recipe.name for recipe in RECIPES if not recipe.needs_calibration]
    return [
        f"what {' and '.join(callers)} runs stays float, as calibration does not see into it;"
        f" {', '.join(recipes[:-1])} and {recipes[-1]} quantise that too"
    ]


def _holds_weights_twice(original: Graph, variant: Graph, selection: Selection) -> bool:
    """Whether constants that changed in the selected graphs are still what they were in others."""
    changed, kept = set(), set()
    for before, after in zip(original.subgraphs, variant.subgraphs, strict=True):
        for tensor in before.tensors:
            if tensor.is_weight:
                place, is_same = tensor.buffer_offset, after.tensors[tensor.index].dtype == tensor.dtype
                if before.index in selection.subgraphs and not is_same:
                    changed.add(place)
                elif before.index not in selection.subgraphs and is_same:
                    kept.add(place)
    return bool(changed & kept)
