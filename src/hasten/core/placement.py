"""What was placed where: which operators of a model each delegate took, and which were left to the built-in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

XNNPACK: Final = "TfLiteXNNPackDelegate"
YNNPACK: Final = "YNNPackDelegate"
_CPU_DELEGATES: Final = frozenset({XNNPACK, YNNPACK})


@dataclass(frozen=True, slots=True)
class Partition:
    """Operators that one delegate took together, and runs as one."""

    delegate: str
    graph: int
    """Which of the graphs that the engine prepared, in its order; 0 is the first signature's."""
    nodes: tuple[int, ...]
    """Their indices in the graph as the engine runs it: the file's, unless an NPU's compiler rewrote it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Every operator of the graphs that the engine prepared."""

    partitions: tuple[Partition, ...]
    left: tuple[tuple[int, int], ...]
    """(graph, node) of the operators that no delegate took."""

    @property
    def on_accelerator(self) -> tuple[Partition, ...]:
        """What went to something else than the CPU's own delegates."""
        return tuple(partition for partition in self.partitions if partition.delegate not in _CPU_DELEGATES)

    @property
    def accelerated(self) -> int:
        """How many operators that is."""
        return sum(len(partition.nodes) for partition in self.on_accelerator)

    @property
    def on_cpu(self) -> int:
        """How many operators stayed on the CPU."""
        return self.total - self.accelerated

    @property
    def total(self) -> int:
        """All operators of the graphs as the engine runs them."""
        return len(self.left) + sum(len(partition.nodes) for partition in self.partitions)
