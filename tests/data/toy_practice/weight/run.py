"""Weigh the model file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.practices.weight.facts import WeightFound

if TYPE_CHECKING:
    from hasten.core.failure import Failure
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate


def run(candidate: Candidate, *, limit: int, effort: Effort) -> WeightFound | Failure:
    """The weight of the candidate's file."""
    effort.progress(1.0, "weighing")
    return WeightFound(candidate.model, limit)
