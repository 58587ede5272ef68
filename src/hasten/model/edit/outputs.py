"""Copies of a model with other outputs: inner tensors shown, so that any engine can tell what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.errors import UsageError
from hasten.model.build import DEFAULT_SIGNATURE
from hasten.model.edit.model import EditedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.edit.graph import EditedGraph
    from hasten.model.graph import Graph


def with_outputs(graph: Graph, tensors: Sequence[int], subgraph: int = 0) -> bytes:
    """The model with these tensors as further outputs, after its own; `shown_names` tells what they are called.

    A file without a signature gets one, as names are the only sure way to tell outputs apart.
    """
    known = graph.subgraphs[subgraph].tensors
    for index in tensors:
        if not 0 <= index < len(known) or known[index].is_constant:
            raise UsageError(f"Tensor {index} of {graph.path.name} is not computed by the model.")
    model = EditedModel.read(graph.path)
    edited = model.graphs[subgraph]
    add_signature(edited)
    edited.record.outputs = list(dict.fromkeys([*edited.outputs, *tensors]))
    for signature in edited.signatures():
        own = {int(entry.tensorIndex) for entry in signature.outputs or []}
        added = [_entry(edited, _made_name(index), index) for index in tensors if index not in own]
        signature.outputs = [*(signature.outputs or []), *added]
    return model.to_bytes()


def shown_names(
    graph: Graph, tensors: Sequence[int], subgraph: int = 0, signature: str | None = None
) -> dict[int, str]:
    """The names of the outputs that show these tensors. One that was an output before keeps its name."""
    chosen = graph.signature(signature)
    if chosen is not None and chosen.subgraph == subgraph:
        own = {index: name for name, index in chosen.outputs.items()}
    else:
        own = {index: f"output_{at}" for at, index in enumerate(graph.subgraphs[subgraph].outputs)}
    return {index: own.get(index, _made_name(index)) for index in tensors}


def add_signature(graph: EditedGraph, *, by_tensor: bool = False) -> bool:
    """Give a graph without a signature one; False where it has one.

    Inputs and outputs are named by their place, or `by_tensor` by the names of their tensors where those are unique.
    """
    if graph.signatures():
        return False
    made = graph.parts.schema.SignatureDefT(
        signatureKey=DEFAULT_SIGNATURE,
        subgraphIndex=graph.index,
        inputs=_entries(graph, "input", graph.inputs, by_tensor),
        outputs=_entries(graph, "output", graph.outputs, by_tensor),
    )
    graph.parts.record.signatureDefs = [*(graph.parts.record.signatureDefs or []), made]
    return True


def _entries(graph: EditedGraph, kind: str, tensors: Sequence[int], by_tensor: bool) -> list[Any]:
    names = [graph.name(index) for index in tensors]
    usable = [by_tensor and bool(name) and names.count(name) == 1 for name in names]
    return [_entry(graph, names[at] if usable[at] else f"{kind}_{at}", index) for at, index in enumerate(tensors)]


def _entry(graph: EditedGraph, name: str, tensor: int) -> Any:
    return graph.parts.schema.TensorMapT(name=name, tensorIndex=tensor)


def _made_name(tensor: int) -> str:
    return f"hasten_tensor_{tensor}"
