"""The model that goes into a bundle: as it is, or with random weights and plain names; and the names to leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.model.edit.cut import PUBLIC_CUSTOMS, make_private, strip_names
from hasten.model.edit.model import EditedModel

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph
    from hasten.practices.help.issue.scrub import Scrubber

FILE: Final = "model.tflite"
# Every exporter writes it.
_PUBLIC_KEYS: Final = frozenset({"serving_default"})
_NAMES_IN_OPTIONS: Final = {"shared_name": "variable", "name": "call", "call_target_name": "call"}
_PUBLIC_DESCRIPTIONS: Final = frozenset({"", "MLIR Converted.", "TOCO Converted.", "hasten"})


def shared_model(path: Path, graph: Graph, scrubber: Scrubber, *, private: bool) -> bytes:
    """The bytes that may leave this machine. Names that hold a path, a user or a host are replaced in any case."""
    if private:
        model = EditedModel.read(path)
        make_private(model)
        return model.to_bytes()
    if scrubber.finds({**own_names(graph), **custom_names(graph)}):
        model = EditedModel.read(path)
        strip_names(model)
        return model.to_bytes()
    return path.read_bytes()


def own_names(graph: Graph) -> dict[str, str]:
    """All names that the author of a model gave, each with what stands for it."""
    found: dict[str, str] = {}
    for subgraph in graph.subgraphs:
        found |= {tensor.name: f"tensor_{tensor.index}" for tensor in subgraph.tensors if tensor.name}
        if subgraph.name:
            found[subgraph.name] = f"graph_{subgraph.index}"
        for key, stand_in in _NAMES_IN_OPTIONS.items():
            used = {str(node.options[key]) for node in subgraph.nodes if node.options.get(key)}
            found |= dict.fromkeys(sorted(used), stand_in)
    for number, signature in enumerate(graph.signatures):
        for kind, names in (("input", signature.inputs), ("output", signature.outputs)):
            found |= {name: f"{kind}_{place}" for place, name in enumerate(names) if name}
        if signature.key not in _PUBLIC_KEYS:
            found[signature.key] = f"signature_{number}"
    if graph.description not in _PUBLIC_DESCRIPTIONS:
        found[graph.description] = "description"
    # A tensor is often called like the operator that makes it.
    return {name: stand_in for name, stand_in in found.items() if name not in PUBLIC_CUSTOMS}


def file_names(graph: Graph) -> dict[str, str]:
    """What the file is called, with what stands for it."""
    return {graph.path.name: FILE, graph.path.stem: "model"}


def custom_names(graph: Graph) -> dict[str, str]:
    """Custom operators that only their owner knows, with what stands for them."""
    own = [code for code in graph.custom_operators() if code not in PUBLIC_CUSTOMS and not code.startswith("Flex")]
    return {code: f"custom_{place}" for place, code in enumerate(own)}
