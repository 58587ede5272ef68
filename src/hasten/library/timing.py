"""What the machine can do at most, for calls that explain a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.measure.peaks import measure_peaks

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.core.profile import Peaks
    from hasten.measure.rounds import Progress
    from hasten.targets.base import Target

_PART_OF_PEAKS: Final = 0.3


def peaks_of(target: Target, plan: Plan, progress: Progress) -> Peaks:
    """What the machine can do at most, with as many threads as the plan has."""
    # They are measured once a machine, on the way to something else, whose share begins anew.
    peaks = measure_peaks(target, plan.threads, lambda share, text: progress(share * _PART_OF_PEAKS, text))
    if isinstance(peaks, Failure):
        raise peaks.error(plan)
    return peaks
