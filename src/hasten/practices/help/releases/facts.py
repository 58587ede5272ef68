"""What other releases of LiteRT make of a model."""

from __future__ import annotations

import enum

from hasten.core.codec import record, sentence
from hasten.core.comparison import Comparison
from hasten.core.failure import Failure
from hasten.core.remark import Remark
from hasten.core.statistics import Interval


class ReleaseStatus(enum.Enum):
    """What a release does with the model; the value is its name in JSON."""

    RUNS = "runs"
    FAILS = "fails"
    MISSING = "not installed"


@record
class ReleaseRow:
    """One release."""

    release: str
    status: ReleaseStatus
    shows: bool | None = None
    """Whether it shows the problem; None where that could not be told."""
    latency: Interval | None = None
    """In milliseconds, over fresh processes."""
    against_fastest: Comparison | None = None
    snr_db: float | None = None
    """Of its outputs against those of its own reference kernels; None where they are equal or were not compared."""
    equal: bool = False
    failure: Failure | None = None


@record
class ReleasesFound:
    """All releases, oldest first, and since which the problem exists."""

    problem: str
    rows: tuple[ReleaseRow, ...]
    finding: Remark = sentence()
