"""Recovers GELU from its formulas: by the error function, by tanh, and the one by the sigmoid that equals tanh's."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Final

from hasten.model.edit.graph import options
from hasten.rewrites.patterns import (
    cone,
    each,
    is_float,
    operators_below,
    polynomial,
    replace,
    same_polynomial,
    same_shape,
    scalar,
    values_above,
)
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hasten.model.edit.graph import EditedGraph, Operator

    Formula = Mapping[tuple[int, ...], float]

_CUBIC: Final = 0.044715
_TANH_SCALE: Final = sqrt(2 / pi)
_ERF_SCALE: Final = sqrt(0.5)
# LiteRT has no operator for the error function; converters write custom ones.
_ERROR_FUNCTIONS: Final = frozenset({"Erf", "FlexErf", "ERF", "erf"})
# Or they write the approximation 7.1.26 of Abramowitz and Stegun, which is right to 1.5e-7:
# erf(z) = sign(z) · (1 - (a1·t + … + a5·t⁵) · exp(-z²)), with t = 1 / (1 + p·|z|).
_P: Final = 0.3275911
_A: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def recover_gelu(graph: EditedGraph) -> list[Change]:
    """x/2 · (1 + f(g(x))), with f the error function or tanh, and x · sigmoid(2·g(x)) with tanh's g."""
    changes = []
    for operator in each(graph, "TANH", "LOGISTIC", "CUSTOM", "SIGN"):
        op = graph.op(operator)
        argument, value = operator.inputs[0], operator.outputs[0]
        if op == "CUSTOM" and not _is_error_function(graph, operator):
            continue
        for x in values_above(graph, argument):
            if same_polynomial(polynomial(graph, argument, [x]), _argument(op, x)):
                formula = _approximated(graph, x, argument, value) if op == "SIGN" else _formula(op, x, value)
                changes += _replaced(graph, operator, x, formula)
                break
    return changes


def _is_error_function(graph: EditedGraph, operator: Operator) -> bool:
    return graph.parts.custom_name(int(operator.opcodeIndex)) in _ERROR_FUNCTIONS


def _argument(op: str, x: int) -> Formula:
    """What the function of each formula is taken of."""
    if op in {"CUSTOM", "SIGN"}:
        return {(x,): _ERF_SCALE}
    scale = _TANH_SCALE * (2 if op == "LOGISTIC" else 1)
    return {(x,): scale, (x, x, x): scale * _CUBIC}


def _formula(op: str, x: int, value: int) -> Formula:
    """GELU by the value of a function."""
    return {(x, value): 1.0} if op == "LOGISTIC" else {(x,): 0.5, (x, value): 0.5}


def _approximated(graph: EditedGraph, x: int, argument: int, sign: int) -> Formula:
    """GELU by the approximation of the error function; nothing if the graph lacks parts of it."""
    for fraction in _fractions(graph, argument):
        for power in _exponentials(graph, argument):
            terms: dict[tuple[int, ...], float] = {
                (x, sign, power, *[fraction] * (place + 1)): -factor / 2 for place, factor in enumerate(_A)
            }
            return {(x,): 0.5, (x, sign): 0.5, **terms}
    return {}


def _fractions(graph: EditedGraph, argument: int) -> Iterator[int]:
    """The values 1 / (1 + p·|z|)."""
    for absolute in graph.readers(argument):
        size = absolute.outputs[0]
        for below in operators_below(graph, size) if graph.is_op(absolute, "ABS") else ():
            divisor = below.outputs[0]
            reader = graph.only_reader(divisor)
            is_sum = same_polynomial(polynomial(graph, divisor, [size]), {(): 1.0, (size,): _P})
            if is_sum and reader is not None and graph.is_op(reader, "DIV") and scalar(graph, reader.inputs[0]) == 1:
                yield reader.outputs[0]


def _exponentials(graph: EditedGraph, argument: int) -> Iterator[int]:
    """The values exp(-z²)."""
    for below in operators_below(graph, argument):
        square = below.outputs[0]
        if same_polynomial(polynomial(graph, square, [argument]), {(argument, argument): -1.0}):
            yield from (reader.outputs[0] for reader in graph.readers(square) if graph.is_op(reader, "EXP"))


def _replaced(graph: EditedGraph, function: Operator, x: int, formula: Formula) -> list[Change]:
    leaves = {x, *(index for term in formula for index in term)}
    for root in operators_below(graph, function.outputs[0]):
        whole = polynomial(graph, root.outputs[0], leaves) if formula else None
        chain = cone(graph, root, [x]) if same_polynomial(whole, formula) else None
        if chain is not None and is_float(graph, x) and same_shape(graph, x, root.outputs[0]):
            chosen = options("GeluOptions", approximate=graph.is_op(function, "TANH", "LOGISTIC"))
            return [replace(graph, chain, "GELU", [x], chosen)]
    return []


GELU = Rewrite("gelu", recover_gelu, ROUNDING)
