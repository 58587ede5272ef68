"""What a platform's trace came to: the split of time, operators, what ran instead, what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.finding import Finding, Standing, told_finding
from hasten.practices.app.facts import PARTS, AppFinding, ThreadSplit
from hasten.traces.words import BOOK, source_data

if TYPE_CHECKING:
    from hasten.core.platform_trace import TraceSource
    from hasten.core.remark import Remark


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of the model, or one kernel where a sampler saw no more, over the whole trace."""

    op: str
    node: int
    """Its node's index; -1 where the trace does not tell."""
    subgraph: int
    delegate: bool
    """Whether it is a whole partition that a delegate runs."""
    count: int
    """How often it was seen: runs of it, or samples."""
    ms: float
    share: float
    """Of the time inside inference."""

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "op": self.op,
            "node": self.node,
            "subgraph": self.subgraph,
            "delegate": self.delegate,
            "count": self.count,
            "ms": self.ms,
            "share": self.share,
        }


@dataclass(frozen=True, slots=True)
class InsteadRow:
    """Something that ran where TFLite did not."""

    what: str
    where: str
    """The thread, or the process, that it ran on."""
    part: str
    """The part of the split that it counts to; `core` where it held the core that inference waited for."""
    ms: float
    count: int
    file: str = ""
    line: int = 0

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "what": self.what,
            "where": self.where,
            "part": self.part,
            "ms": self.ms,
            "count": self.count,
            "file": self.file,
            "line": self.line,
        }


@dataclass(frozen=True, slots=True)
class Inferences:
    """Runs of the model, where the trace shows each of them."""

    count: int
    first_ms: float
    median_ms: float
    p95_ms: float

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"count": self.count, "first_ms": self.first_ms, "median_ms": self.median_ms, "p95_ms": self.p95_ms}


@dataclass(frozen=True, slots=True)
class PlatformResult:
    """All of it. The split is that of the thread that infers most; the others are in `threads`."""

    source: TraceSource
    process: str
    sampled: bool
    """Whether times are from samples: CPU time that adds up, not moments."""
    main: ThreadSplit | None
    threads: tuple[ThreadSplit, ...]
    loads: int | None
    allocations: int | None
    inferences: Inferences | None
    scheduling_ms: tuple[float, float, float] | None
    """Running, ready but without a core, and waiting, while inside inference; None where the trace does not tell."""
    partitions: int
    operators: tuple[OperatorRow, ...]
    instead: tuple[InsteadRow, ...]
    findings: tuple[AppFinding, ...]
    doubts: tuple[Remark, ...]
    trace: str = ""

    @property
    def wall_ms(self) -> float:
        """The time that the split is of."""
        return self.main.wall_ms if self.main else 0.0

    @property
    def finding(self) -> Finding:
        """What the practice came to."""
        inference = self.main.split.get("inference", 0.0) if self.main else 0.0
        if not inference:
            return told_finding("app", Standing.NOT_EXAMINED, "the trace shows no inference")
        evidence = f"{inference / max(self.wall_ms, 1e-9):.0%} of {self.wall_ms / 1e3:.1f} s is inference"
        if not self.findings:
            return told_finding("app", Standing.GOOD, f"{evidence}; the trace shows no fault around the model")
        first = self.findings[0]
        return told_finding(
            "app", Standing.TO_DO, f"{evidence}; most of all {first.rule} costs {first.cost_ms:.0f} ms", first.fix
        )

    def by_kind(self) -> list[tuple[str, bool, int, int, float, float]]:
        """(operator, delegated, nodes, count, ms, share) by kind of operator, most time first."""
        groups: dict[tuple[str, bool], list[OperatorRow]] = {}
        for row in self.operators:
            groups.setdefault((row.op, row.delegate), []).append(row)
        rows = [
            (
                op,
                delegate,
                len(group),
                sum(row.count for row in group),
                sum(row.ms for row in group),
                sum(row.share for row in group),
            )
            for (op, delegate), group in groups.items()
        ]
        return sorted(rows, key=lambda row: -row[4])

    def as_data(self) -> dict[str, Any]:
        """The result with the keys of `hasten app`, and what only a trace has."""
        main, ready = self.main, self.scheduling_ms
        return {
            "wall_ms": self.wall_ms,
            "split": {f"{part}_ms": main.split.get(part, 0.0) if main else 0.0 for part in PARTS},
            "findings": [found.as_data() for found in self.findings],
            "trace": self.trace or None,
            "source": source_data(self.source),
            "process": self.process,
            "thread": main.thread if main else None,
            "threads": [thread.as_data() for thread in self.threads],
            "sampled": self.sampled,
            "loads": self.loads,
            "allocations": self.allocations,
            "inferences": None if self.inferences is None else self.inferences.as_data(),
            "scheduling": None
            if ready is None
            else {"running_ms": ready[0], "no_core_ms": ready[1], "waiting_ms": ready[2]},
            "partitions": self.partitions,
            "operators": [row.as_data() for row in self.operators],
            "instead": [row.as_data() for row in self.instead],
            "finding": self.finding.as_data(),
            "doubts": [BOOK.remark_data(doubt) for doubt in self.doubts],
        }
