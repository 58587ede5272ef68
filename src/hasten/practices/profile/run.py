"""The guide's "Profile your model": each operator's time, mapped to the graph, with its cost and headroom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.core.errors import Interrupted
from hasten.core.failure import Failure, RunnerFailed
from hasten.measure.peaks import peaks_first
from hasten.measure.profiling import DEFAULT_SECONDS, Recording, build_profile, profile_model
from hasten.practices.profile.exports import ProfileTimeline
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from hasten.core.profile import Profile
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph


def run(candidate: Candidate, graph: Graph, effort: Effort, *, roofline: bool) -> Profile | Failure:
    """Profile a candidate; with the machine's peaks if `roofline`. After Ctrl-C, from the runs until then."""
    peaks = peaks_first(effort, candidate.plan.threads) if roofline else None
    if isinstance(peaks, Failure):
        return peaks
    recording = Recording(effort.target, candidate)
    try:
        with_connection(lambda: recording.run(effort.seconds_or(DEFAULT_SECONDS), effort.progress, effort.clock))
    except RunnerFailed as failed:
        return failed.failure
    except KeyboardInterrupt:
        if recording.raw is None:
            raise
        found = build_profile(candidate, graph, recording.raw, peaks)
        raise Interrupted(replace(found, interrupted=True)) from None
    assert recording.raw is not None, "a recording has one turn at least"
    return build_profile(candidate, graph, recording.raw, peaks)


def record_timeline(candidate: Candidate, graph: Graph, effort: Effort) -> ProfileTimeline | Failure:
    """Record profiled runs for a timeline."""
    seconds = effort.seconds_or(DEFAULT_SECONDS)
    found = profile_model(effort.target, candidate, graph, seconds, None, effort.progress)
    return found if isinstance(found, Failure) else ProfileTimeline(*found)
