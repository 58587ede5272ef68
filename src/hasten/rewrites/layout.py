"""Stores tensors in the order of dimensions in which the fewest bytes are moved by TRANSPOSE.

Exporters of NCHW models put a TRANSPOSE before and after each convolution; what stands between works in either order.
Which operators should work in which order is a minimum cut. A value that a TRANSPOSE moves has two ways to be stored,
and the rules of operators spread this choice over the graph. Every operator that can work in both orders is a node,
those that cannot are on the side of the order that they have, and a value whose operators are on both sides costs its
bytes once. Weighing all operators together finds what pushing one TRANSPOSE after another does not: it may pay to move
one to where more bytes flow if two others vanish by that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.model.graph import BITS_OF_DTYPE
from hasten.rewrites.layout_rules import Reordering, orders_around
from hasten.rewrites.min_cut import SINK, SOURCE, Network
from hasten.rewrites.orders import Order, composed, inverse, is_identity, moves_only_ones, order_of, ordered
from hasten.rewrites.reshapes import can_be_written, write_reshape
from hasten.rewrites.rewrite import EXACT, ROUNDING, Change, Rewrite

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph, Operator
    from hasten.rewrites.layout_rules import Orders

# Each solution moves fewer bytes than the one before; a graph needs one for each family of orders, rarely a second.
_MOST_SOLUTIONS: Final = 16
_SIDES: Final = (SOURCE, SINK)


def improve_layout(graph: EditedGraph, *, exact: bool) -> list[Change]:
    """All transposes of a graph; `exact` leaves operators in their order whose rounding would change."""
    changes = merge_transposes(graph)
    for _ in range(_MOST_SOLUTIONS):
        solutions = (_Solution(graph, first, exact=exact) for first in _orders_in(graph))
        better = next((solution for solution in solutions if solution.saved_bytes > 0), None)
        if better is None:
            break
        changes += [better.apply(), *merge_transposes(graph)]
    return changes + _write_reshapes(graph)


def merge_transposes(graph: EditedGraph) -> list[Change]:
    """Pairs of transposes, and those that change nothing."""
    changes = []
    for operator in list(graph.operators):
        order = order_of(graph, operator)
        if order is None:
            continue
        nodes = operator.nodes
        before = graph.producer(operator.inputs[0])
        first = None if before is None else order_of(graph, before)
        if before is not None and first is not None:
            both = composed(first, order)
            is_alone = graph.is_read_only_by(operator.inputs[0], operator)
            if is_alone or is_identity(both):
                order, nodes = both, (*before.nodes, *nodes)
                _read_in_order(graph, operator, before.inputs[0], order)
                if is_alone:
                    graph.remove(before)
                changes.append(Change(nodes))
        source, result = operator.inputs[0], operator.outputs[0]
        if is_identity(order) and graph.are_stored_alike(source, result) and graph.take_out(operator, source):
            changes.append(Change(nodes))
    return changes


def _read_in_order(graph: EditedGraph, operator: Operator, source: int, order: Order) -> None:
    """Let a TRANSPOSE read another tensor, in another order."""
    name = graph.name(operator.inputs[1])
    graph.set_input(operator, 0, source)
    graph.set_input(operator, 1, graph.add_constant(np.array(order, np.int32), name))


def _write_reshapes(graph: EditedGraph) -> list[Change]:
    """Transposes that leave every element where it is in memory."""
    changes = []
    for operator in list(graph.operators):
        order = order_of(graph, operator)
        if order is None or is_identity(order):
            continue
        sizes = graph.sizes(operator.inputs[0])
        if moves_only_ones(order, sizes) and can_be_written(sizes):
            write_reshape(graph, operator, ordered(sizes, order))
            changes.append(Change(operator.nodes))
    return changes


def _orders_in(graph: EditedGraph) -> list[Order]:
    """The orders that transposes bring about, an order and its inverse as one; what moves most bytes comes first."""
    moved: dict[Order, int] = {}
    for operator in graph.operators:
        order = order_of(graph, operator)
        if order is not None and not is_identity(order):
            name = min(order, inverse(order))
            moved[name] = moved.get(name, 0) + _cost(graph, operator.inputs[0], order)
    return sorted(moved, key=lambda name: -moved[name])


def _cost(graph: EditedGraph, tensor: int, order: Order) -> int:
    """The bytes that a TRANSPOSE moves; one where elements stay in their places, as that operator is one less, too."""
    if moves_only_ones(order, graph.sizes(tensor)):
        return 1
    elements = prod(max(1, size) for size in graph.shape(tensor))
    return max(1, elements * BITS_OF_DTYPE.get(graph.dtype(tensor), 32) // 8)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The other order in which a tensor could be stored, and the side of the cut on which it is stored as declared."""

    order: Order
    side: int


