"""The nine verdicts: how the model stands with each section of the guide, from what this tuning has measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.practices.registry import NAMES, practice_named

if TYPE_CHECKING:
    from hasten.practices.practice import Evidence


def nine_findings(known: Evidence) -> list[Finding]:
    """A finding for each section, in the guide's order: what brought something, what ran in full, or what is known."""
    improved = _improved(known)
    return [improved.get(name) or known.given.get(name) or practice_named(name).verdict(known) for name in NAMES]


def _improved(known: Evidence) -> dict[str, Finding]:
    """What brought something, as the final rounds measured it."""
    found = {}
    for step in known.steps:
        if known.confirmed and step.ci95[1] < 1:
            ratio = {"ratio": step.ratio, "ci95": list(step.ci95)}
            told = remark("tune.improved", what=step.what, ratio=ratio)
            found[step.practice] = Finding(step.practice, Standing.IMPROVED, told)
    return found
