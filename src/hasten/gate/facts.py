"""What a gate found: each limit with what was measured against it, and whether it is kept, broken or undecided."""

from __future__ import annotations

import enum

from hasten.core.checks import ABOVE_ZERO, FROM_ZERO, check_given, check_number
from hasten.core.codec import key, record, sentence
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark

# Regressions below these are no news: a rebuild of the same model can show them.
DEFAULT_SLOWDOWN = 0.03
DEFAULT_DROP = 0.01


@record
class Limits:
    """The limits; None where there is none. All are upper ones, except for an accuracy where more is better."""

    latency_ms: float | None = None
    p95_ms: float | None = None
    init_ms: float | None = None
    memory_mb: float | None = None
    size_bytes: float | None = None
    accuracy: float | None = None
    max_slowdown: float = DEFAULT_SLOWDOWN
    """The slowdown against the baseline that is no regression yet."""
    max_drop: float = DEFAULT_DROP
    """The loss of accuracy against the baseline that is no regression yet; for mae and metrics of one's own, a part of
    the baseline's value."""

    def __post_init__(self) -> None:
        check_given(self, ("latency_ms", "p95_ms", "init_ms", "memory_mb", "size_bytes"), ABOVE_ZERO)
        check_given(self, ("accuracy",), FROM_ZERO)
        for name in ("max_slowdown", "max_drop"):
            check_number(name, getattr(self, name), FROM_ZERO)

    @property
    def is_timed(self) -> bool:
        """Whether a limit asks for timed runs of the model."""
        limits = (self.latency_ms, self.p95_ms, self.init_ms, self.memory_mb)
        return any(limit is not None for limit in limits)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited, except against a baseline."""
        return not self.is_timed and self.size_bytes is None and self.accuracy is None


class GateVerdict(enum.Enum):
    """Whether a limit is kept; the value is its name in JSON."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


@record
class Row:
    """One limit and how it stands."""

    what: str
    unit: str
    """ms, MB, bytes, share (1 is all of it), ratio (1 is as before) or value."""
    measured: float | None
    interval: tuple[float, float] | None
    limit: float
    verdict: GateVerdict
    why: Remark = sentence()
    at_least: bool = False
    """Whether the limit is a lower one."""
    confidence: float | None = None
    """Of the interval; None where there is none, or where it is the range of what was seen."""
    against: str = ""
    """The baseline, where it is compared with one."""

    @property
    def name(self) -> str:
        """What is limited, with the baseline: `latency against old.tflite`."""
        return f"{self.what} against {self.against}" if self.against else self.what


@record
class CheckFound:
    """What a gate came to."""

    model: Model
    plan: Plan
    rows: tuple[Row, ...]
    limits: Limits = key("budget", default=Limits())
    doubts: tuple[Remark, ...] = ()
    seconds: float = 0.0
    bound_seconds: float = 0.0
    """The time after which no further process begins; 0 where nothing is timed, or in sessions from before it."""
    strict: bool = False
    """Whether an undecided gate is shut (`--undecided fail`)."""
    interrupted: bool = False
    notes: tuple[Remark, ...] = ()

    @property
    def verdict(self) -> GateVerdict:
        """Failed if a limit is; passed only if every limit is decided."""
        if self.count(GateVerdict.FAILED):
            return GateVerdict.FAILED
        decided = self.rows and not self.interrupted and not self.count(GateVerdict.UNDECIDED)
        return GateVerdict.PASSED if decided else GateVerdict.UNDECIDED

    @property
    def passed(self) -> bool:
        """Whether every limit is decided, and kept."""
        return self.verdict is GateVerdict.PASSED

    @property
    def is_open(self) -> bool:
        """Whether a pipeline may go on: passed, or undecided where the user lets that pass."""
        return self.passed or (self.verdict is GateVerdict.UNDECIDED and not self.strict and not self.interrupted)

    def count(self, verdict: GateVerdict) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict is verdict for row in self.rows)
