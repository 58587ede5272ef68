"""Decisions about variants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark, said
from hasten.core.tuning import BROKEN, FAILED, KEPT, ORIGINAL, UNKNOWN

if TYPE_CHECKING:
    from hasten.core.tuning import TuneTrial
    from hasten.practices.practice import Evidence

NAME: Final = "quantize"


def verdict(known: Evidence) -> Finding:
    """Whether a variant pays on this device and keeps the accuracy."""
    if known.already:
        return Finding(NAME, Standing.GOOD, said(known.already))
    made = [trial for trial in known.trials if trial.variant != ORIGINAL and trial.latency is not None]
    if not made:
        failed = [trial for trial in known.trials if trial.variant != ORIGINAL and trial.status == FAILED]
        code = remark("quantize.none-runs", why=failed[0].why) if failed else remark("quantize.not-examined")
        return Finding(NAME, Standing.NOT_EXAMINED, code)
    if known.best.variant != ORIGINAL:
        change = known.best.size_bytes / max(1, known.base.size_bytes) - 1
        return Finding(NAME, Standing.IMPROVED, remark("quantize.chosen", variant=known.best.variant, size=change))
    return _not_chosen(known, made)


def _not_chosen(known: Evidence, made: list[TuneTrial]) -> Finding:
    """Why the original stays."""
    fastest = min(made, key=lambda trial: trial.median_ms)
    if any(trial.floor == UNKNOWN for trial in made) and not any(trial.floor == KEPT for trial in made):
        return Finding(NAME, Standing.TO_DO, _faster("quantize.no-data", known, fastest))
    broken = [trial for trial in made if trial.floor == BROKEN and trial.median_ms < known.best.median_ms]
    if broken:
        best = min(broken, key=lambda trial: trial.median_ms)
        return Finding(NAME, Standing.TO_DO, _faster("quantize.breaks-floor", known, best))
    count = len({trial.variant for trial in made})
    return Finding(NAME, Standing.GOOD, remark("quantize.none-faster", count=count))


def _faster(code: str, known: Evidence, trial: TuneTrial) -> Remark:
    ratio = trial.median_ms / known.best.median_ms if known.best.median_ms else math.nan
    return remark(code, variant=trial.variant, ratio={"ratio": ratio}, why=trial.why)
