"""Kernels of a user's own: which nodes they replace, and the options that the engine hands to them.

`replaces` names nodes in one of three ways: an operator (`HARD_SWISH`: all of them), a chain (`MUL,ADD,RELU6`: every
place where one feeds the next and nothing else) or nodes by their numbers (`12` or `12:15`, the last one included).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.custom_kernels.offer import MAX_TENSORS, Found, Offer, encoded
from hasten.model.reader import NO_TENSOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.engine.numba_kernels import ArrayType
    from hasten.model.edit.graph import EditedGraph, Operator

TOLERANCE: Final = 1e-5
"""Of the largest output."""
_NODES: Final = re.compile(r"(\d+)(?::(\d+))?")
NODES_HINT: Final = "Name an operator (HARD_SWISH), a chain (MUL,ADD) or nodes (12 or 12:15)."
# Options of an operator that are not numbers stay out of the attributes.
_NUMBERS: Final = (bool, int, float)


def user_kernels(graph: EditedGraph, kernel: str, replaces: str, types: Sequence[ArrayType] = ()) -> list[Found]:
    """The places in a graph where a kernel of that name could stand.

    `types` are those of its inputs, then outputs, where it is made for certain ones, as kernels in Python are.
    """
    wanted = [(array.dtype, array.rank) for array in types]
    found = []
    for group in groups_named(graph, replaces):
        read, written = group_tensors(graph, group)
        given = [(graph.dtype(index), len(graph.shape(index))) for index in (*read, *written)]
        if _has(graph, group, kernel) or (wanted and wanted != given):
            continue
        if (offer := _offer(graph, group, kernel)) is not None:
            found.append(Found(offer, tuple(group)))
    return found


def _has(graph: EditedGraph, group: Sequence[Operator], kernel: str) -> bool:
    """Whether the kernel stands there already."""
    codes = [graph.parts.custom_name(int(operator.opcodeIndex)) for operator in group]
    return any(code.partition("#")[0] == kernel for code in codes)


def groups_named(graph: EditedGraph, replaces: str) -> list[list[Operator]]:
    """The groups of operators that a text names; none where the graph has none of them."""
    named = replaces.replace(" ", "")
    if match := _NODES.fullmatch(named):
        first, last = int(match[1]), int(match[2] or match[1])
        chosen = [operator for operator in graph.operators if first <= operator.nodes[0] <= last]
        is_whole = [operator.nodes for operator in chosen] == [(node,) for node in range(first, last + 1)]
        return [chosen] if chosen and is_whole else []
    names = named.upper().split(",")
    if not all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in names):
        raise UsageError(f"{replaces!r} names no nodes.", NODES_HINT)
    return _chains(graph, names)


def _chains(graph: EditedGraph, names: Sequence[str]) -> list[list[Operator]]:
    found: list[list[Operator]] = []
    taken: set[int] = set()
    for operator in graph.operators:
        chain = _chain_from(graph, operator, names)
        if chain and not taken.intersection(map(id, chain)):
            taken.update(map(id, chain))
            found.append(chain)
    return found


def _chain_from(graph: EditedGraph, operator: Operator, names: Sequence[str]) -> list[Operator]:
    """The operators of a chain that begins here, or none."""
    chain = [operator]
    for name in names[1:]:
        follower = graph.only_reader(chain[-1].outputs[0]) if len(chain[-1].outputs) == 1 else None
        if follower is None or not graph.is_op(follower, name):
            return []
        chain.append(follower)
    return chain if graph.is_op(operator, names[0]) else []


def group_tensors(graph: EditedGraph, operators: Sequence[Operator]) -> tuple[list[int], list[int]]:
    """What a group reads from outside, constants too, each once in the order of reading; and what others read of it."""
    part = {id(operator) for operator in operators}
    made = dict.fromkeys(index for operator in operators for index in operator.outputs)
    read = [index for operator in operators for index in operator.inputs if index != NO_TENSOR and index not in made]
    written = [
        index
        for index in made
        if index in graph.outputs or any(id(reader) not in part for reader in graph.readers(index))
    ]
    return list(dict.fromkeys(read)), written


def _offer(graph: EditedGraph, operators: Sequence[Operator], kernel: str) -> Offer | None:
    read, outputs = group_tensors(graph, operators)
    if not outputs or max(len(read), len(outputs)) > MAX_TENSORS:
        return None
    constants, inputs = {}, []
    for place, index in enumerate(read):
        if index in graph.inputs or graph.producer(index) is not None:
            inputs.append(index)
            continue
        values = graph.constant(index)
        if values is None:
            return None  # sparse, packed or variable: no plain array
        constants[place] = values
    attributes = packed(option_values(operators[0])) if len(operators) == 1 else b""
    nodes = tuple(sorted(node for operator in operators for node in operator.nodes))
    replaces = ",".join(graph.op(operator) for operator in operators)
    return Offer(kernel, replaces, nodes, tuple(inputs), tuple(outputs), encoded(attributes, constants), TOLERANCE)


def option_values(operator: Operator) -> dict[str, int | float]:
    """The numbers among an operator's options, in the schema's order: a kernel gets them as its attributes."""
    given: dict[str, Any] = vars(operator.builtinOptions) if operator.builtinOptions is not None else {}
    return {name: value for name, value in given.items() if isinstance(value, _NUMBERS)}


def packed(options: dict[str, int | float]) -> bytes:
    """Options as 32-bit numbers, one after the other."""
    return b"".join(
        struct.pack("<f", value) if isinstance(value, float) else struct.pack("<i", int(value))
        for value in options.values()
    )
