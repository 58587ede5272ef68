"""Mends what the quantiser writes: outputs of another type than asked for, lost names, options that LiteRT fails on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.model_object import operators_of

if TYPE_CHECKING:
    from hasten.variants.quantizer import Order


def mend(original: Any, quantized: Any, order: Order) -> None:
    """Make a quantised model what was ordered, in place. Tensors have their own names again by then."""
    if order.io_types.output_type != "float32":
        keep_output_types(original, quantized, order.subgraph, ELEMENT_TYPES.index(order.io_types.output_type))
    for subgraph in quantized.subgraphs:
        _keep_output_names(subgraph)
    keep_signatures(original, quantized)
    free_int16_scales(quantized)


def keep_output_types(original: Any, quantized: Any, subgraph: int, element_type: int) -> None:
    """Give out the integers themselves where asked for: the quantiser forgets it if a float node reads them too."""
    graph = quantized.subgraphs[subgraph]
    pairs = zip(original.subgraphs[subgraph].outputs, graph.outputs, strict=True)
    graph.outputs = [int(was if graph.tensors[was].type == element_type else now) for was, now in pairs]


def keep_signatures(original: Any, quantized: Any) -> None:
    """Let signatures name what the graph takes and gives: the quantiser misses outputs that a node reads as well."""
    quantized.signatureDefs = original.signatureDefs
    for signature in quantized.signatureDefs:
        before, after = (model.subgraphs[signature.subgraphIndex] for model in (original, quantized))
        for maps, old, new in (
            (signature.inputs, before.inputs, after.inputs),
            (signature.outputs, before.outputs, after.outputs),
        ):
            moved = {int(was): int(now) for was, now in zip(old, new, strict=True)}
            for entry in maps or []:
                entry.tensorIndex = moved.get(int(entry.tensorIndex), entry.tensorIndex)


def _keep_output_names(subgraph: Any) -> None:
    """An output that is now the float form of an int8 tensor takes the plain name from it."""
    for index in subgraph.outputs:
        output = subgraph.tensors[index]
        for addition in (b"_dequant", b"_quantized"):
            plain = output.name.removesuffix(addition)
            inner = next((tensor for tensor in subgraph.tensors if tensor.name == plain), None)
            if plain != output.name and inner is not None:
                inner.name, output.name = plain + b"_inner", plain


def free_int16_scales(model: Any) -> None:
    """Let sums in int16 have any scale: by default LiteRT takes scales near powers of two for exact ones, and fails."""
    from ai_edge_litert import schema_py_generated as schema

    int16 = schema.TensorType.INT16
    for number in (schema.BuiltinOperator.ADD, schema.BuiltinOperator.SUB):
        for subgraph, operator in operators_of(model, number):
            if operator.builtinOptions is not None and subgraph.tensors[operator.outputs[0]].type == int16:
                operator.builtinOptions.potScaleInt16 = False
