"""Copies of a model in which inner tensors are outputs, so that any engine and accelerator can show what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.errors import ModelError, UsageError
from hasten.model.build_bytes import serialized
from hasten.model.model_object import object_from_bytes
from hasten.model.reader import map_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.graph import Graph

_MADE_UP_SIGNATURE = "serving_default"
# Offsets in a flatbuffer have 31 bits.
_MOST_BYTES = 2**31 - 2**20


def with_outputs(graph: Graph, tensors: Sequence[int], subgraph: int = 0) -> bytes:
    """The model with these tensors as further outputs, after its own; `shown_names` tells what they are called.

    A file without a signature gets one, as names are the only sure way to tell outputs apart.
    """
    from ai_edge_litert import schema_py_generated as schema

    known = graph.subgraphs[subgraph].tensors
    for index in tensors:
        if not 0 <= index < len(known) or known[index].is_constant:
            raise UsageError(f"Tensor {index} of {graph.path.name} is not computed by the model.")
    # The reader has checked every offset in the file; these accessors check none.
    model = object_from_bytes(map_file(graph.path))
    operators = (operator for entry in model.subgraphs for operator in entry.operators or [])
    if graph.size_bytes >= _MOST_BYTES or any(operator.largeCustomOptionsOffset > 1 for operator in operators):
        raise ModelError(f"{graph.path.name} is too large to be copied: only LiteRT's own tools can write it.")
    edited = model.subgraphs[subgraph]
    signatures = [entry for entry in model.signatureDefs or [] if entry.subgraphIndex == subgraph]
    if not signatures:
        signatures = [_signature(schema, edited, subgraph)]
        model.signatureDefs = [*(model.signatureDefs or []), *signatures]
    edited.outputs = list(dict.fromkeys([*map(int, edited.outputs), *tensors]))
    for signature in signatures:
        own = {entry.tensorIndex for entry in signature.outputs or []}
        added = [schema.TensorMapT(name=_name(index), tensorIndex=index) for index in tensors if index not in own]
        signature.outputs = [*(signature.outputs or []), *added]
    return serialized(model)


def shown_names(
    graph: Graph, tensors: Sequence[int], subgraph: int = 0, signature: str | None = None
) -> dict[int, str]:
    """The names of the outputs that show these tensors. One that was an output before keeps its name."""
    chosen = graph.signature(signature)
    if chosen is not None and chosen.subgraph == subgraph:
        own = {index: name for name, index in chosen.outputs.items()}
    else:
        own = {index: f"output_{at}" for at, index in enumerate(graph.subgraphs[subgraph].outputs)}
    return {index: own.get(index, _name(index)) for index in tensors}


def _name(tensor: int) -> str:
    return f"hasten_tensor_{tensor}"


def _signature(schema: Any, subgraph: Any, index: int) -> Any:
    def maps(kind: str, tensors: Sequence[int]) -> list[Any]:
        return [schema.TensorMapT(name=f"{kind}_{at}", tensorIndex=tensor) for at, tensor in enumerate(tensors)]

    return schema.SignatureDefT(
        signatureKey=_MADE_UP_SIGNATURE,
        subgraphIndex=index,
        inputs=maps("input", [int(tensor) for tensor in subgraph.inputs]),
        outputs=maps("output", [int(tensor) for tensor in subgraph.outputs]),
    )