@dataclass(slots=True, eq=False)
class _Value:
    """Tensors that transposes make of one another: one value, declared in one order or in both (by side)."""

    root: int
    writer: Operator | None
    tensors: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    transposes: list[Operator] = field(default_factory=list)
    readers: list[tuple[int, Operator]] = field(default_factory=list)
    """Tensors with who reads them, in the order of execution."""


@dataclass(frozen=True, slots=True)
class _Mover:
    """An operator that can work in either order: which one its tensors would have, and on which side it works now."""

    operator: Operator
    orders: Orders
    side: int
    node: int


class _Solution:
    """The cheapest storage of all values of a graph. Orders are spread from transposes, from those of `first` first."""

    def __init__(self, graph: EditedGraph, first: Order, *, exact: bool) -> None:
        self._graph, self._exact = graph, exact
        self._outputs = set(graph.outputs)
        self._bound = {*graph.inputs, *graph.outputs}
        self._transposes = {id(operator): order for operator in graph.operators if (order := self._moving(operator))}
        self._layouts: dict[int, _Layout] = {}
        for operator in self._sorted_transposes(first):
            self._spread(operator)
        self._network = Network()
        self._movers = {id(operator): found for operator in graph.operators if (found := self._mover(operator))}
        self._values = self._find_values()
        self._joined = {id(operator) for value in self._values for operator in value.transposes}
        self._others = {found: self._network.add_node() for found in self._transposes if found not in self._joined}
        for value in self._values:
            self._network.tie(self._nodes(value), self._cost(value))
        cost, self._source_side = self._network.cut()
        self.saved_bytes = sum(self._cost(value) * len(value.transposes) for value in self._values) - cost

    # -- which values could be stored in another order

    def _moving(self, operator: Operator) -> Order | None:
        """The order of a TRANSPOSE that moves data of a run."""
        order = order_of(self._graph, operator)
        if order is None or is_identity(order) or self._graph.is_constant(operator.inputs[0]):
            return None
        return None if self._graph.tensor(operator.inputs[0]).isVariable else order

    def _sorted_transposes(self, first: Order) -> list[Operator]:
        found = [operator for operator in self._graph.operators if id(operator) in self._transposes]
        return sorted(found, key=lambda operator: self._transposes[id(operator)] not in {first, inverse(first)})

    def _spread(self, transpose: Operator) -> None:
        """Give layouts to both tensors of a TRANSPOSE, and to all tensors that operators tie to them."""
        source, result = transpose.inputs[0], transpose.outputs[0]
        if source in self._layouts or result in self._layouts:
            return
        order = self._transposes[id(transpose)]
        # By that the sink's side is NHWC where the orders are NHWC and NCHW. Of equal cuts it has the larger side.
        self._layouts[source] = _Layout(order, int(order > inverse(order)))
        waiting = deque([source])
        while waiting:
            tensor = waiting.popleft()
            producer = self._graph.producer(tensor)
            for operator in (*self._graph.readers(tensor), *(() if producer is None else (producer,))):
                for other, layout in self._implied(operator, tensor).items():
                    if other not in self._layouts:
                        self._layouts[other] = layout
                        waiting.append(other)

    def _implied(self, operator: Operator, tensor: int) -> dict[int, _Layout]:
        """The layouts of an operator's tensors that follow from that of one; none where others already contradict."""
        layout = self._layouts[tensor]
        if is_identity(layout.order):
            return {}
        if id(operator) in self._transposes:
            found = self._implied_by_transpose(operator, tensor, layout)
        else:
            orders = orders_around(self._graph, operator, tensor, layout.order, exact=self._exact) or {}
            found = {other: _Layout(order, layout.side) for other, order in orders.items()}
        return found if all(self._agrees(other, implied) for other, implied in found.items()) else {}

    def _implied_by_transpose(self, operator: Operator, tensor: int, layout: _Layout) -> dict[int, _Layout]:
        """What is one side's order is the other side's inverse: both tensors are the same value."""
        order = self._transposes[id(operator)]
        if tensor == operator.inputs[0] and layout.order == order:
            return {operator.outputs[0]: _Layout(inverse(order), 1 - layout.side)}
        if tensor == operator.outputs[0] and layout.order == inverse(order):
            return {operator.inputs[0]: _Layout(order, 1 - layout.side)}
        return {}

    def _agrees(self, tensor: int, layout: _Layout) -> bool:
        """Whether a tensor has this layout, or none yet. Where the order is no other, both sides are the same."""
        known = self._layouts.get(tensor, layout)
        return known.order == layout.order and (known.side == layout.side or is_identity(known.order))

    def _mover(self, operator: Operator) -> _Mover | None:
        if id(operator) in self._transposes:
            return None
        for tensor in (*operator.inputs, *operator.outputs):
            layout = self._layouts.get(tensor)
            if layout is None or is_identity(layout.order):
                continue
            orders = orders_around(self._graph, operator, tensor, layout.order, exact=self._exact) or {}
            implied = {other: _Layout(order, layout.side) for other, order in orders.items()}
            are_known = implied.keys() <= self._layouts.keys()
            if implied and are_known and all(self._agrees(other, found) for other, found in implied.items()):
                return _Mover(operator, orders, layout.side, self._network.add_node())
        return None

    def _find_values(self) -> list[_Value]:
        values: dict[int, _Value] = {}
        for operator in self._graph.operators:
            if id(operator) in self._transposes:
                self._join(operator, values)
        for tensor, layout in self._layouts.items():
            if tensor not in values and not is_identity(layout.order):
                values[tensor] = self._new_value(tensor)
        for operator in self._graph.operators:
            for tensor in dict.fromkeys(operator.inputs):
                if tensor in values:
                    values[tensor].readers.append((tensor, operator))
        return list(dict.fromkeys(values.values()))

    def _new_value(self, tensor: int) -> _Value:
        value = _Value(tensor, self._graph.producer(tensor))
        value.tensors[self._layouts[tensor].side].append(tensor)
        return value

    def _join(self, transpose: Operator, values: dict[int, _Value]) -> None:
        """Let input and output of a TRANSPOSE be one value, if they are; the caller gets each of its tensors apart."""
        source, result = transpose.inputs[0], transpose.outputs[0]
        if source not in self._layouts or result not in self._layouts:
            return
        layout = self._layouts[result]
        is_one = self._implied_by_transpose(transpose, source, self._layouts[source]).get(result) == layout
        if not is_one or not self._graph.are_stored_alike(source, result):
            return
        value = values.get(source) or self._new_value(source)
        alike = value.tensors[layout.side]
        if result in self._bound and not self._bound.isdisjoint(alike):
            return
        values[source] = values[result] = value
        alike.append(result)
        value.transposes.append(transpose)

    # -- the cut

    def _cost(self, value: _Value) -> int:
        return _cost(self._graph, value.root, self._layouts[value.root].order)

    def _nodes(self, value: _Value) -> set[int]:
        """All that write or read a value, as nodes of the cut. Transposes read it in any order at the same cost."""
        found = {self._written_by(value)}
        for tensor, reader in value.readers:
            if id(reader) not in self._transposes:
                found.add(self._node(reader, tensor))
        for side, tensors in enumerate(value.tensors):
            if not self._outputs.isdisjoint(tensors):
                found.add(_SIDES[side])
        return found

    def _written_by(self, value: _Value) -> int:
        return self._node(value.writer, value.root)

    def _node(self, operator: Operator | None, tensor: int) -> int:
        """The node of an operator that can change sides with this tensor, or else the side on which it is."""
        mover = self._movers.get(id(operator))
        if mover is not None and tensor in mover.orders:
            return mover.node
        # A TRANSPOSE that stays can write any order at the same cost.
        return self._others.get(id(operator), _SIDES[self._layouts[tensor].side])

    def _side(self, node: int) -> int:
        return int(node not in self._source_side)

    # -- changing the graph

    def apply(self) -> Change:
        """Store every value as the cut says."""
        reordering, nodes = Reordering(self._graph), set[int]()
        for mover in self._movers.values():
            if self._side(mover.node) != mover.side:
                reordering.reorder(mover.operator, mover.orders)
                nodes.update(mover.operator.nodes)
        for value in self._values:
            self._store(value)
            nodes.update(node for operator in value.transposes for node in operator.nodes)
        self._graph.remove(*(operator for value in self._values for operator in value.transposes))
        return Change(tuple(sorted(nodes)), {"bytes": self.saved_bytes})

    def _store(self, value: _Value) -> None:
        """Let the writer of a value and all of its readers use the tensors of their sides."""
        graph, written = self._graph, self._side(self._written_by(value))
        wanted = {self._side(node) for node in self._nodes(value)}
        stored = {side: self._stored(value, side, wanted) for side in sorted(wanted)}
        first: Operator | None = None
        for tensor, reader in value.readers:
            if id(reader) in self._joined:
                continue
            if id(reader) in self._transposes:
                self._read_written(reader, stored[written], self._layouts[tensor], written)
                continue
            side = self._side(self._node(reader, tensor))
            first = reader if first is None and side != written else first
            for place, index in enumerate(reader.inputs):
                if index == tensor:
                    graph.set_input(reader, place, stored[side])
        if value.writer is not None:
            graph.set_output(value.writer, value.writer.outputs.index(value.root), stored[written])
            if id(value.writer) in self._others and written != self._layouts[value.root].side:
                self._turn(value.writer, value.writer.inputs[0], (), self._layouts[value.root].order)
        if len(stored) == 2:
            self._insert_transpose(value, written, stored, first)

    def _stored(self, value: _Value, side: int, wanted: set[int]) -> int:
        """The tensor that holds a value on one side: one that is declared so, or one that is declared anew."""
        declared = value.tensors[side]
        if declared:
            return next((tensor for tensor in declared if tensor in self._bound), declared[0])
        order = self._layouts[value.root].order
        if 1 - side in wanted or value.root in self._bound:
            return self._graph.add_transposed(value.root, order)
        self._graph.transpose_tensor(value.root, order)
        return value.root

    def _read_written(self, transpose: Operator, tensor: int, layout: _Layout, written: int) -> None:
        """Let a TRANSPOSE that stays read a value as it is written: its own order makes up for that."""
        if layout.side == written:
            self._graph.set_input(transpose, 0, tensor)
        else:
            self._turn(transpose, tensor, inverse(layout.order), ())

    def _turn(self, transpose: Operator, source: int, before: Order, after: Order) -> None:
        """Let a TRANSPOSE read a tensor, and bring about two further orders before and after its own."""
        order = order_of(self._graph, transpose)
        assert order is not None  # or it would not be among the transposes
        order = composed(before, order) if before else order
        _read_in_order(self._graph, transpose, source, composed(order, after) if after else order)

    def _insert_transpose(self, value: _Value, written: int, stored: dict[int, int], before: Operator | None) -> None:
        graph, layout = self._graph, self._layouts[value.root]
        order = layout.order if layout.side == written else inverse(layout.order)
        result = stored[1 - written]
        values = graph.add_constant(np.array(order, np.int32), f"{graph.name(result)}/order")
        made = graph.insert("TRANSPOSE", [stored[written], values], [result], before=before)
        if value.transposes:
            made.nodes = value.transposes[0].nodes


LAYOUT = Rewrite("layout", partial(improve_layout, exact=True), EXACT)
LAYOUT_ROUNDED = Rewrite("layout-rounded", partial(improve_layout, exact=False), ROUNDING)
"""As LAYOUT, with sums and means whose terms are added in another order, and with the columns of dense weights."""
