"""Counts what a node costs: multiply-accumulates, arithmetic, and bytes moved. Pure arithmetic on shapes.

What is counted, so that figures can be compared with published ones:

- `macs`: multiply-accumulates of matrix products, convolutions and recurrent cells. Positions in the padding count as
  if they were computed; bias, fused activation and the gates' own arithmetic do not count; sparse weights count as if
  they were dense. Other operators have 0.
- `flops`: two for each MAC. For operators without MACs, elements times the number of operations that `cost_formulas`
  states; a call of exp, log, sqrt, sin or tanh is one operation. Changes of type (CAST, QUANTIZE, …) and moves are 0.
- `bytes_read`, `bytes_written`: each input and output once, at its stored size, as if no cache helped. Lookups and
  slices read only what they take; operators that merely rename a shape (RESHAPE, SQUEEZE, EXPAND_DIMS, BITCAST) move
  nothing.

None means unknown, and is never 0: an operator that is not in the table, or a tensor whose shape is open until the
model runs. Give the shapes of such a run as `shapes` to settle the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.model.cost_formulas import FORMULAS
from hasten.model.cost_view import NodeView, Unresolved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hasten.model.graph import Graph, Node, Shape, Subgraph, Tensor


Traffic = tuple[int, int]
"""Bytes read and bytes written."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run of one node. None is unknown."""

    macs: int | None
    flops: int | None
    bytes_read: int | None
    bytes_written: int | None


def count_cost(subgraph: Subgraph, node: Node, shapes: Mapping[int, Shape] | None = None) -> Cost:
    """The cost of one node. `shapes` gives the true shape of tensors by index, where a run has settled them."""
    view = NodeView(subgraph, node, shapes or {})
    formula = FORMULAS.get(node.op)
    if formula is None:
        return Cost(None, None, None, None)
    try:
        macs, flops = formula(view)
    except Unresolved:
        macs, flops = None, None
    read, written = _bytes_moved(view)
    return Cost(macs, flops, read, written)


def total_macs(graph: Graph, shapes: Mapping[int, Shape] | None = None) -> int:
    """The multiply-accumulates of the primary subgraph: of the nodes that are known, so a lower bound if any is not."""
    return sum(count_cost(graph.main, node, shapes).macs or 0 for node in graph.main.nodes)


def stored_shapes(subgraph: Subgraph) -> dict[int, Shape]:
    """The shapes that the file stores for tensors of open shape: a batch of one, for most exported models.

    Right for an ordinary batch dimension. A graph that folds an open dimension into another (a RESHAPE of
    [-1, 7, 7, 8] to [-1, 8]) stores 1 for that as well: the shapes of a real run are better where there are any.
    """
    return {t.index: t.shape for t in subgraph.tensors if t.is_dynamic and not t.is_unranked and -1 not in t.shape}


def _bytes_moved(view: NodeView) -> tuple[int | None, int | None]:
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
