"""Which nodes a quantiser changed, seen by comparing the two files: tensors of the original keep their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.model.graph import Node, Subgraph


def changed_nodes(original: Subgraph, variant: Subgraph) -> tuple[int, ...]:
    """Nodes that now read or write another type, or read weights that are stored in another type."""
    after = {node.outputs[0]: node for node in variant.nodes if node.outputs}
    sources = {node.outputs[0]: node.inputs[0] for node in variant.nodes if node.op == "DEQUANTIZE"}
    changed = []
    for node in original.nodes:
        counterpart = after.get(node.outputs[0]) if node.outputs else None
        if counterpart is not None and _differs(original, node, variant, counterpart, sources):
            changed.append(node.index)
    return tuple(changed)


def same_nodes(nodes: tuple[int, ...], prepared: Subgraph, given: Subgraph) -> tuple[int, ...]:
    """The nodes as the given file numbers them: preparation takes nodes out, and leaves tensors where they are."""
    numbers = {node.outputs[0]: node.index for node in given.nodes if node.outputs}
    return tuple(numbers[prepared.nodes[index].outputs[0]] for index in nodes)


def _differs(original: Subgraph, node: Node, variant: Subgraph, other: Node, sources: dict[int, int]) -> bool:
    pairs = [*zip(node.inputs, other.inputs, strict=False), *zip(node.outputs, other.outputs, strict=False)]
    for before, after in pairs:
        if before < 0 or after < 0:
            continue
        constant = sources.get(after, after) if original.tensors[before].is_constant else after
        if variant.tensors[constant].dtype != original.tensors[before].dtype:
            return True
    return False
