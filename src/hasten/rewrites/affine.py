"""Folds MUL, ADD, SUB and DIV by constants, and with them batch norms, into the layers before or after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.rewrites.activations import composed
from hasten.rewrites.layers import layer, set_weights, window
from hasten.rewrites.patterns import (
    NONE,
    RELU,
    activation,
    each,
    float_constant,
    is_float,
    nodes_of,
    same_shape,
    set_option,
)
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import Array, EditedGraph, Operator
    from hasten.rewrites.layers import Layer

_OPERATORS: Final = ("MUL", "ADD", "SUB", "DIV")


@dataclass(frozen=True, slots=True)
class _Affine:
    """scale · x + shift, each one number or one for each channel, in double precision: they are rounded once."""

    x: int
    scale: Array
    shift: Array


def fold_affine(graph: EditedGraph) -> list[Change]:
    """Fold into the layer before where there is one, else into all layers that read the result."""
    changes = []
    for operator in each(graph, *_OPERATORS):
        affine = _affine(graph, operator)
        if affine is not None:
            changes += _into_layer_before(graph, operator, affine) or _into_layers_after(graph, operator, affine)
    return changes


def _affine(graph: EditedGraph, operator: Operator) -> _Affine | None:
    op, result = graph.op(operator), operator.outputs[0]
    for place, other in ((0, 1), (1, 0)):
        x = operator.inputs[place]
        values = _by_channel(graph, operator.inputs[other], len(graph.shape(result)))
        if values is None or graph.is_constant(x) or not is_float(graph, x, result) or not same_shape(graph, x, result):
            continue
        one, none = np.ones(1), np.zeros(1)
        if op == "MUL":
            return _Affine(x, values, none)
        if op == "ADD":
            return _Affine(x, one, values)
        if op == "SUB":
            return _Affine(x, one, -values) if place == 0 else _Affine(x, -one, values)
        if place == 0 and values.all():
            return _Affine(x, 1 / values, none)
    return None


def _by_channel(graph: EditedGraph, tensor: int, rank: int) -> Array | None:
    """The values of a constant that differ along the last axis only."""
    values = float_constant(graph, tensor)
    if values is None or not values.size or values.ndim > rank or values.size != (*values.shape, 1)[values.ndim - 1]:
        return None
    return values.reshape(-1).astype(np.float64)


# -- into the layer before


def _into_layer_before(graph: EditedGraph, operator: Operator, affine: _Affine) -> list[Change]:
    found = layer(graph, graph.producer(affine.x))
    if found is None or not graph.is_read_only_by(affine.x, operator):
        return []
    fused = _activation_after(graph, found, operator, affine)
    channels = found.bias.size
    shift_fits = not affine.shift.any() or found.op != "TRANSPOSE_CONV" or len(found.operator.inputs) > 3
    if fused is None or not shift_fits or {affine.scale.size, affine.shift.size} - {1, channels}:
        return []
    scale = np.broadcast_to(affine.scale, channels)
    set_weights(graph, found, found.weights * found.along_outputs(scale), found.bias * scale + affine.shift)
    set_option(found.operator, "fusedActivationFunction", fused)
    result = operator.outputs[0]
    graph.remove(operator)
    graph.set_output(found.operator, 0, result)
    found.operator.nodes = nodes_of([found.operator, operator])
    return [Change(found.operator.nodes)]


def _activation_after(graph: EditedGraph, found: Layer, operator: Operator, affine: _Affine) -> int | None:
    """The activation of the layer once it scales and shifts too; None if its own one is in the way."""
    inner, outer = activation(graph, found.operator), activation(graph, operator)
    if found.op == "TRANSPOSE_CONV" and (inner, outer) != (NONE, NONE):
        return None
    # Positive factors pass a RELU.
    passes = inner == NONE or (inner == RELU and not affine.shift.any() and (affine.scale > 0).all())
    return composed(inner, outer) if passes else None


# -- into the layers after


def _into_layers_after(graph: EditedGraph, operator: Operator, affine: _Affine) -> list[Change]:
    result = operator.outputs[0]
    readers = graph.readers(result)
    if not readers or result in graph.outputs or activation(graph, operator) != NONE:
        return []
    made = [_with_affine_input(graph, reader, result, affine) for reader in readers]
    known = [one for one in made if one is not None]
    if len(known) < len(made):
        return []
    for found, weights, bias in known:
        set_weights(graph, found, weights, bias)
        graph.set_input(found.operator, 0, affine.x)
        found.operator.nodes = nodes_of([operator, found.operator])
    graph.remove(operator)
    return [Change(nodes_of([operator, *readers]))]


def _with_affine_input(
    graph: EditedGraph, reader: Operator, x: int, affine: _Affine
) -> tuple[Layer, Array, Array] | None:
    """A layer with the weights and the bias by which it can read what is before the affine operator."""
    found = layer(graph, reader)
    if found is None or found.op == "TRANSPOSE_CONV" or reader.inputs[0] != x or x in reader.inputs[1:]:
        return None
    channels = graph.shape(x)[-1]
    # Zeros that a kernel puts around its input would have to be shifted, too.
    if affine.shift.any() and found.op != "FULLY_CONNECTED":
        slid = window(graph, reader, (found.weights.shape[1], found.weights.shape[2]))
        if slid is None or slid.is_padded():
            return None
    scale, shift = (np.broadcast_to(values, channels) for values in (affine.scale, affine.shift))
    if found.op == "DEPTHWISE_CONV_2D":
        several = found.weights.shape[3] // channels
        scale, shift = np.repeat(scale, several), np.repeat(shift, several)
        return found, found.weights * scale, found.bias + (found.weights * shift).sum((0, 1, 2))
    if found.weights.shape[-1] != channels:  # groups of channels, or a flattened input
        return None
    others = tuple(range(1, found.weights.ndim))
    return found, found.weights * scale, found.bias + (found.weights * shift).sum(others)


AFFINE = Rewrite("affine", fold_affine, ROUNDING)
