"""Whether a variant is what was promised, as far as the file tells: same inputs and outputs, weights in their type."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hasten.core.errors import ModelError
from hasten.core.remark import remark
from hasten.variants.already_quantized import weight_bytes_by_dtype
from hasten.variants.recipes import RECIPES
from hasten.variants.variant import NothingToChangeError
from hasten.variants.words import (
    CALLED_IN_FLOAT,
    FLOAT_WEIGHTS,
    NO_INTEGER_FORM,
    OTHER_GRAPHS,
    OTHER_SIGNATURES,
    WEIGHTS_TWICE,
)

if TYPE_CHECKING:
    from hasten.core.remark import Remark
    from hasten.model.graph import Graph, Node, Signature, Subgraph, Tensor
    from hasten.variants.io_types import IoTypes
    from hasten.variants.recipes import Recipe
    from hasten.variants.selection import Selection

# Less than this left in floats is small things, not worth a note.
WORTH_A_NOTE = 0.05


def check_io_types(original: Graph, variant: Graph, key: str, io_types: IoTypes) -> None:
    """Raise unless inputs and outputs are the same by name and shape, in the types asked for."""
    before, after = original.signature(key), variant.signature(key)
    assert before is not None
    assert after is not None
    for kind, chosen, old, new in (
        ("input", io_types.input_type, before.inputs, after.inputs),
        ("output", io_types.output_type, before.outputs, after.outputs),
    ):
        if set(old) != set(new):
            raise _broken(variant, f"it has the {kind}s {sorted(new)} in place of {sorted(old)}")
        for name in old:
            was, is_now = _tensor(original, before, old[name]), _tensor(variant, after, new[name])
            expected = chosen if was.dtype == "float32" else was.dtype
            if (is_now.shape, is_now.shape_signature) != (was.shape, was.shape_signature):
                raise _broken(variant, f"{kind} {name!r} has the shape {list(is_now.shape)}, not {list(was.shape)}")
            if is_now.dtype != expected:
                raise _broken(variant, f"{kind} {name!r} is {is_now.dtype}, not {expected}")


def check_weights(original: Graph, variant: Graph, recipe: Recipe, changed: bool) -> list[Remark]:
    """Raise where nothing was quantized; else tell what stayed as it was."""
    if not changed:
        kinds = ", ".join(sorted({node.label for node in original.main.nodes}))
        hint = f"Select other operators, or try another recipe; the model has {kinds}."
        raise NothingToChangeError(f"{recipe.name} changes nothing in {original.path.name}.", hint)
    operators: Counter[str] = Counter()
    spans: dict[int | None, int] = {}
    for subgraph in variant.subgraphs:
        for node in subgraph.nodes:
            weights = _float32_weights(subgraph, node)
            operators[node.label] += bool(weights)
            spans.update((tensor.buffer_offset, tensor.buffer_bytes) for tensor in weights)
    left = sum(spans.values()) / max(1, sum(weight_bytes_by_dtype(variant).values()))
    if left < WORTH_A_NOTE:
        return []
    counted = [[name, count] for name, count in operators.most_common() if count]
    return [remark(FLOAT_WEIGHTS, share=left, operators=counted)]


def left_in_float(subgraph: Subgraph, changed: tuple[int, ...], selection: Selection) -> list[Remark]:
    """A remark on operators that were selected and still compute in floats: conversions surround each of them."""
    chosen = selection.outputs
    left = Counter(
        node.label
        for node in subgraph.nodes
        if node.index not in changed
        and node.outputs
        and (chosen is None or node.outputs[0] in chosen)
        and subgraph.tensors[node.outputs[0]].dtype == "float32"
        and node.op not in ("QUANTIZE", "DEQUANTIZE")
    )
    return [remark(NO_INTEGER_FORM, operators=[[name, count] for name, count in left.most_common()])] if left else []


def _float32_weights(subgraph: Subgraph, node: Node) -> list[Tensor]:
    """What the node reads of them; without vectors, as biases are to stay."""
    tensors = (subgraph.tensors[index] for index in node.inputs if index >= 0)
    return [tensor for tensor in tensors if tensor.is_weight and tensor.dtype == "float32" and len(tensor.shape) > 1]


def _tensor(graph: Graph, signature: Signature, index: int) -> Tensor:
    return graph.subgraphs[signature.subgraph].tensors[index]


def _broken(variant: Graph, what: str) -> ModelError:
    message = f"{variant.path.name} was not made correctly: {what}."
    return ModelError(message, "Report this with the model, and try another recipe.")


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


def left_as_they_were(original: Graph, variant: Graph, entry: Signature, selection: Selection) -> list[Remark]:
    """Remarks on graphs that were left alone, weights they share, and signatures that change by the way."""
    notes, count, total = [], len(selection.subgraphs), len(original.subgraphs)
    if count < total:
        notes.append(remark(OTHER_GRAPHS, signature=entry.key, graphs=count, total=total))
        if _holds_weights_twice(original, variant, selection):
            notes.append(remark(WEIGHTS_TWICE))
    touched = [
        other.key
        for other in original.signatures
        if other.subgraph != entry.subgraph and original.run_by(other.subgraph) & selection.subgraphs
    ]
    if touched:
        notes.append(remark(OTHER_SIGNATURES, signatures=touched))
    return notes


def called_in_float(original: Graph, subgraph: Subgraph) -> list[Remark]:
    """A remark on weights that a static recipe does not reach, as loops and branches run them."""
    called = original.run_by(subgraph.index) - {subgraph.index}
    if not any(tensor.is_weight for index in called for tensor in original.subgraphs[index].tensors):
        return []
    callers = sorted({node.label for node in subgraph.nodes if node.called_subgraphs})
    recipes = [recipe.name for recipe in RECIPES if not recipe.is_static]
    return [remark(CALLED_IN_FLOAT, callers=callers, recipes=recipes)]


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
