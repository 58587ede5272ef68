"""Where a run's time goes: operators with their kernels, cost and headroom; partitions; the machine's own peaks."""

from __future__ import annotations

from typing import Final

from hasten.core.codec import key, record
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark

# With less of the run found in operators, nothing can be said of where the rest goes.
_MOSTLY: Final = 0.5


@record
class Peaks:
    """What this machine can do at most with this many threads, measured through the engine itself."""

    threads: int
    float_gflops: float
    int8_gops: float
    bandwidth: tuple[tuple[int, float], ...]
    """(bytes touched, GB/s) from small (inside the caches) to large (main memory)."""

    def gbs_for(self, touched_bytes: int) -> float:
        """The bandwidth within reach of an operator that touches this many bytes."""
        for size, gbs in self.bandwidth:
            if touched_bytes <= size:
                return gbs
        return self.bandwidth[-1][1]


@record
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

    @property
    def kernel(self) -> str:
        """Its kernels in one text."""
        return " + ".join(self.kernels)


@record
class PartitionTime:
    """A part of the graph that runs together, on a delegate or by the engine's own kernels."""

    number: int
    delegated: bool
    nodes: tuple[int, ...]
    operators: tuple[str, ...]
    ms: float


@record
class KindTime:
    """All operators of one kind."""

    op: str
    count: int
    ms: float
    macs: int | None
    """None where that of one of them is not known."""


@record
class Profile:
    """A whole profile. Shares and coverage refer to `invoke_ms`."""

    model: Model
    plan: Plan
    latency_ms: float
    """The latency with profiling off, measured in alternation with the profiled runs."""
    plain_ms: float
    """The mean of those runs that were not disturbed: what `invoke_ms`, which is taken so, compares with."""
    profiled_ms: float
    invoke_ms: float
    """The time inside the engine's Invoke, with profiling on, less `profiler_ms`."""
    coverage: float
    runs: int
    operators: tuple[OperatorTime, ...] = key("ops")
    partitions: tuple[PartitionTime, ...]
    peaks: Peaks | None = None
    profiler_ms: float = 0.0
    """What the profiler itself took inside operators that run other graphs (loops, branches), as far as it is known."""
    doubts: tuple[Remark, ...] = ()
    interrupted: bool = False

    @property
    def profiling_cost(self) -> float:
        """Relative slowdown caused by profiling."""
        return (self.invoke_ms + self.profiler_ms) / self.plain_ms - 1 if self.plain_ms else 0.0

    @property
    def seen_ms(self) -> float:
        """What all operators take."""
        return sum(operator.ms for operator in self.operators)

    @property
    def seen(self) -> float:
        """Which part of a run the operators add up to; what only profiling takes is no part of it nor of theirs."""
        whole_ms = min(self.invoke_ms, self.plain_ms or self.invoke_ms)
        return self.seen_ms / whole_ms if whole_ms else 0.0

    @property
    def is_mostly_seen(self) -> bool:
        """Whether enough of the run is in operators to say where its time goes."""
        return self.seen >= _MOSTLY

    @property
    def told_ms(self) -> float:
        """What single operators take, without partitions that the engine does not look into."""
        return sum(operator.ms for operator in self.operators if operator.index >= 0)

    @property
    def told(self) -> float:
        """Which part of a run that is."""
        return self.seen * self.told_ms / self.seen_ms if self.seen_ms else 0.0

    @property
    def tells_operators(self) -> bool:
        """Whether that is enough to judge single operators."""
        return self.told >= _MOSTLY

    def share(self, ms: float) -> float:
        """A time as a share of the run."""
        return ms / self.invoke_ms if self.invoke_ms else 0.0

    def by_kind(self) -> list[KindTime]:
        """The kinds of operators, most time first."""
        groups: dict[str, list[OperatorTime]] = {}
        for operator in self.operators:
            groups.setdefault(operator.op, []).append(operator)
        kinds = []
        for op, members in groups.items():
            macs = [member.macs for member in members if member.macs is not None]
            known = sum(macs) if len(macs) == len(members) else None
            kinds.append(KindTime(op, len(members), sum(member.ms for member in members), known))
        return sorted(kinds, key=lambda kind: -kind.ms)
