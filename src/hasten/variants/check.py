"""Whether a variant is what was promised, as far as the file tells: same inputs and outputs, weights in their type."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hasten.core.errors import ModelError
from hasten.variants.already_quantized import weight_bytes_by_dtype
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
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


def check_weights(original: Graph, variant: Graph, recipe: Recipe, changed: bool) -> list[str]:
    """Raise where nothing was quantised; else tell what stayed as it was."""
    if not changed:
        kinds = ", ".join(sorted({node.label for node in original.main.nodes}))
        hint = f"The quantiser has nothing for it in the selected operators; the model has {kinds}."
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
    names = ", ".join(f"{count} {name}" for name, count in operators.most_common() if count)
    return [f"{left:.0%} of the weights' bytes stay float32 (in {names})"]


def left_in_float(subgraph: Subgraph, changed: tuple[int, ...], selection: Selection) -> list[str]:
    """A sentence on operators that were selected and still compute in floats: conversions surround each of them."""
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
    names = ", ".join(f"{count} {name}" for name, count in left.most_common())
    return (
        [f"the quantiser has no integer form of {names}: computed in float, with conversions around"] if names else []
    )


def added_operators(original: Graph, variant: Graph, op: str) -> int:
    """How many operators of that name the variant has more."""
    counts = [sum(node.op == op for s in graph.subgraphs for node in s.nodes) for graph in (original, variant)]
    return counts[1] - counts[0]


def _float32_weights(subgraph: Subgraph, node: Node) -> list[Tensor]:
    """What the node reads of them; without vectors, as biases are to stay."""
    tensors = (subgraph.tensors[index] for index in node.inputs if index >= 0)
    return [tensor for tensor in tensors if tensor.is_weight and tensor.dtype == "float32" and len(tensor.shape) > 1]


def _tensor(graph: Graph, signature: Signature, index: int) -> Tensor:
    return graph.subgraphs[signature.subgraph].tensors[index]


def _broken(variant: Graph, what: str) -> ModelError:
    message = f"{variant.path.name} was not made as it should be: {what}."
    return ModelError(message, "Please report this with the model; other recipes may work.")
