"""A gate: each limit with what was measured against it, and whether it is kept, broken or not yet decided.

A limit on a time is kept only if the whole interval lies below it, and broken only if the whole interval lies above:
noise neither opens the gate nor shuts it. The measuring side looks after every round, so the intervals have 99 %, as
the verdict of a comparison has. Sizes are exact, and so is the accuracy on given data.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict
from hasten.core.doubts import doubts_data
from hasten.core.json_numbers import finite
from hasten.core.units import percent
from hasten.evaluate.words import floor_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy, PairedAccuracy
    from hasten.core.floor import Floor
    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.statistics import Interval
    from hasten.gate.limits_file import Budget

CONFIDENCE: Final = 0.99
_SHOWN: Final = 0.95
FEWEST_PROCESSES: Final = 4
_MORE_TIME: Final = "More time (--seconds) may tell."


class GateVerdict(enum.Enum):
    """Whether a limit is kept; the value is its name in JSON."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Row:
    """One limit and how it stands."""

    what: str
    unit: str
    """ms, MB, bytes, share (1 is all of it), ratio (1 is as before) or value."""
    measured: float | None
    interval: tuple[float, float] | None
    limit: float
    verdict: GateVerdict
    why: str
    at_least: bool = False
    """Whether the limit is a lower one."""
    confidence: float | None = None
    """Of the interval; None where there is none, or where it is the range of what was seen."""

    def as_data(self) -> dict[str, Any]:
        """The row as JSON can hold it."""
        ends = None if self.interval is None else [finite(end) for end in self.interval]
        measured = None if self.measured is None else finite(self.measured)
        return {**asdict(self), "measured": measured, "interval": ends, "verdict": self.verdict.value}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a gate came to."""

    model: Model
    plan: Plan
    budget: Budget
    rows: tuple[Row, ...]
    doubts: tuple[Remark, ...] = ()
    seconds: float = 0.0
    strict: bool = False
    """Whether what is undecided counts as broken."""
    interrupted: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether the gate is open."""
        return not self.interrupted and not self.blocking

    @property
    def blocking(self) -> list[Row]:
        """The rows that keep it shut."""
        bad = (GateVerdict.FAILED, GateVerdict.UNDECIDED) if self.strict else (GateVerdict.FAILED,)
        return [row for row in self.rows if row.verdict in bad]

    def count(self, verdict: GateVerdict) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return {
            "model": asdict(self.model),
            "plan": asdict(self.plan),
            "passed": self.passed,
            "rows": [row.as_data() for row in self.rows],
            "budget": self.budget.as_data(),
            "strict": self.strict,
            "seconds": self.seconds,
            "doubts": doubts_data(self.doubts),
            "notes": list(self.notes),
            "interrupted": self.interrupted,
        }


def exact_row(what: str, unit: str, measured: float, limit: float) -> Row:
    """A figure that is the same each time."""
    kept = measured <= limit
    why = "it is exact" if kept else f"{percent(measured / limit - 1)} above the limit"
    return Row(what, unit, measured, None, limit, GateVerdict.PASSED if kept else GateVerdict.FAILED, why)


def timed_row(what: str, found: Interval | None, limit: float, processes: int) -> Row:
    """A time in milliseconds, with its interval over so many fresh processes."""
    if found is None:
        return Row(what, "ms", None, None, limit, GateVerdict.UNDECIDED, "nothing was measured")
    if processes < FEWEST_PROCESSES:
        verdict = GateVerdict.UNDECIDED
        why = f"{processes} of the {FEWEST_PROCESSES} processes that a verdict needs. {_MORE_TIME}"
    elif found.high <= limit:
        verdict, why = GateVerdict.PASSED, "the whole interval lies below the limit"
    elif found.low > limit:
        verdict = GateVerdict.FAILED
        why = f"{percent(found.estimate / limit - 1)} above the limit, and the whole interval is"
    else:
        verdict, why = GateVerdict.UNDECIDED, f"the limit lies inside. {_MORE_TIME}"
    ends = (found.low, found.high)
    return Row(what, "ms", found.estimate, ends, limit, verdict, why, confidence=CONFIDENCE)


