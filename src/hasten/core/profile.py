"""Where a run's time goes: operators with their kernels, cost and headroom; partitions; the machine's own peaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hasten.core.doubts import doubts_data

if TYPE_CHECKING:
    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark


@dataclass(frozen=True, slots=True)
class Peaks:
    """What this machine can do at most with so many threads, measured through the engine itself."""

    threads: int
    float_gflops: float
    int8_gops: float
    bandwidth: tuple[tuple[int, float], ...]
    """(bytes touched, GB/s) from small (inside the caches) to large (main memory)."""

    def gbs_for(self, touched_bytes: int) -> float:
        """The bandwidth within reach of an operator that touches so many bytes."""
        for size, gbs in self.bandwidth:
            if touched_bytes <= size:
                return gbs
        return self.bandwidth[-1][1]


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator of the graph and the time that it takes in a run."""

    index: int
    """The node's index in its subgraph; -1 for a whole partition that the engine does not look into."""
    op: str
    kernels: tuple[str, ...]
    location: str
    shapes: str
    ms: float
    share: float
    partition: int | None
    """Which delegated partition it runs in; None where the engine's own kernel runs it."""
    mapped: str
    """`exact`, `ambiguous` or `guess` where delegated; `engine`: its own kernel; `partition`: not looked into."""
    events: tuple[int, ...] = ()
    """Positions of its events among those that the engine reports for a run."""
    kernel_ms: tuple[float, ...] = ()
    """The time of each of `kernels`."""
    fused: tuple[str, ...] = ()
    """Operators that have no kernel of their own and run inside this one, as `index OP`."""
    macs: int | None = None
    flops: int | None = None
    bytes: int | None = None
    gflops: float | None = None
    bound: str | None = None
    """`compute` or `memory`: what limits it if it ran at the machine's peak."""
    headroom_ms: float | None = None
    """What a run would win if this operator ran at the machine's peak."""


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """A part of the graph that runs together, on a delegate or by the engine's own kernels."""

    number: int
    delegated: bool
    nodes: tuple[int, ...]
    operators: tuple[str, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A whole profile. Shares and coverage refer to `invoke_ms`."""

    model: Model
    plan: Plan
    latency_ms: float
    """The latency with profiling off, measured in alternation with the profiled runs."""
    plain_ms: float
    """The mean of the quicker half of those runs: what `invoke_ms`, which is taken so, compares with."""
    profiled_ms: float
    invoke_ms: float
    """The time inside the engine's Invoke, with profiling on, less `profiler_ms`."""
    coverage: float
    runs: int
    operators: tuple[OperatorTime, ...]
    partitions: tuple[PartitionTime, ...]
    peaks: Peaks | None = None
    profiler_ms: float = 0.0
    """What the profiler itself took inside operators that run other graphs (loops, branches), as far as it is known."""
    doubts: tuple[Remark, ...] = field(default=())

    @property
    def profiling_cost(self) -> float:
        """By which part of itself profiling makes a run longer."""
        return (self.invoke_ms + self.profiler_ms) / self.plain_ms - 1 if self.plain_ms else 0.0

    @property
    def seen(self) -> float:
        """Which part of a run the operators add up to; what only profiling takes is no part of it nor of theirs."""
        whole_ms = min(self.invoke_ms, self.plain_ms or self.invoke_ms)
        return sum(operator.ms for operator in self.operators) / whole_ms if whole_ms else 0.0

    def by_kind(self) -> list[tuple[str, int, float, int | None]]:
        """(operator, how many, milliseconds, MACs) by kind of operator, most time first."""
        groups: dict[str, list[OperatorTime]] = {}
        for operator in self.operators:
            groups.setdefault(operator.op, []).append(operator)
        rows = []
        for kind, members in groups.items():
            macs = [member.macs for member in members if member.macs is not None]
            rows.append(
                (kind, len(members), sum(m.ms for m in members), sum(macs) if len(macs) == len(members) else None)
            )
        return sorted(rows, key=lambda row: -row[2])

    def as_data(self) -> dict[str, Any]:
        """The profile as JSON can hold it, with the keys that the command line promises."""
        return {
            "invoke_ms": self.invoke_ms,
            "latency_ms": self.latency_ms,
            "plain_ms": self.plain_ms,
            "profiled_ms": self.profiled_ms,
            "profiler_ms": self.profiler_ms,
            "coverage": self.coverage,
            "runs": self.runs,
            "ops": [_operator_data(operator) for operator in self.operators],
            "partitions": [_partition_data(partition) for partition in self.partitions],
            "peaks": None if self.peaks is None else _peaks_data(self.peaks),
            "doubts": doubts_data(self.doubts),
        }


def _operator_data(operator: OperatorTime) -> dict[str, Any]:
    return {
        "index": operator.index,
        "op": operator.op,
        "kernel": " + ".join(operator.kernels) or None,
        "location": operator.location,
        "shapes": operator.shapes,
        "ms": operator.ms,
        "share": operator.share,
        "macs": operator.macs,
        "flops": operator.flops,
        "bytes": operator.bytes,
        "gflops": operator.gflops,
        "bound": operator.bound,
        "headroom_ms": operator.headroom_ms,
        "mapped": operator.mapped,
        "partition": operator.partition,
        "fused": list(operator.fused),
    }


def _partition_data(partition: PartitionTime) -> dict[str, Any]:
    return {
        "number": partition.number,
        "delegated": partition.delegated,
        "nodes": list(partition.nodes),
        "operators": list(partition.operators),
        "ms": partition.ms,
    }


def _peaks_data(peaks: Peaks) -> dict[str, Any]:
    return {
        "threads": peaks.threads,
        "float_gflops": peaks.float_gflops,
        "int8_gops": peaks.int8_gops,
        "bandwidth": [list(entry) for entry in peaks.bandwidth],
    }
