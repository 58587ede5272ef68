"""The border to users: here a failure, a value until now, becomes an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.measure.opening import error_of
from hasten.measure.rounds import FailedCandidate

if TYPE_CHECKING:
    import os

    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate

    Path = str | os.PathLike[str]

T = TypeVar("T")


def or_error(result: T | Failure | FailedCandidate, candidate: Candidate | None, effort: Effort) -> T:
    """What was found, or the failure as an error: that of the candidate, or of the target if no model is named."""
    if isinstance(result, FailedCandidate):
        raise error_of(result.failure, result.candidate, effort.target)
    if isinstance(result, Failure):
        raise error_of(result, candidate, effort.target) if candidate else result.error(Plan())
    return result
