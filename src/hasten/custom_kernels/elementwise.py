"""C for chains of elementwise float operators: one loop over the elements, with a line for each operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.units import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.edit.graph import EditedGraph, Operator

_UNARY: Final = {
    "ABS": "fabsf({0})",
    "NEG": "-{0}",
    "SQUARE": "{0} * {0}",
    "SQRT": "sqrtf({0})",
    "RSQRT": "1.0f / sqrtf({0})",
    "EXP": "expf({0})",
    "LOG": "logf({0})",
    "SIN": "sinf({0})",
    "COS": "cosf({0})",
    "FLOOR": "floorf({0})",
    "CEIL": "ceilf({0})",
    "TANH": "tanhf({0})",
    "LOGISTIC": "1.0f / (1.0f + expf(-{0}))",
    "RELU": "{0} > 0.0f ? {0} : 0.0f",
    "RELU6": "{0} > 0.0f ? ({0} < 6.0f ? {0} : 6.0f) : 0.0f",
    "RELU_N1_TO_1": "{0} > -1.0f ? ({0} < 1.0f ? {0} : 1.0f) : -1.0f",
    "RELU_0_TO_1": "{0} > 0.0f ? ({0} < 1.0f ? {0} : 1.0f) : 0.0f",
    "HARD_SWISH": "{0} * (({0} + 3.0f > 0.0f ? ({0} + 3.0f < 6.0f ? {0} + 3.0f : 6.0f) : 0.0f) / 6.0f)",
    "ELU": "{0} < 0.0f ? expm1f({0}) : {0}",
}
_BINARY: Final = {
    "ADD": "{0} + {1}",
    "SUB": "{0} - {1}",
    "MUL": "{0} * {1}",
    "DIV": "{0} / {1}",
    "MAXIMUM": "{0} > {1} ? {0} : {1}",
    "MINIMUM": "{0} < {1} ? {0} : {1}",
    "SQUARED_DIFFERENCE": "({0} - {1}) * ({0} - {1})",
}
# ActivationFunctionType of the schema.
_ACTIVATIONS: Final = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


def loop_for(
    graph: EditedGraph, operators: Sequence[Operator], read: Sequence[int], written: Sequence[int]
) -> str | None:
    """The body of a kernel's `run`; None where an operator or a shape is not elementwise."""
    shape = graph.shape(written[0]) if written else ()
    if not shape or any(graph.shape(index) != shape for index in written):
        return None
    tensors = {*read, *written, *(index for operator in operators for index in operator.outputs)}
    if any(graph.dtype(index) != "float32" for index in tensors):
        return None
    places = {index: f"input{place}[{at}]" for place, index in enumerate(read) if (at := _place(graph, index, shape))}
    if len(places) != len(read):
        return None
    names, lines = dict(places), []
    for number, operator in enumerate(operators):
        expression = _expression(graph, operator, names)
        if expression is None or any(graph.shape(index) != shape for index in operator.outputs):
            return None
        activation = _ACTIVATIONS.get(int(graph.option(operator, "fusedActivationFunction", 0)))
        if activation is None:
            return None
        lines.append(f"const float t{number} = {expression};")
        names[operator.outputs[0]] = f"t{number}"
        if activation:
            lines.append(f"const float a{number} = {_UNARY[activation].format(f't{number}')};")
            names[operator.outputs[0]] = f"a{number}"
    lines += [f"output{place}[i] = {names[index]};" for place, index in enumerate(written)]
    return _body(graph, read, written, lines)


def _expression(graph: EditedGraph, operator: Operator, names: dict[int, str]) -> str | None:
    op = graph.op(operator)
    template = _UNARY.get(op) if len(operator.inputs) == 1 else _BINARY.get(op) if len(operator.inputs) == 2 else None
    if template is None or any(index not in names for index in operator.inputs):
        return None
    return template.format(*(names[index] for index in operator.inputs))


def _place(graph: EditedGraph, index: int, shape: tuple[int, ...]) -> str:
    """How an input is indexed: element by element, by channel, or always the same one; empty where none of it fits."""
    own = graph.shape(index)
    if own == shape:
        return "i"
    if all(size == 1 for size in own):
        return "0"
    if own[-1] == shape[-1] and all(size == 1 for size in own[:-1]) and len(own) <= len(shape):
        return "channel"
    return ""


def _body(graph: EditedGraph, read: Sequence[int], written: Sequence[int], lines: Sequence[str]) -> str:
    pointers = [f"const float* restrict input{place} = call->inputs[{place}].data;" for place in range(len(read))]
    pointers += [f"float* restrict output{place} = call->outputs[{place}].data;" for place in range(len(written))]
    shape = graph.shape(written[0])
    rows = 1
    for size in shape[:-1]:
        rows *= size
    out = [f"  {line}" for line in pointers]
    out.append(f"  /* {several(rows, 'row')} of {several(shape[-1], 'channel')}. */")
    out.append(f"  for (size_t row = 0; row < {rows}; ++row) {{")
    out.append(f"    for (size_t channel = 0; channel < {shape[-1]}; ++channel) {{")
    out.append(f"      const size_t i = row * {shape[-1]} + channel;")
    out += [f"      {line}" for line in lines]
    out += ["    }", "  }", "  return 0;"]
    return "\n".join(out) + "\n"
