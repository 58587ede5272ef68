"""Two candidates against each other: rounds of fresh process pairs until the verdict is sure or the time is spent."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import (
    DEFAULT_MARGIN,
    FEWEST_WHEN_CLEAR,
    Comparison,
    Verdict,
    compare_rounds,
    is_clear,
    log_ratio_of_round,
)
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
    log_ratios: list[float] = []
    try:
        failed = _run(rounds, schedule, log_ratios, margin, progress)
    except KeyboardInterrupt:
        if not log_ratios:
            raise
        raise Interrupted(_result(rounds, compare_rounds(log_ratios, margin), schedule.elapsed_s)) from None
    # What was found before a failure still counts; the failure is a doubt beside it.
    if failed is not None and not log_ratios:
        return failed
    progress(1.0, _state(log_ratios, margin))
    return _result(rounds, compare_rounds(log_ratios, margin), schedule.elapsed_s)


def _run(
    rounds: Rounds, schedule: Schedule, log_ratios: list[float], margin: float, progress: Progress
) -> FailedCandidate | None:
    """Rounds until the verdict is sure, the time is spent or a candidate fails."""
    seconds = schedule.seconds
    while schedule.has_round() and not (log_ratios and _decided(log_ratios, margin)):
        progress(schedule.share, _state(log_ratios, margin))
        with schedule.round():
            rounds.run_one(_SECONDS_EACH_A_ROUND)
        failed = next((track for track in rounds.tracks if track.failure is not None), None)
        if failed is not None and failed.failure is not None:
            return FailedCandidate(failed.candidate, failed.failure)
        log_ratios.append(log_ratio_of_round(rounds.tracks[0].rounds[-1], rounds.tracks[1].rounds[-1]))
        schedule.seconds = _most_seconds(seconds, log_ratios)
    return None


def _most_seconds(seconds: float, log_ratios: list[float]) -> float:
    wanting = is_clear(fmean(log_ratios)) and len(log_ratios) < FEWEST_WHEN_CLEAR
    return seconds * (1 + _OVERTIME) if wanting else seconds


def _decided(log_ratios: list[float], margin: float) -> bool:
    return compare_rounds(log_ratios, margin).verdict is not Verdict.UNDECIDED


def _state(log_ratios: list[float], margin: float) -> str:
    if not log_ratios:
        return "first pair of processes"
    comparison = compare_rounds(log_ratios, margin)
    return f"pair {len(log_ratios) + 1}, ratio {comparison.ratio:.3f} so far"


def _result(rounds: Rounds, comparison: Comparison, seconds: float) -> ComparisonResult:
    first, second = (track.result() for track in rounds.tracks)
    assert not isinstance(first, Failure)
    assert not isinstance(second, Failure)
    return ComparisonResult(comparison, first, second, seconds)
