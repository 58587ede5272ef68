"""Two candidates against each other: rounds of fresh process pairs until the verdict is sure or the time is spent."""

from __future__ import annotations

import time
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
from hasten.core.failure import Failure
from hasten.measure.rounds import Candidate, Progress, Rounds, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.measurement import Measurement
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 15.0
_SECONDS_EACH_A_ROUND: Final = 0.4
# By so much of the time a comparison may take longer, if all that a clear difference lacks for a verdict are processes.
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
    on_round: Callable[[ComparisonResult], None] = lambda found: None,
) -> ComparisonResult | tuple[Candidate, Failure]:
    """Compare two candidates within about so many seconds; or say which one failed, and how.

    `on_round` sees what there is after each round, so that an interruption loses one round at most.
    """
    rounds = Rounds(target, [first, second])
    begin = time.monotonic()
    log_ratios: list[float] = []
    longest = 0.0
    while not log_ratios or (
        time.monotonic() - begin + longest <= _most_seconds(seconds, log_ratios) and not _decided(log_ratios, margin)
    ):
        before = time.monotonic()
        progress(min((before - begin) / seconds, 1.0), _state(log_ratios, margin))
        rounds.run_one(_SECONDS_EACH_A_ROUND)
        failed = next((track for track in rounds.tracks if track.failure is not None), None)
        if failed is not None and failed.failure is not None:
            if not log_ratios:
                return failed.candidate, failed.failure
            break  # what was found until then still counts; the failure is a doubt beside it
        log_ratios.append(log_ratio_of_round(rounds.tracks[0].rounds[-1], rounds.tracks[1].rounds[-1]))
        longest = max(longest, time.monotonic() - before)
        on_round(_result(rounds, compare_rounds(log_ratios, margin), time.monotonic() - begin))
    progress(1.0, _state(log_ratios, margin))
    return _result(rounds, compare_rounds(log_ratios, margin), time.monotonic() - begin)


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
