"""Time a model, compare two, look into one, or run it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.library.opening import error_of, open_model
from hasten.measure import profiling as profiling_module
from hasten.measure.peaks import measure_peaks
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import Progress, no_progress
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os

    from hasten.core.profile import Peaks, Profile
    from hasten.measure.profiling import RawProfile
    from hasten.targets.base import Target

_PART_OF_PEAKS: Final = 0.3


def profile(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = profiling_module.DEFAULT_SECONDS,
    roofline: bool = True,
    progress: Progress = no_progress,
) -> Profile:
    """Each operator's time, mapped to the graph; with the machine's peaks if `roofline`."""
    return profile_with_runs(
        model, plan, workload, target=target, seconds=seconds, roofline=roofline, progress=progress
    )[0]


def profile_with_runs(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = profiling_module.DEFAULT_SECONDS,
    roofline: bool = True,
    progress: Progress = no_progress,
) -> tuple[Profile, RawProfile]:
    """The profile, and the profiled runs behind it: what a timeline is drawn from."""
    candidate, graph = open_model(model, plan, workload)
    where = target or LocalTarget()
    peaks = peaks_of(where, plan, progress) if roofline else None
    result = profile_model(where, candidate, graph, seconds, peaks, progress)
    if isinstance(result, Failure):
        raise error_of(result, candidate)
    return result


def peaks_of(target: Target, plan: Plan, progress: Progress) -> Peaks:
    """What the machine can do at most, with as many threads as the plan has."""
    # They are measured once a machine, on the way to something else, whose share begins anew.
    peaks = measure_peaks(target, plan.threads, lambda share, text: progress(share * _PART_OF_PEAKS, text))
    if isinstance(peaks, Failure):
        raise peaks.error(plan)
    return peaks
