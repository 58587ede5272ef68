"""Counts the bytes that a node reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.model.cost_view import NodeView, Unresolved

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.graph import Tensor

Traffic = tuple[int, int]
"""Bytes read and bytes written."""


def bytes_moved(view: NodeView) -> tuple[int | None, int | None]:
    """Bytes read and written by one run of the node; None where a size is open."""
    try:
        return _TRAFFIC.get(view.node.op, _everything)(view)
    except Unresolved:
        return None, None


def _sum(view: NodeView, tensors: list[Tensor]) -> int:
    return sum(view.bytes(tensor) for tensor in tensors)


def _everything(view: NodeView) -> Traffic:
    inputs = view.inputs()
    # The state of a recurrent cell is an input that the node also writes.
    state = [tensor for tensor in inputs if tensor.is_variable]
    return _sum(view, inputs), _sum(view, view.outputs()) + _sum(view, state)


def _nothing(view: NodeView) -> Traffic:
    return 0, 0


def _writes_only(view: NodeView) -> Traffic:
    """The operator looks at shapes or single numbers, not at data."""
    return 0, _sum(view, view.outputs())


def _takes_a_part(view: NodeView) -> Traffic:
    """The first input is read only as far as it ends up in the output; the rest are small lists of where."""
    written = _sum(view, view.outputs())
    return written + _sum(view, view.inputs()[1:]), written


def _looks_up(view: NodeView) -> Traffic:
    """The indices come first and the table second."""
    written = _sum(view, view.outputs())
    return written + view.bytes(view.input(0)), written


def _transposed_convolution(view: NodeView) -> Traffic:
    return _sum(view, view.inputs()[1:]), _sum(view, view.outputs())


def _reads_variable(view: NodeView) -> Traffic:
    written = _sum(view, view.outputs())
    return written, written


def _assigns_variable(view: NodeView) -> Traffic:
    read = view.bytes(view.input(1))
    return read, read


_TRAFFIC: dict[str, Callable[[NodeView], Traffic]] = {
    "RESHAPE": _nothing,
    "SQUEEZE": _nothing,
    "EXPAND_DIMS": _nothing,
    "BITCAST": _nothing,
    "VAR_HANDLE": _nothing,
    "SHAPE": _writes_only,
    "RANK": _writes_only,
    "FILL": _writes_only,
    "ZEROS_LIKE": _writes_only,
    "RANGE": _writes_only,
    "GATHER": _takes_a_part,
    "GATHER_ND": _takes_a_part,
    "SLICE": _takes_a_part,
    "STRIDED_SLICE": _takes_a_part,
    "EMBEDDING_LOOKUP": _looks_up,
    "TRANSPOSE_CONV": _transposed_convolution,
    "CONV_3D_TRANSPOSE": _transposed_convolution,
    "READ_VARIABLE": _reads_variable,
    "ASSIGN_VARIABLE": _assigns_variable,
}
