"""What was found about an application, whether hasten watched it or a platform's tool recorded it."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from hasten.core.codec import key, record, sentence
from hasten.core.platform_trace import TraceSource
from hasten.core.remark import Remark

NAME: Final = "app"
# Rules by the name that JSON, `allow` of a watch and a reader know.
LOADED_AGAIN: Final = "model loaded again"
RESIZED: Final = "resized on every frame"
INPUT_CONVERTED: Final = "input converted"
OUTPUT_UNUSED: Final = "output never used"
OUTPUT_COPIED: Final = "output copied"
PREPROCESSING: Final = "pre-processing dominates"
EVENT_LOOP: Final = "inference on the event loop"
COLD: Final = "first run not warmed up"
DEFAULT_THREADS: Final = "threads left at the default"
MANY_THREADS: Final = "more threads than cores"
CONTENTION: Final = "interpreters fight for cores"
NO_CORE: Final = "waits for a core"


@record
class Split:
    """Milliseconds by part, in the order in which a program goes through them."""

    start_ms: float = 0.0
    load_ms: float = 0.0
    pre_ms: float = 0.0
    copy_in_ms: float = 0.0
    inference_ms: float = 0.0
    copy_out_ms: float = 0.0
    post_ms: float = 0.0
    waiting_ms: float = 0.0
    other_ms: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Part → milliseconds."""
        return {part: getattr(self, f"{part}_ms") for part in PARTS}

    @property
    def total_ms(self) -> float:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def litert_ms(self) -> float:
        """The time inside LiteRT."""
        return self.load_ms + self.copy_in_ms + self.inference_ms + self.copy_out_ms


PARTS: Final = tuple(item.name.removesuffix("_ms") for item in fields(Split))


@record
class Fault:
    """A fault in the application: where it is, and what it costs in this run."""

    rule: str
    file: str
    line: int
    function: str
    cost_ms: float
    share: float
    """Of the wall time, without the time in which other programs had the cores."""
    evidence: Remark = sentence()
    """What was seen. What to do about it (`fix` in JSON) follows from it."""


@record
class ThreadSplit:
    """One thread of the program and how its time splits."""

    process: int
    thread: str
    wall_ms: float
    split: Split
    runs: int


@record
class AppFound:
    """What a watched program and a recorded trace both tell. The split is that of the thread that infers most."""

    wall_ms: float
    split: Split
    thread: str | None
    """The name of that thread; None where nothing was seen."""
    threads: tuple[ThreadSplit, ...]
    findings: tuple[Fault, ...]
    doubts: tuple[Remark, ...]
    trace: str | None = key(default=None, kw_only=True)
    """The timeline's file, if one was asked for."""


@record
class CodeTime:
    """Time that the program itself spent in a function or line, outside of LiteRT."""

    part: str
    file: str
    function: str
    line: int
    ms: float
    samples: int


@record
class OperatorShare:
    """A kind of operator in a run of a model, measured after the program had ended."""

    op: str
    count: int
    share: float


@record
class ModelUse:
    """A model as the program used it."""

    path: str = key("model")
    package: str
    kind: str = key("type")
    threads: int | None
    """As the program asked; None: it did not."""
    loads: int
    runs: int
    first_ms: float
    median_ms: float
    p95_ms: float
    operators: tuple[OperatorShare, ...] = ()


@record
class SlowFrame:
    """One slow round of the loop around the model."""

    number: int = key("frame")
    at_ms: float
    ms: float
    inference_ms: float


@record
class Frames:
    """The rounds of the loop around the model, over time: from the end of one run to the end of the next."""

    count: int
    median_ms: float
    p95_ms: float
    first_ms: float
    first_at_ms: float
    """From the program's start to the end of its first run: the slow start that a user waits for."""
    slowest: tuple[SlowFrame, ...]
    course: tuple[tuple[float, float, float], ...]
    """(when, how long, of that inference); in long programs the slowest of each stretch."""


@record
class Overhead:
    """What watching cost the program, as far as it can be told from within."""

    calls: int
    call_ns: float
    samples: int
    sampler_ms: float
    start_ms: float
    total_ms: float


@record
class NativeRuntime:
    """LiteRT that a program ran without its Python classes: by ctypes, or inside of another extension."""

    libraries: tuple[str, ...]
    threads: int
    """Those that Python did not start."""
    cpu_ms: float
    """The CPU time of these threads."""


@record
class WatchedFound(AppFound):
    """What was seen of a program that ran under watch."""

    command: tuple[str, ...]
    exit_code: int
    code: tuple[CodeTime, ...]
    models: tuple[ModelUse, ...]
    frames: Frames | None
    overhead: Overhead
    processes: int
    native: NativeRuntime | None = None
    """None where no library of LiteRT was loaded but by its Python classes."""

    @property
    def label(self) -> str:
        """Its name in a session."""
        return " ".join(self.command)


@record
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


@record
class InsteadRow:
    """Something that ran where LiteRT did not."""

    what: str
    """A function or section of the application; empty for the holder of a core."""
    where: str
    """The thread, or the process, that it ran on."""
    part: str
    """The part of the split that it counts to; `core` where it held the core that inference waited for."""
    ms: float
    count: int
    file: str = ""
    line: int = 0


@record
class Inferences:
    """Runs of the model, where the trace shows each of them."""

    count: int
    first_ms: float
    median_ms: float
    p95_ms: float


@record
class SchedulerTimes:
    """What the scheduler did with the threads while they were inside inference."""

    running_ms: float
    no_core_ms: float
    """Ready to run, without a core."""
    waiting_ms: float


@record
class TraceFound(AppFound):
    """What a trace says that a platform's tool recorded."""

    source: TraceSource
    process: str
    sampled: bool
    """Whether times are from samples: CPU time that adds up, not moments."""
    loads: int | None
    allocations: int | None
    inferences: Inferences | None
    scheduling: SchedulerTimes | None
    """None where the trace does not tell."""
    partitions: int
    operators: tuple[OperatorRow, ...]
    instead: tuple[InsteadRow, ...]
    pid: int = 0

    @property
    def label(self) -> str:
        """Its name in a session."""
        return f"--from {self.source.path}"
