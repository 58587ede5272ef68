"""Decisions about accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.core.tuning import KEPT, TIMED, UNKNOWN

if TYPE_CHECKING:
    from hasten.core.tuning import TuneTrial
    from hasten.practices.practice import Evidence

NAME: Final = "accelerators"


def verdict(known: Evidence) -> Finding:
    """Whether an accelerator beats the choice of a tuning."""
    tried = [trial for trial in known.originals if trial.plan.accelerator != "cpu"]
    if not tried:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("accelerators.not-examined"))
    ran = [trial for trial in tried if trial.latency is not None]
    facts = {"rows": [_row(trial, known.best) for trial in tried]}
    if not ran:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("accelerators.none-runs", **facts))
    if any(trial.floor == UNKNOWN and trial.median_ms < known.best.median_ms for trial in ran):
        return Finding(NAME, Standing.TO_DO, remark("accelerators.no-data", **facts))
    return Finding(NAME, Standing.GOOD, remark("accelerators.none-faster", **facts))


def _row(trial: TuneTrial, best: TuneTrial) -> dict[str, Any]:
    ran = trial.latency is not None
    return {
        "name": trial.plan.accelerator,
        "median_ms": trial.median_ms if ran else None,
        "ratio": trial.median_ms / best.median_ms if ran and best.median_ms else None,
        "why": "" if ran and trial.status in (TIMED, KEPT) else trial.why,
    }
