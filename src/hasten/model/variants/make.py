"""Makes a variant of a model by a recipe: prepare, quantise the selected nodes, check, write."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasten.core.errors import UsageError
from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.reader import read_graph
from hasten.model.variants.already import quantized_in_part, refuse_quantized
from hasten.model.variants.calibration import checked_samples, few_samples
from hasten.model.variants.changes import changed_nodes, same_nodes
from hasten.model.variants.check import added_operators, check_border, check_weights
from hasten.model.variants.model_object import bytes_from_object, object_from_bytes, read_object, write_object
from hasten.model.variants.prepare import prepare
from hasten.model.variants.quantizer import Border, Order, quantized_bytes
from hasten.model.variants.recipes import Recipe, recipe_from_name
from hasten.model.variants.selection import Nodes, Selection, select
from hasten.model.variants.tags import keep_output_types, keep_signatures, pattern_of, put_tags, take_tags_off
from hasten.model.variants.variant import Variant, weight_shares, zipped_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from hasten.model.graph import Graph, Signature
    from hasten.model.variants.calibration import Sample

FLOAT_BORDER = Border()


def make_variant(
    model_path: str | os.PathLike[str],
    recipe: str | Recipe,
    out_path: str | os.PathLike[str],
    calibration: Iterable[Sample] | None = None,
    *,
    only: Nodes | None = None,
    but: Nodes | None = None,
    signature: str | None = None,
    border: Border = FLOAT_BORDER,
) -> Variant:
    """Write a variant of a model and tell what it is.

    `calibration` gives samples by input name, which static recipes need. `only` or `but` select nodes of the
    signature's subgraph, by index or by a pattern on the names of their outputs. `border` has the types of float
    inputs and outputs. A model that is quantised already raises `AlreadyQuantizedError`, one in which there is nothing
    for the recipe `NothingToQuantizeError`.
    """
    model_path, out_path = Path(model_path), Path(out_path)
    recipe = recipe if isinstance(recipe, Recipe) else recipe_from_name(recipe)
    _check_border_types(recipe, border)
    given = read_graph(model_path)
    refuse_quantized(given)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        prepared = prepare(model_path, Path(folder) / model_path.name)
        graph = read_graph(prepared.path)
        way_in = graph.signature(signature)
        assert way_in is not None
        # Tensors keep their indices in preparation, nodes need not: the user's are those of the file given.
        selection = select(given, way_in, only, but, recipe.needs_calibration)
        samples = checked_samples(graph, way_in, calibration) if recipe.needs_calibration else []
        model = _quantized(
            prepared.path, Order(recipe, pattern_of(selection), way_in.subgraph, border), way_in, samples
        )
        write_object(model, out_path, model_path)
        variant = read_graph(out_path)
        check_border(graph, variant, way_in.key, border)
        changed = [changed_nodes(*pair) for pair in zip(graph.subgraphs, variant.subgraphs, strict=True)]
        notes = [*prepared.done, *check_weights(graph, variant, recipe, any(changed))]
        nodes = same_nodes(changed[way_in.subgraph], graph.subgraphs[way_in.subgraph], given.subgraphs[way_in.subgraph])
    notes += _notes(given, way_in, selection) + few_samples(recipe, len(samples))
    return Variant(
        path=out_path,
        recipe=recipe.name,
        size_bytes=variant.size_bytes,
        zipped_bytes=zipped_bytes(out_path),
        nodes=nodes,
        weight_shares=weight_shares(variant),
        quantize_added=added_operators(graph, variant, "QUANTIZE"),
        dequantize_added=added_operators(graph, variant, "DEQUANTIZE"),
        notes=tuple(notes),
    )


def _quantized(prepared: Path, order: Order, way_in: Signature, samples: list[dict[str, Any]]) -> Any:
    model = read_object(prepared)
    names = put_tags(model)
    raw = quantized_bytes(bytes_from_object(model), order, way_in.key, samples, prepared.name)
    quantized = object_from_bytes(raw)
    if order.border.output_type != "float32":
        keep_output_types(model, quantized, order.subgraph, ELEMENT_TYPES.index(order.border.output_type))
    take_tags_off(quantized, names)
    keep_signatures(model, quantized)
    return quantized


def _check_border_types(recipe: Recipe, border: Border) -> None:
    allowed = ["float32"]
    if recipe.activations is not None:
        allowed += ["int8", "uint8"] if recipe.activations == "int8" else [recipe.activations]
    for dtype in (border.input_type, border.output_type):
        if dtype not in allowed:
            message = f"Inputs and outputs of {recipe.name} cannot be {dtype!r}."
            raise UsageError(message, f"Choose among {', '.join(allowed)}.")


def _notes(graph: Graph, way_in: Signature, selection: Selection) -> list[str]:
    notes = [quantized_in_part(graph)]
    if graph.stateful:
        notes.append("the model keeps state from run to run; operators on that state may stay float")
    if len(graph.subgraphs) > 1 and not selection.others:
        notes.append(f"only the graph of signature {way_in.key!r} was quantised, of {len(graph.subgraphs)} in the file")
    return [note for note in notes if note]
