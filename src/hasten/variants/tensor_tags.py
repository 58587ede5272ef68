"""A prepared model as the quantizer gets it, with tags in the place of names; and repairs of what comes back.

The quantizer matches regular expressions against the names of a node's outputs, needs all names of a file to be unique,
and makes names of new tensors by adding to old ones. A tag `<subgraph.tensor>` is unique, matches exactly, and can be
found again in the names of new tensors.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from hasten.core.errors import ModelError
from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.edit.file import bytes_from_object, object_from_bytes, operators_of, read_object, text
from hasten.variants.quantizer import Order, calibrated_ranges, quantized_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from hasten.model.graph import Signature
    from hasten.variants.calibration import Calibration
    from hasten.variants.recipes import Recipe
    from hasten.variants.selection import Selection

_TAG = re.compile(r"^<(\d+)\.(\d+)>")


class TaggedModel:
    """A prepared model with tags for names, as the quantizer gets it."""

    def __init__(self, prepared: Path) -> None:
        self.file_name = prepared.name
        self.model = read_object(prepared)
        self.names = put_tags(self.model)
        self.raw = bytes_from_object(self.model)

    def quantized(self, order: Order, calibration: Calibration | None) -> Any:
        """The quantized model with its own names."""
        ranges = calibration.values if calibration else None
        with self._own_names():
            quantized = object_from_bytes(quantized_bytes(self.raw, order, ranges, self.file_name))
        take_tags_off(quantized, self.names)
        repair(self.model, quantized, order)
        return quantized

    def ranges(
        self, entry: Signature, recipe: Recipe, samples: list[dict[str, Any]], unread: Collection[int] = ()
    ) -> dict[str, Any]:
        """The ranges of activations, by tag. Tensors of the signature's graph that are `unread` have none."""
        raw = self._without_names(entry.subgraph, unread) if unread else self.raw
        with self._own_names():
            return calibrated_ranges(raw, entry.subgraph, recipe.ranges, entry.key, samples, self.file_name)

    def _without_names(self, subgraph: int, tensors: Collection[int]) -> bytes:
        """The model in which the quantizer passes over these tensors, as it does over all that have no name."""
        model = object_from_bytes(self.raw)
        for index in tensors:
            model.subgraphs[subgraph].tensors[index].name = ""
        return bytes_from_object(model)

    @contextlib.contextmanager
    def _own_names(self) -> Iterator[None]:
        try:
            yield
        except ModelError as error:
            raise type(error)(with_names(error.message, self.names), error.hint) from error


def put_tags(model: Any) -> list[list[bytes | None]]:
    """Name every tensor by its tag, and return the names they had."""
    names = [[tensor.name for tensor in subgraph.tensors] for subgraph in model.subgraphs]
    for number, subgraph in enumerate(model.subgraphs):
        for index, tensor in enumerate(subgraph.tensors):
            tensor.name = f"<{number}.{index}>".encode()
    return names


def pattern_of(selection: Selection) -> str:
    """A regular expression for the quantizer that matches the selected nodes, and no other."""
    here = rf"^<{selection.subgraph}\."
    if selection.outputs is not None:
        # An empty alternative would match; no tensor has the index -1.
        here += "(" + "|".join(str(index) for index in sorted(selection.outputs | {-1})) + ")>"
    others = "|".join(str(index) for index in sorted(selection.others))
    return rf"{here}|^<({others})\." if others else here


def take_tags_off(model: Any, names: list[list[bytes | None]]) -> None:
    """Give tensors their names back. New ones get the name of the tensor they came from, with what was added to it."""
    for number, subgraph in enumerate(model.subgraphs):
        for tensor in subgraph.tensors:
            tag = _TAG.match(text(tensor.name))
            if tag is None:
                continue
            source, addition = int(tag[2]), text(tensor.name)[tag.end() :]
            tensor.name = (names[number][source] or b"") + addition.encode()
            if addition and tensor.buffer == 0:
                _keep_open_dimensions(tensor, subgraph.tensors[source])


def with_names(message: str, names: list[list[bytes | None]]) -> str:
    """A message of the quantizer with the tensors' own names in place of tags."""
    return re.sub(r"<(\d+)\.(\d+)>", lambda tag: repr(text(names[int(tag[1])][int(tag[2])])), message)


def _keep_open_dimensions(tensor: Any, source: Any) -> None:
    """The quantizer gives new tensors a fixed shape, also where a batch of -1 passes through them."""
    if source.shapeSignature is not None and len(source.shapeSignature) == len(tensor.shape):
        tensor.shapeSignature = source.shapeSignature


def repair(original: Any, quantized: Any, order: Order) -> None:
    """Make a quantized model what was ordered, in place. Tensors have their own names again by then."""
    if order.io_types.output_type != "float32":
        keep_output_types(original, quantized, order.subgraph, ELEMENT_TYPES.index(order.io_types.output_type))
    for subgraph in quantized.subgraphs:
        _keep_output_names(subgraph)
    keep_signatures(original, quantized)
    free_int16_scales(quantized)


def keep_output_types(original: Any, quantized: Any, subgraph: int, element_type: int) -> None:
    """Give out the integers themselves where asked for: the quantizer forgets it if a float node reads them too."""
    graph = quantized.subgraphs[subgraph]
    pairs = zip(original.subgraphs[subgraph].outputs, graph.outputs, strict=True)
    graph.outputs = [int(was if graph.tensors[was].type == element_type else now) for was, now in pairs]


def keep_signatures(original: Any, quantized: Any) -> None:
    """Let signatures name what the graph takes and gives: the quantizer misses outputs that a node reads as well."""
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
