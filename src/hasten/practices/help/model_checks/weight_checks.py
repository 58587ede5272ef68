"""Checks of the weights: never used, stored twice, stored in half precision, no numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import ModelError
from hasten.model.reader import map_file, read_constant
from hasten.practices.help.model_checks.findings import Subject, better, broken, good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.graph import Graph, Subgraph, Tensor
    from hasten.practices.help.facts import Check

UNUSED, DUPLICATES, HALF, NUMBERS = "unused weights", "duplicated weights", "float16 weights", "weights"
# Less than this share of the file is not worth a change; smaller constants are shapes and biases of zeros.
_WORTH: Final = 0.01
_SMALLEST: Final = 256


def weight_checks(subject: Subject) -> Iterator[Check]:
    """Everything that the constants of the file tell."""
    yield _unused(subject.graph)
    yield _duplicates(subject.graph)
    yield _half_precision(subject)
    yield _numbers(subject.graph)


def _unused(graph: Graph) -> Check:
    idle = [tensor for subgraph in graph.subgraphs for tensor in _unread(graph, subgraph)]
    # Tensors may share their bytes with one that is used.
    used = {tensor.buffer_offset for _, tensor in _constants(graph) if tensor not in idle}
    spans = {(tensor.buffer_offset, tensor.buffer_bytes) for tensor in idle if tensor.buffer_offset not in used}
    wasted = sum(size for _, size in spans)
    if wasted >= max(_SMALLEST, _WORTH * graph.size_bytes):
        told = {"count": len(spans), "bytes": wasted, "share": wasted / graph.size_bytes}
        return better(UNUSED, "model.unused-weights", last=len(graph.main.nodes) - 1, **told)
    return good(UNUSED, "model.no-unused-weights")


def _unread(graph: Graph, subgraph: Subgraph) -> list[Tensor]:
    """Constants that no operator reads and nobody outside gets."""
    read = {index for node in subgraph.nodes for index in node.inputs} | {*subgraph.inputs, *subgraph.outputs}
    for signature in graph.signatures:
        if signature.subgraph == subgraph.index:
            read |= {*signature.inputs.values(), *signature.outputs.values()}
    return [tensor for tensor in subgraph.tensors if tensor.is_constant and tensor.index not in read]


def _duplicates(graph: Graph) -> Check:
    """Equal bytes at different places of the file."""
    data = map_file(graph.path)
    sizes: dict[int, int] = {}
    for _, tensor in _constants(graph):
        if tensor.buffer_offset is not None and tensor.buffer_bytes >= _SMALLEST:
            sizes[tensor.buffer_offset] = tensor.buffer_bytes
    alike: dict[tuple[int, bytes], list[int]] = {}
    for offset, size in sizes.items():
        alike.setdefault((size, hashlib.sha256(data[offset : offset + size]).digest()), []).append(offset)
    wasted = sum(size * (len(offsets) - 1) for (size, _), offsets in alike.items())
    count = sum(len(offsets) - 1 for offsets in alike.values())
    if wasted >= max(_SMALLEST, _WORTH * graph.size_bytes):
        return better(DUPLICATES, "model.duplicates", count=count, bytes=wasted, share=wasted / graph.size_bytes)
    return good(DUPLICATES, "model.no-duplicates")


def _half_precision(subject: Subject) -> Check:
    main = subject.graph.main
    nodes = [
        node.index
        for node in main.nodes
        if node.op == "DEQUANTIZE"
        and node.inputs
        and main.tensors[node.inputs[0]].is_constant
        and main.tensors[node.inputs[0]].dtype == "float16"
    ]
    if not nodes:
        return good(HALF, "model.no-float16")
    stored = sum(main.tensors[main.nodes[index].inputs[0]].buffer_bytes for index in nodes)
    return better(HALF, "model.float16", count=len(nodes), nodes=nodes, bytes=stored, **subject.cost(nodes))


def _numbers(graph: Graph) -> Check:
    bad, damaged = [], []
    for subgraph, tensor in _constants(graph):
        if not tensor.is_weight:
            continue
        try:
            values = read_constant(graph, tensor)
        except ModelError:
            damaged.append((subgraph.index, tensor.index))
            continue
        if values is not None and values.dtype.kind == "f" and not np.isfinite(values).all():
            bad.append((subgraph.index, tensor.index))
    if damaged:
        return broken(NUMBERS, "model.weights-damaged", count=len(damaged), tensors=[index for _, index in damaged])
    if bad:
        return broken(NUMBERS, "model.not-finite", count=len(bad), tensors=[index for _, index in bad])
    return good(NUMBERS, "model.finite")


def _constants(graph: Graph) -> Iterator[tuple[Subgraph, Tensor]]:
    return ((subgraph, tensor) for subgraph in graph.subgraphs for tensor in subgraph.tensors if tensor.is_constant)
