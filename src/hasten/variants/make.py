"""Makes a variant of a model by a recipe: prepare, quantize the selected nodes, check, write."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasten.core.remark import remark
from hasten.model.edit.file import write_object
from hasten.model.reader import read_graph
from hasten.variants.already_quantized import quantized_in_part, refuse_quantized, refuse_sparse
from hasten.variants.bias_correction import channel_means, correct_biases, few_samples
from hasten.variants.calibration import (
    Calibration,
    checked_samples,
    few_samples_note,
    refuse_large_layers,
    unread_results,
)
from hasten.variants.check import (
    called_in_float,
    changed_nodes,
    check_io_types,
    check_weights,
    left_as_they_were,
    left_in_float,
    same_nodes,
)
from hasten.variants.empty_channels import keep_biases
from hasten.variants.io_types import FLOAT_IO, IoTypes, check_types
from hasten.variants.prepare import prepare
from hasten.variants.quantizer import Order
from hasten.variants.recipes import RECIPES, Biases, Recipe, recipe_from_name
from hasten.variants.selection import ALL_NODES, NodeChoice, Selection, select
from hasten.variants.sequential_correction import correct_in_order
from hasten.variants.tensor_tags import TaggedModel, pattern_of
from hasten.variants.variant import Variant, place_for, weight_shares, zipped_bytes
from hasten.variants.words import BIASES, EMPTY_CHANNELS, STATEFUL

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from hasten.core.remark import Remark
    from hasten.model.graph import Graph, Signature
    from hasten.variants.calibration import Sample


def make_variant(
    model_path: str | os.PathLike[str],
    recipe: str | Recipe,
    out_path: str | os.PathLike[str],
    calibration: Iterable[Sample] | Calibration | None = None,
    *,
    choice: NodeChoice = ALL_NODES,
    signature: str | None = None,
    io_types: IoTypes = FLOAT_IO,
) -> Variant:
    """Write a variant of a model and tell what it is.

    `calibration` gives samples by input name, or what `calibrate` made of them; static recipes need it. `choice`
    selects nodes of the signature's subgraph. `io_types` has the types of float inputs and outputs.

    A model that is quantized already raises `AlreadyQuantizedError`, one in which there is nothing for the recipe
    `NothingToChangeError`; no file is written then.
    """
    model_path = Path(model_path)
    recipe = recipe if isinstance(recipe, Recipe) else recipe_from_name(recipe)
    check_types(recipe, io_types)
    given = read_graph(model_path)
    refuse_quantized(given)
    refuse_sparse(given)
    out_path = place_for(Path(out_path), model_path)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        prepared = prepare(model_path, Path(folder) / model_path.name)
        graph = read_graph(prepared.path)
        entry = _signature(graph, signature)
        # Tensors keep their indices in preparation, nodes need not: the user's are those of the file given.
        selection = select(given, entry, choice, static=recipe.is_static)
        tagged = TaggedModel(prepared.path)
        known = _calibration(given, tagged, graph, entry, recipe, calibration) if recipe.needs_calibration else None
        order = Order(recipe, pattern_of(selection), entry.subgraph, io_types)
        made = Path(folder) / "made" / out_path.name
        made.parent.mkdir()
        quantized = tagged.quantized(order, known)
        corrected = _kept_biases(tagged, quantized, order) + _corrected(tagged, quantized, order, entry, known)
        write_object(quantized, made, model_path)
        variant = read_graph(made)
        check_io_types(graph, variant, entry.key, io_types)
        changed = [changed_nodes(*pair) for pair in zip(graph.subgraphs, variant.subgraphs, strict=True)]
        notes = [*prepared.done, *check_weights(graph, variant, recipe, any(changed)), *corrected]
        nodes = same_nodes(changed[entry.subgraph], graph.subgraphs[entry.subgraph], given.subgraphs[entry.subgraph])
        shutil.copyfile(made, out_path)
    if recipe.is_static:
        notes += left_in_float(given.subgraphs[entry.subgraph], nodes, selection)
        notes += called_in_float(given, given.subgraphs[entry.subgraph])
    notes += _notes(given, variant, entry, selection) + few_samples_note(recipe, known.samples if known else 0)
    return Variant(
        path=out_path,
        recipe=recipe.name,
        size_bytes=variant.size_bytes,
        zipped_bytes=zipped_bytes(out_path),
        nodes=nodes,
        weight_shares=weight_shares(variant),
        notes=tuple(notes),
    )


def calibrate(
    model_path: str | os.PathLike[str], recipe: str | Recipe, samples: Iterable[Sample], *, signature: str | None = None
) -> Calibration:
    """Find the ranges of a model's activations once, for several variants of one recipe (or of its like)."""
    recipe = recipe if isinstance(recipe, Recipe) else recipe_from_name(recipe)
    given = read_graph(model_path)
    refuse_quantized(given)
    refuse_sparse(given)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        prepared = prepare(given.path, Path(folder) / given.path.name)
        graph = read_graph(prepared.path)
        return _calibration(given, TaggedModel(prepared.path), graph, _signature(graph, signature), recipe, samples)


def _signature(graph: Graph, key: str | None) -> Signature:
    entry = graph.signature(key)
    assert entry is not None, "preparation adds a signature"
    return entry


def _calibration(
    given: Graph,
    tagged: TaggedModel,
    graph: Graph,
    entry: Signature,
    recipe: Recipe,
    calibration: Calibration | Iterable[Sample] | None,
) -> Calibration:
    if isinstance(calibration, Calibration):
        calibration.check(given, entry.key, recipe)
        return calibration
    refuse_large_layers(graph.subgraphs[entry.subgraph], recipe)
    samples = checked_samples(graph, entry, calibration)
    values = tagged.ranges(entry, recipe, samples, unread_results(graph.subgraphs[entry.subgraph]))
    # It serves all recipes that take ranges this way, of which one may correct biases.
    corrects = any(other.biases is not Biases.ROUNDED for other in RECIPES if other.ranges is recipe.ranges)
    chosen = few_samples(tagged.model, samples) if corrects else ()
    means = channel_means(tagged.model, tagged.raw, entry, chosen) if corrects else {}
    return Calibration(given.sha256, entry.key, recipe.ranges, len(samples), values, means, chosen)


def _kept_biases(tagged: TaggedModel, quantized: Any, order: Order) -> list[Remark]:
    """Keep the biases of channels without weights, which the quantizer loses, and say so."""
    channels = keep_biases(tagged.model, quantized, order.subgraph) if order.recipe.is_static else 0
    return [remark(EMPTY_CHANNELS, channels=channels)] if channels else []


def _corrected(
    tagged: TaggedModel, quantized: Any, order: Order, entry: Signature, known: Calibration | None
) -> list[Remark]:
    """Correct the biases where the recipe says so, and say so."""
    if order.recipe.biases is Biases.ROUNDED or known is None:
        return []
    if order.recipe.biases is Biases.IN_ORDER:
        layers = correct_in_order(tagged.model, quantized, entry, known.means, known.inputs)
    else:
        layers = correct_biases(tagged.model, quantized, order.subgraph, known.means)
    return [remark(BIASES, layers=layers)]


def _notes(graph: Graph, variant: Graph, entry: Signature, selection: Selection) -> list[Remark]:
    notes = [quantized_in_part(graph)]
    if graph.stateful:
        notes.append(remark(STATEFUL))
    return [note for note in notes if note is not None] + left_as_they_were(graph, variant, entry, selection)
