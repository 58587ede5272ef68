"""Finds layer norms in all their spellings, and writes the long ones with as few operators as there are.

`layer_norms` also serves kernels of one's own: it says where a norm is, and with which constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    about,
    cone,
    each,
    integers,
    is_float,
    made_from,
    open_axes,
    operators_below,
    polynomial,
    same_polynomial,
    same_shape,
    values_above,
)
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.edit.graph import Array, EditedGraph, Operator, Options
    from hasten.rewrites.patterns import Polynomial

# MEAN, SUB, SQUARE, MEAN, ADD, RSQRT, MUL; a scale and a shift are one more each.
_FEWEST_OPERATORS = 7


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """(x - mean) / sqrt(variance + epsilon) · scale + shift, with mean and variance over `axes`."""

    x: int
    axes: tuple[int, ...]
    epsilon: float
    scale: Array | None
    shift: Array | None
    operators: list[Operator]
    """In their order; the last one writes the result."""

    @property
    def fewest_operators(self) -> int:
        """How many operators it needs."""
        return _FEWEST_OPERATORS + (self.scale is not None) + (self.shift is not None)


@dataclass(frozen=True, slots=True)
class _Core:
    """The tensors of a norm: the mean of x, and one over the root of the variance."""

    x: int
    mean: int
    inverse: int
    axes: tuple[int, ...]
    epsilon: float


def layer_norms(graph: EditedGraph) -> Iterator[LayerNorm]:
    """Every layer norm, however it is spelled; also norms over other axes than the last."""
    for operator in each(graph, "RSQRT"):
        core = _core(graph, operator)
        found = None if core is None else _widest(graph, core)
        if found is not None:
            yield found


def shorten_layer_norms(graph: EditedGraph) -> list[Change]:
    """Norms that are spelled with more operators than they need, as that of Keras, x·i + (shift - mean·i)."""
    return [_written(graph, norm) for norm in layer_norms(graph) if len(norm.operators) > norm.fewest_operators]


def _core(graph: EditedGraph, root: Operator) -> _Core | None:
    (argument,), (inverse,) = root.inputs, root.outputs
    for variance in values_above(graph, argument):
        squares, axes = _mean_of(graph, variance)
        shifted = polynomial(graph, argument, [variance])
        if squares is None or shifted is None or not same_polynomial({**shifted, (): 1.0}, {(variance,): 1.0, (): 1.0}):
            continue
        for mean in values_above(graph, squares):
            x, other_axes = _mean_of(graph, mean)
            if x is None or other_axes != axes:
                continue
            if same_polynomial(
                polynomial(graph, squares, [x, mean]), {(x, x): 1.0, (x, mean): -2.0, (mean, mean): 1.0}
            ):
                return _Core(x, mean, inverse, axes, shifted.get((), 0.0))
    return None


def _mean_of(graph: EditedGraph, tensor: int) -> tuple[int | None, tuple[int, ...]]:
    """Of what a value is the mean, and over which axes, which it keeps with size 1; no tensor if it is none."""
    operator = graph.producer(tensor)
    if operator is not None and graph.is_op(operator, "RESHAPE", "EXPAND_DIMS"):
        operator = graph.producer(operator.inputs[0])
    operator, factor = _sum_and_factor(graph, operator)
    if operator is None or not graph.is_op(operator, "MEAN", "SUM"):
        return None, ()
    x = operator.inputs[0]
    shape, given = graph.shape(x), integers(graph, operator.inputs[1])
    axes = tuple(sorted({axis % len(shape) for axis in given or () if shape}))
    if graph.is_op(operator, "SUM"):
        is_mean = about(factor * prod(shape[axis] for axis in axes), 1.0) and not open_axes(graph, x)
    else:
        is_mean = factor == 1.0
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return (x, axes) if axes and is_mean and graph.shape(tensor) == kept else (None, ())


def _sum_and_factor(graph: EditedGraph, operator: Operator | None) -> tuple[Operator | None, float]:
    """The SUM that an operator scales, with the factor; any other operator as it is."""
    if operator is not None and graph.is_op(operator, "MUL", "DIV"):
        for total in operator.inputs:
            summed = graph.producer(total)
            whole = polynomial(graph, operator.outputs[0], [total]) if graph.is_op(summed, "SUM") else None
            if whole is not None and whole.keys() == {(total,)}:
                return summed, whole[(total,)]
    return operator, 1.0


def _widest(graph: EditedGraph, core: _Core) -> LayerNorm | None:
    """The norm with all of its scale and shift that the graph has."""
    found = None
    for root in operators_below(graph, core.inverse):
        whole = polynomial(graph, root.outputs[0], [core.x, core.mean, core.inverse])
        parts = None if whole is None else _scale_and_shift(graph, whole, core)
        operators = None if parts is None else cone(graph, root, [core.x])
        if parts is None or operators is None or not same_shape(graph, core.x, root.outputs[0]):
            continue
        if (
            is_float(graph, core.x)
            and open_axes(graph, core.x) <= {0}
            and (found is None or len(operators) > len(found.operators))
        ):
            found = LayerNorm(core.x, core.axes, core.epsilon, *parts, operators)
    return found


def _scale_and_shift(graph: EditedGraph, whole: Polynomial, core: _Core) -> tuple[Array | None, Array | None] | None:
    """The constants of k·scale·(x - mean)·inverse + shift; None if the polynomial is not of that form."""
    scaled = {term: factor for term, factor in whole.items() if core.inverse in term}
    shifts = {term: factor for term, factor in whole.items() if core.inverse not in term}
    for term, factor in scaled.items():
        others = list(term)
        if core.x not in others or len(term) > 3:
            continue
        others.remove(core.x)
        others.remove(core.inverse)
        expected = {term: factor, tuple(sorted((core.mean, core.inverse, *others))): -factor}
        if not same_polynomial(scaled, expected) or len(shifts) > 1:
            return None
        scales = {tuple(others): factor} if others or factor != 1.0 else {}
        constants = [[_constant(graph, *item) for item in items.items()] for items in (scales, shifts)]
        if any(values is None for known in constants for values in known):
            return None
        scale, shift = (known[0] if known else None for known in constants)
        return scale, shift
    return None


def _constant(graph: EditedGraph, term: tuple[int, ...], factor: float) -> Array | None:
    """The values of a factor, or of one constant times a factor; None for other products."""
    if not term:
        return np.asarray(factor, np.float32)
    values = graph.constant(term[0]) if len(term) == 1 else None
    return None if values is None else (values * np.float32(factor)).astype(np.float32)


def _written(graph: EditedGraph, norm: LayerNorm) -> Change:
    root = norm.operators[-1]
    result = root.outputs[0]
    shape = graph.shape(norm.x)
    kept = tuple(1 if axis in norm.axes else size for axis, size in enumerate(shape))
    axes = graph.add_constant(np.asarray(norm.axes, np.int32), "axes")
    writer = _Writer(graph, root)
    mean = writer.add("MEAN", [norm.x, axes], kept, options("ReducerOptions", keepDims=True))
    centered = writer.add("SUB", [norm.x, mean], shape, options("SubOptions"))
    squares = writer.add("SQUARE", [centered], shape, options("SquareOptions"))
    variance = writer.add("MEAN", [squares, axes], kept, options("ReducerOptions", keepDims=True))
    epsilon = graph.add_constant(np.asarray(norm.epsilon, np.float32), "epsilon")
    raised = writer.add("ADD", [variance, epsilon], kept, options("AddOptions"))
    inverse = writer.add("RSQRT", [raised], kept)
    steps = [("MUL", "MulOptions", inverse)]
    if norm.scale is not None:
        steps.append(("MUL", "MulOptions", graph.add_constant(norm.scale, "scale")))
    if norm.shift is not None:
        steps.append(("ADD", "AddOptions", graph.add_constant(norm.shift, "shift")))
    value = centered
    for op, table, operand in steps[:-1]:
        value = writer.add(op, [value, operand], shape, options(table))
    op, table, operand = steps[-1]
    made = graph.insert(op, [value, operand], [result], before=root, chosen=options(table))
    graph.remove(*norm.operators)
    return made_from(made, norm.operators)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Adds operators before another one, each with a tensor for its result."""

    graph: EditedGraph
    before: Operator

    def add(self, op: str, inputs: list[int], shape: tuple[int, ...], chosen: Options | None = None) -> int:
        """Add an operator and return its result."""
        like = inputs[0]
        name = f"{self.graph.name(self.before.outputs[0])}/{op.lower()}"
        made = self.graph.add_tensor(shape, like, name)
        self.graph.insert(op, inputs, [made], before=self.before, chosen=chosen)
        return made


LAYER_NORM = Rewrite("layer-norm", shorten_layer_norms, ROUNDING)
