"""What was placed where: which operators each delegate took, read from the engine's own plan while it is being made.

LiteRT 2.3 tells from outside only whether *every* operator was taken. The whole plan can be seen just in one place: in
a delegate's Prepare. So the delegates that are made on our side get a Prepare that calls the true one and then looks.
"""

from __future__ import annotations

import ctypes as c

from hasten.core.placement import Partition, Placement
from hasten.engine import abi_delegate as abi


class PlacementObserver:
    """Watches delegates being applied. Must outlive them: the engine applies them again when an input is resized."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[list[Partition], list[int]]] = {}
        self._kept_alive: list[object] = []

    def watch(self, address: int) -> None:
        """Look at the plan each time after this delegate was applied."""
        delegate = abi.Delegate.from_address(address)
        if not delegate.prepare:
            return  # it was made by an opaque builder; the next delegate's turn shows what it took
        true_prepare = abi.Prepare(delegate.prepare)

        def prepare_and_look(context: int, delegate_address: int) -> int:
            status = int(true_prepare(context, delegate_address))
            if status == abi.STATUS_OK:
                self._look(context)
            return status

        function = abi.Prepare(prepare_and_look)
        self._kept_alive.append(function)
        delegate.prepare = c.cast(function, c.c_void_p).value

    def placement(self) -> Placement | None:
        """What was placed where, or None if no delegate that can be watched was applied."""
        if not self._plans:
            return None
        partitions = tuple(partition for found, _ in self._plans.values() for partition in found)
        left = tuple((graph, node) for graph, (_, nodes) in enumerate(self._plans.values()) for node in nodes)
        return Placement(partitions, left)

    def _look(self, address: int) -> None:
        context = abi.Context.from_address(address)
        order = list(self._plans)
        graph = order.index(address) if address in self._plans else len(order)
        plan = c.c_void_p()
        if context.get_execution_plan(address, c.byref(plan)) != abi.STATUS_OK:
            return
        partitions: list[Partition] = []
        left: list[int] = []
        # The engine hands out one array that it overwrites at each call: copy it before asking for the nodes.
        for index in abi.integers_at(plan.value):
            partition = _partition(context, address, index, graph)
            if partition is None:
                left.append(index)
            else:
                partitions.append(partition)
        self._plans[address] = (partitions, left)


def _partition(context: abi.Context, address: int, index: int, graph: int) -> Partition | None:
    """The partition that a node of the plan stands for, or None if it is an operator of the model."""
    node_address, registration_address = c.c_void_p(), c.c_void_p()
    status = context.get_node(address, index, c.byref(node_address), c.byref(registration_address))
    if status != abi.STATUS_OK or not node_address.value or not registration_address.value:
        return None
    registration = abi.Registration.from_address(registration_address.value)
    if registration.builtin_code != abi.BUILTIN_DELEGATE:
        return None
    node = abi.Node.from_address(node_address.value)
    name = (registration.custom_name or b"delegate").decode(errors="replace")
    return Partition(name, graph, _nodes_of(node))


def _nodes_of(node: abi.Node) -> tuple[int, ...]:
    if not node.builtin_data or not node.delegate:
        return ()
    is_opaque = bool(abi.Delegate.from_address(node.delegate).opaque_builder)
    layout = abi.OpaquePartitionParameters if is_opaque else abi.PartitionParameters
    return abi.integers_at(layout.from_address(node.builtin_data).nodes)
