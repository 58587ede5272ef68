"""What watching an application came to: how its wall time splits, what is wrong in it, and what watching cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.doubts import doubts_data
from hasten.core.finding import Finding, Standing, told_finding

if TYPE_CHECKING:
    from hasten.core.remark import Remark

# The parts of the wall time, in the order in which a program goes through them.
PARTS: Final = {
    "start": "Python's start and imports",
    "load": "model load",
    "pre": "pre-processing",
    "copy_in": "copy in",
    "inference": "inference",
    "copy_out": "copy out",
    "post": "post-processing",
    "waiting": "waiting",
    "other": "the rest of the program",
}


@dataclass(frozen=True, slots=True)
class AppFinding:
    """A fault in the application: where, what it costs in this run, and what to do."""

    rule: str
    file: str
    line: int
    function: str
    cost_ms: float
    share: float
    """Of the wall time, without that in which other programs had the cores."""
    evidence: str
    fix: str

    def as_data(self) -> dict[str, Any]:
        """The finding with the keys that the command line promises, and more."""
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.line,
            "cost_ms": self.cost_ms,
            "fix": self.fix,
            "function": self.function,
            "share": self.share,
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True)
class CodeTime:
    """Time that the program itself spent in a function or line, outside of LiteRT."""

    part: str
    file: str
    function: str
    line: int
    ms: float
    samples: int

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "part": self.part,
            "file": self.file,
            "function": self.function,
            "line": self.line,
            "ms": self.ms,
            "samples": self.samples,
        }


@dataclass(frozen=True, slots=True)
class ThreadSplit:
    """One thread of the program and how its time splits, in milliseconds."""

    process: int
    thread: str
    wall_ms: float
    split: dict[str, float]
    runs: int

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "process": self.process,
            "thread": self.thread,
            "wall_ms": self.wall_ms,
            "runs": self.runs,
            "split": {f"{part}_ms": self.split.get(part, 0.0) for part in PARTS},
        }


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A model as the program used it."""

    path: str
    package: str
    kind: str
    threads: int | None
    """As the program asked; None: it did not."""
    loads: int
    runs: int
    first_ms: float
    median_ms: float
    p95_ms: float
    operators: tuple[tuple[str, int, float], ...] = ()
    """(kind of operator, how many, share of a run), measured after the program had ended."""

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "model": self.path,
            "package": self.package,
            "type": self.kind,
            "threads": self.threads,
            "loads": self.loads,
            "runs": self.runs,
            "first_ms": self.first_ms,
            "median_ms": self.median_ms,
            "p95_ms": self.p95_ms,
            "operators": [{"op": op, "count": count, "share": share} for op, count, share in self.operators],
        }


@dataclass(frozen=True, slots=True)
class Frames:
    """The rounds of the loop around the model, over time: from the end of one run to the end of the next."""

    count: int
    median_ms: float
    p95_ms: float
    first_ms: float
    first_at_ms: float
    """From the program's start to the end of its first run: the slow start that a user waits for."""
    slowest: tuple[tuple[int, float, float, float], ...]
    """(number, when in ms, how long, of that inference) of the slowest."""
    course: tuple[tuple[float, float, float], ...]
    """(when, how long, of that inference); in long programs the slowest of each stretch."""

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        names = ("frame", "at_ms", "ms", "inference_ms")
        return {
            "count": self.count,
            "median_ms": self.median_ms,
            "p95_ms": self.p95_ms,
            "first_ms": self.first_ms,
            "first_at_ms": self.first_at_ms,
            "slowest": [dict(zip(names, entry, strict=True)) for entry in self.slowest],
            "course": [list(entry) for entry in self.course],
        }


@dataclass(frozen=True, slots=True)
class Overhead:
    """What watching cost the program, as far as it can be told from within."""

    calls: int
    call_ns: float
    samples: int
    sampler_ms: float
    start_ms: float

    @property
    def total_ms(self) -> float:
        """All of it."""
        return self.calls * self.call_ns / 1e6 + self.sampler_ms + self.start_ms

    def as_data(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "total_ms": self.total_ms,
            "calls": self.calls,
            "call_ns": self.call_ns,
            "samples": self.samples,
            "sampler_ms": self.sampler_ms,
            "start_ms": self.start_ms,
        }


@dataclass(frozen=True, slots=True)
class AppResult:
    """All that was seen of a program."""

    command: tuple[str, ...]
    exit_code: int
    wall_ms: float
    main: ThreadSplit | None
    threads: tuple[ThreadSplit, ...]
    findings: tuple[AppFinding, ...]
    code: tuple[CodeTime, ...]
    models: tuple[ModelUse, ...]
    frames: Frames | None
    overhead: Overhead
    trace: str = ""
    """The timeline's file, if one was asked for."""
    processes: int = 1
    doubts: tuple[Remark, ...] = field(default=())

    @property
    def finding(self) -> Finding:
        """What the practice came to."""
        if self.main is None:
            return told_finding("app", Standing.NOT_EXAMINED, "no Python program was seen")
        if not self.models:
            return told_finding("app", Standing.NOT_EXAMINED, "the program did not use LiteRT")
        inference = self.main.split.get("inference", 0.0)
        evidence = f"{inference / max(self.main.wall_ms, 1e-9):.0%} of {self.main.wall_ms / 1e3:.1f} s is inference"
        if not self.findings:
            return told_finding("app", Standing.GOOD, f"{evidence}; nothing around the model costs what it need not")
        first = self.findings[0]
        cost = sum(found.cost_ms for found in self.findings)
        return told_finding(
            "app",
            Standing.TO_DO,
            f"{evidence}; {len(self.findings)} faults cost {cost:.0f} ms, most of all {first.rule} at line {first.line}"
            if len(self.findings) > 1
            else f"{evidence}; {first.rule} at line {first.line} costs {cost:.0f} ms",
            first.fix,
        )

    def as_data(self) -> dict[str, Any]:
        """The result with the keys that the command line promises, and more."""
        main = self.main
        return {
            "command": list(self.command),
            "exit_code": self.exit_code,
            "wall_ms": self.wall_ms,
            "split": {f"{part}_ms": main.split.get(part, 0.0) if main else 0.0 for part in PARTS},
            "findings": [found.as_data() for found in self.findings],
            "trace": self.trace or None,
            "thread": None if main is None else main.thread,
            "threads": [thread.as_data() for thread in self.threads],
            "processes": self.processes,
            "code": [entry.as_data() for entry in self.code],
            "models": [model.as_data() for model in self.models],
            "frames": None if self.frames is None else self.frames.as_data(),
            "overhead": self.overhead.as_data(),
            "finding": self.finding.as_data(),
            "doubts": doubts_data(self.doubts),
        }
