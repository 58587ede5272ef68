"""What was found about accelerators: what each runs of a model, how right its outputs are, and what it costs."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from hasten.core.checks import check_kind, text_of
from hasten.core.codec import record, sentence
from hasten.core.comparison import Comparison
from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.core.statistics import Interval

BASE = "xnnpack"
"""The row that all others are compared with: XNNPACK on the CPU, with the threads of the plan."""
YARDSTICKS = ("reference", "builtin", BASE)
"""Whose outputs count as right: the first of these that runs."""
NOISE = "seeded noise"
"""What outputs are compared on where there is no data."""


def has_more_threads(plan: Plan, base: Plan) -> bool:
    """Whether a plan is the base's with more threads."""
    return plan.threads > base.threads and replace(plan, threads=base.threads) == base


class Status(enum.Enum):
    """What an accelerator does with a model; the value is its name in JSON."""

    RUNS = "runs"
    PARTIAL = "partial"
    IMPRECISE = "imprecise"
    WRONG = "wrong"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class AcceleratorOptions:
    """What to examine besides the accelerators of the engine itself, and how."""

    delegates: tuple[str, ...] = ()
    """External delegates, as `LIB[:KEY=VALUE;…]`."""
    data: str = ""
    """Real inputs to compare outputs on; empty for seeded noise."""
    preprocess: str = ""
    """How to prepare them, as `--preprocess` takes it."""
    cache: str = ""
    """A folder for caches, to see what they save at the start."""
    pays_from: bool = False
    """Whether to look for the size of a network from which on each pays."""
    other_vendors: bool = False
    """Whether to list NPUs that hasten cannot drive."""

    def __post_init__(self) -> None:
        check_kind("delegates", self.delegates, (tuple, list), 'libraries, such as delegates=("lib.so",)')
        object.__setattr__(self, "delegates", tuple(text_of("delegates", entry) for entry in self.delegates))
        for name in ("data", "preprocess", "cache"):
            object.__setattr__(self, name, text_of(name, getattr(self, name)))


@record
class Latency:
    """A latency with its 95 % interval, and how many processes it comes from."""

    median_ms: float
    ci95_ms: tuple[float, float]
    p95_ms: float | None = None
    processes: int = 0


@record
class LadderPoint:
    """A network of one size, on the CPU (the faster XNNPACK) and on the accelerator."""

    macs: int
    cpu: Interval
    accelerator: Interval
    against_cpu: Comparison


@record
class AcceleratorRow:
    """One accelerator and what was found about it. None: not known, or not applicable."""

    name: str
    status: Status
    plan: Plan = Plan()
    placed_ops: int | None = None
    total_ops: int | None = None
    partitions: int | None = None
    placed_macs: float | None = None
    """The share of the model's multiply-accumulates that it runs."""
    placed_bytes: float | None = None
    refused: tuple[str, ...] = ()
    """Operators that it left to the CPU, as `OP x count`."""
    max_error: float | None = None
    """As a share of the yardstick's range. None: not compared, or, where the status is wrong, not numbers."""
    typical_error: float | None = None
    outputs_change: bool = False
    """Whether the outputs were right at first, and no longer after some hundred runs."""
    compared_with: str = ""
    """The yardstick: the row whose outputs these were compared with. Empty: not compared, or the yardstick itself."""
    latency: Latency | None = None
    init_ms: float | None = None
    first_run_ms: float | None = None
    peak_memory_mb: float | None = None
    against_cpu: Comparison | None = None
    """Against the row `xnnpack`."""
    against_all_cores: Comparison | None = None
    """Against XNNPACK with all cores, where that is the faster XNNPACK and this does not run on the CPU."""
    cpu_threads: int | None = None
    """The threads of the XNNPACK that its speed is judged by and that `break_even_runs` counts against. None: there is
    one row of XNNPACK only."""
    break_even_runs: int | None = None
    cached_start_ms: float | None = None
    """Start-up (init and first run) with its cache filled, where caches were asked for."""
    stand_in: str | None = None
    """What runs in the place of the device that this machine does not have."""
    doubts: tuple[Remark, ...] = ()
    failure: Failure | None = None
    why: Remark = sentence(default=Remark(""))
    pays_from_macs: int | None = None
    """The smallest network from which on it is faster, where that was asked for; None also if there is none."""
    ladder: tuple[LadderPoint, ...] = ()
    """The networks that this was tried on, from the smallest to the largest."""
    ladder_trouble: Remark | None = sentence(default=None)
    """What kept the ladder from being whole."""

    @property
    def start_ms(self) -> float | None:
        """From the file to the end of the first run."""
        return None if self.init_ms is None or self.first_run_ms is None else self.init_ms + self.first_run_ms

    @property
    def against(self) -> Comparison | None:
        """The comparison that it is judged by."""
        return self.against_all_cores or self.against_cpu

    @property
    def median_ms(self) -> float:
        """The latency; infinite where there is none."""
        return self.latency.median_ms if self.latency else float("inf")


@record
class AcceleratorsFound:
    """Every accelerator that was examined with a model."""

    model: str
    rows: tuple[AcceleratorRow, ...]
    compared_on: str = NOISE
    interrupted: bool = False
