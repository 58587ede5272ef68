"""A range of nodes cut out as a model of its own; and random numbers in place of weights that are nobody's business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.edit.model import EditedModel
from hasten.model.edit.outputs import add_signature
from hasten.model.reader import NO_TENSOR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.model.edit.graph import EditedGraph

# Shapes, axes and indices are plain integers: only these hold what a training learned.
_LEARNED: Final = ("float32", "float16", "float64")
# Operators that run other graphs of the file.
_CALLERS: Final = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "STABLEHLO_REDUCE")


def cut_out(path: Path, first: int, last: int) -> EditedModel:
    """The nodes `first` to `last` of the main graph: what they read from outside are inputs, what others read outputs.

    Inputs and outputs carry the names that the tensors had, and metadata about those of the whole model is left out.
    """
    model = EditedModel.read(path)
    graph = model.main
    if not 0 <= first <= last < len(graph.operators):
        raise UsageError(
            f"{path.name} has no nodes {first} to {last}.", f"Give a range within 0 and {len(graph.operators) - 1}."
        )
    chosen = graph.operators[first : last + 1]
    outside = [*graph.operators[:first], *graph.operators[last + 1 :]]
    inputs, outputs = _border(graph, chosen, outside)
    if not outputs:
        raise UsageError(f"Nothing reads what nodes {first} to {last} compute.", "Give a range with a result.")
    graph.remove(*outside)
    graph.record.inputs, graph.record.outputs = inputs, outputs
    model.record.signatureDefs = None
    add_signature(graph, by_tensor=True)
    if not any(graph.op(operator) in _CALLERS for operator in chosen):
        del model.record.subgraphs[1:], model.graphs[1:]
    model.clean()
    model.strip()
    return model


def _border(graph: EditedGraph, chosen: Sequence[Any], outside: Sequence[Any]) -> tuple[list[int], list[int]]:
    read = dict.fromkeys(index for operator in chosen for index in operator.inputs if index != NO_TENSOR)
    written = dict.fromkeys(index for operator in chosen for index in operator.outputs)
    wanted = {index for operator in outside for index in operator.inputs} | set(graph.outputs)
    inputs = [index for index in read if index not in written and _is_filled(graph, index)]
    return inputs, [index for index in written if index in wanted]


def _is_filled(graph: EditedGraph, index: int) -> bool:
    """Whether somebody else fills it at run time."""
    return index in graph.inputs or graph.producer(index) is not None


def make_private(model: EditedModel, seed: int = 0) -> None:
    """Replace learned numbers by random ones with their mean, spread and range, and all names by plain ones.

    Quantization stays: it decides which kernels run.
    """
    random = np.random.default_rng(seed)
    for graph in model.graphs:
        for index, tensor in enumerate(graph.record.tensors):
            tensor.name = f"tensor_{index}"
            values = graph.constant(index)
            if values is not None and values.size > 1 and (graph.dtype(index) in _LEARNED or graph.is_quantized(index)):
                tensor.buffer = model.parts.add_buffer(np.frombuffer(_like(values, random).tobytes(), np.uint8))
        graph.record.name = f"graph_{graph.index}"
        for signature in graph.signatures():
            for kind, entries in (("input", signature.inputs), ("output", signature.outputs)):
                for place, entry in enumerate(entries or []):
                    entry.name = f"{kind}_{place}"
    model.strip()


def _like(values: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    real = values.astype(np.float64)
    finite = real[np.isfinite(real)]
    if not finite.size:
        return values
    drawn = np.clip(random.normal(finite.mean(), finite.std(), values.shape), finite.min(), finite.max())
    made: np.ndarray[Any, Any] = (np.rint(drawn) if values.dtype.kind in "iu" else drawn).astype(values.dtype)
    return made