def memory_row(peaks_mb: Sequence[float], limit: float) -> Row:
    """The peak memory of each process: kept if all are below the limit, broken if all are above."""
    if not peaks_mb:
        return Row("memory", "MB", None, None, limit, GateVerdict.UNDECIDED, "this system does not tell the peak")
    low, high = min(peaks_mb), max(peaks_mb)
    if high <= limit:
        verdict, why = GateVerdict.PASSED, "the peak of every process lies below the limit"
    elif low > limit:
        verdict, why = GateVerdict.FAILED, f"{percent(high / limit - 1)} above the limit, and every process is"
    else:
        above = sum(peak > limit for peak in peaks_mb)
        verdict, why = GateVerdict.UNDECIDED, f"{above} of {len(peaks_mb)} processes went above the limit"
    return Row("memory", "MB", high, (low, high), limit, verdict, why)


def accuracy_row(found: Accuracy, limit: float, *, higher_is_better: bool) -> Row:
    """The accuracy on the data given. It is the same each time: the interval is for other data of its kind."""
    kept = found.value >= limit if higher_is_better else found.value <= limit
    sure = not found.low <= limit <= found.high
    why = f"{found.metric} on these {found.samples} samples"
    if not sure:
        why += "; on others of their kind it could go the other way"
    return Row(
        "accuracy",
        "share" if found.high <= 1 and found.low >= 0 else "value",
        found.value,
        (found.low, found.high),
        limit,
        GateVerdict.PASSED if kept else GateVerdict.FAILED,
        why,
        at_least=higher_is_better,
        confidence=_SHOWN,
    )


def drop_row(baseline: str, found: PairedAccuracy, floor: Floor) -> Row:
    """The accuracy against that of the baseline: broken if it is surely worse, and by more than is allowed."""
    low, high = sorted((-found.low, -found.high) if found.higher_is_better else (found.low, found.high))
    counts = f"{found.lost} lost and {found.won} won of {found.samples}" if found.lost is not None else ""
    counts = counts or f"on {found.samples} samples"
    if found.drop <= 0 or floor.keeps(found.drop):
        verdict, why = GateVerdict.PASSED, counts
    elif floor.allowed is None:
        verdict, why = GateVerdict.UNDECIDED, counts
    elif low > 0:
        verdict, why = GateVerdict.FAILED, f"surely worse: {counts}"
    else:
        verdict, why = GateVerdict.UNDECIDED, f"{counts}, which may be chance: more data may tell"
    return Row(
        f"accuracy lost against {baseline}",
        floor.unit,
        found.drop + 0.0,
        (low, high),
        floor.allowed or 0.0,
        verdict,
        f"{why}; allowed: {floor_text(floor, baseline)}",
        confidence=_SHOWN,
    )


def slowdown_row(baseline: str, found: Comparison | None, margin: float) -> Row:
    """The latency against the baseline model's, from rounds that both ran in.

    Broken if `compare` says slower: surely so, and by more than the margin. Kept if the whole interval is below it.
    """
    what = f"latency against {baseline}"
    if found is None:
        return Row(what, "ratio", None, None, 1 + margin, GateVerdict.UNDECIDED, "nothing was measured")
    enough = found.rounds >= FEWEST_ROUNDS
    if found.verdict is Verdict.SLOWER:
        verdict, why = GateVerdict.FAILED, f"surely slower, by {percent(found.ratio - 1)}"
    elif found.verdict is Verdict.FASTER:
        verdict, why = GateVerdict.PASSED, f"surely faster, by {percent(1 - found.ratio)}"
    elif enough and found.ci95[1] <= 1 + margin:
        verdict, why = GateVerdict.PASSED, "the whole interval lies below the limit"
    elif not enough:
        verdict = GateVerdict.UNDECIDED
        why = f"{found.rounds} of the {FEWEST_ROUNDS} process pairs that a verdict needs. {_MORE_TIME}"
    else:
        verdict, why = GateVerdict.UNDECIDED, f"the noise is larger than the difference. {_MORE_TIME}"
    return Row(what, "ratio", found.ratio, found.ci95, 1 + margin, verdict, why, confidence=_SHOWN)
