"""Two candidates against each other: rounds of fresh process pairs until the verdict is sure or the time is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import DEFAULT_MARGIN, FEWEST_WHEN_CLEAR, Comparison, Verdict, is_clear
from hasten.core.contention import compare_measurements
from hasten.core.errors import Interrupted
from hasten.core.failure import Failure
from hasten.measure.rounds import Candidate, FailedCandidate, Progress, Rounds, no_progress
from hasten.measure.schedule import Schedule

if TYPE_CHECKING:
    from hasten.core.measurement import Measurement
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 15.0
_SECONDS_EACH_A_ROUND: Final = 0.4
# Share of the time by which a comparison may overrun, if a clear difference lacks only processes for a verdict.
_OVERTIME: Final = 0.5


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The verdict, and both measurements behind it."""

    comparison: Comparison
    first: Measurement
    second: Measurement
    seconds: float

    def as_data(self) -> dict[str, Any]:
        """The comparison as a session file holds it, with the raw samples of both."""
        return {**to_data(self.comparison), "first": to_data(self.first), "second": to_data(self.second)}


def compare(
    target: Target,
    first: Candidate,
    second: Candidate,
    seconds: float = DEFAULT_SECONDS,
    margin: float = DEFAULT_MARGIN,
    progress: Progress = no_progress,
) -> ComparisonResult | FailedCandidate:
    """Compare two candidates within about this time; or say which one failed, and how.

    After Ctrl-C, what there is comes as `Interrupted.found`.
    """
    rounds, schedule = Rounds(target, [first, second]), Schedule(seconds)
    try:
        failed = _run(rounds, schedule, margin, progress)
    except KeyboardInterrupt:
        if (found := _result(rounds, margin, schedule.elapsed_s)) is not None:
            raise Interrupted(found) from None
        raise
    found = _result(rounds, margin, schedule.elapsed_s)
    # What was found before a failure still counts; the failure is a doubt beside it.
    if found is None:
        assert failed is not None, "nothing was measured, and nothing failed"
        return failed
    progress(1.0, _state(found))
    return found


def _run(rounds: Rounds, schedule: Schedule, margin: float, progress: Progress) -> FailedCandidate | None:
    """Rounds until the verdict is sure, the time is spent or a candidate fails."""
    seconds, found = schedule.seconds, None
    while schedule.has_round() and not _is_decided(found):
        progress(schedule.share, _state(found))
        with schedule.round():
            rounds.run_one(_SECONDS_EACH_A_ROUND)
        failed = next((track for track in rounds.tracks if track.failure is not None), None)
        if failed is not None and failed.failure is not None:
            for track in rounds.tracks:
                del track.rounds[schedule.rounds - 1 :]  # a round that was cut short compares nothing
            return FailedCandidate(failed.candidate, failed.failure)
        found = _result(rounds, margin, schedule.elapsed_s)
        schedule.seconds = _most_seconds(seconds, found)
    return None


def _most_seconds(seconds: float, found: ComparisonResult | None) -> float:
    wanting = found is not None and is_clear(math.log(found.comparison.ratio))
    few = found is not None and found.first.samples.processes < FEWEST_WHEN_CLEAR
    return seconds * (1 + _OVERTIME) if wanting and few else seconds


def _is_decided(found: ComparisonResult | None) -> bool:
    return found is not None and found.comparison.verdict is not Verdict.UNDECIDED


def _state(found: ComparisonResult | None) -> str:
    if found is None:
        return "first pair of processes"
    return f"pair {found.first.samples.processes + 1}, ratio {found.comparison.ratio:.3f} so far"


def _result(rounds: Rounds, margin: float, seconds: float) -> ComparisonResult | None:
    """Where the two stand now; None before both have run."""
    first, second = (track.result() for track in rounds.tracks)
    if isinstance(first, Failure) or isinstance(second, Failure):
        return None
    return compared(first, second, seconds, margin)


def compared(
    first: Measurement, second: Measurement, seconds: float, margin: float = DEFAULT_MARGIN
) -> ComparisonResult:
    """The comparison of two that took turns in the same rounds."""
    beside = replace(second, samples=second.samples.beside(first.samples))
    return ComparisonResult(compare_measurements(first, second, margin=margin), first, beside, seconds)
