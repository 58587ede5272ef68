"""The result of a tuning, complete or as far as it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hasten.core.comparison import Verdict
from hasten.core.doubts import gathered
from hasten.core.pareto import pareto_front
from hasten.core.trial import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.finding import Finding
    from hasten.core.remark import Remark
    from hasten.core.trial import Step, Trial


@dataclass(frozen=True, slots=True)
class TuneFound:
    """The best model and plan, against the original; the verdicts, and what was tried on the way."""

    model: str
    original: Trial
    best: Trial
    path: str
    """The chosen model's file."""
    findings: tuple[Finding, ...]
    front: tuple[Trial, ...]
    steps: tuple[Step, ...]
    final: Comparison | None
    """The best against the original, in fresh processes."""
    trials: int
    seconds: float
    interrupted: bool = False
    unreachable: tuple[Remark, ...] = ()
    """Limits that nothing keeps, each with the nearest."""
    notes: tuple[Remark, ...] = ()
    folder: str = ""
    files: tuple[str, ...] = ()
    command: str = ""
    max_drop: float = 0.0
    floor: Mapping[str, Any] = field(default_factory=dict)
    """What the largest drop means for this metric, as `Floor.as_data` tells; empty where nothing was judged."""

    @property
    def keeps_original(self) -> bool:
        """Whether nothing changes."""
        return self.best.id == self.original.id

    @property
    def is_confirmed(self) -> bool:
        """Whether fresh processes have shown that the best is faster."""
        return self.final is not None and self.final.verdict is Verdict.FASTER

    @property
    def against(self) -> Comparison | None:
        """The best against the original, by fresh processes or else by the race; None where the original stays."""
        return None if self.keeps_original else self.final or self.best.against

    @property
    def speedup(self) -> tuple[float, float, float]:
        """How many times faster, with its interval; 1 where the original stays, or before anything was compared."""
        if self.against is None:
            return 1.0, 1.0, 1.0
        low, high = self.against.ci95
        return 1 / self.against.ratio, 1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf

    @property
    def doubts(self) -> tuple[Remark, ...]:
        """Reasons to doubt the latencies that the verdict compares, each once."""
        return gathered((*self.best.doubts, *self.original.doubts))


def front_of(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Those that nothing beats in latency, accuracy and size at once; the fastest first. Only what may be chosen."""
    known = [
        trial
        for trial in trials
        if trial.may_be_chosen and trial.latency is not None and trial.status is not Status.FAILED
    ]
    return tuple(pareto_front(known, _goals))


def _goals(trial: Trial) -> tuple[float, float, float]:
    """Smaller is better. What was lost against the original stands for accuracy: it is paired, and has one sign."""
    return trial.median_ms, trial.lost or 0.0, float(trial.size_bytes)
