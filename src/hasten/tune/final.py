"""The proof: original, result and each step between them, in fresh processes that had no part in the choice."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import (
    DEFAULT_MARGIN,
    FEWEST_ROUNDS,
    Comparison,
    Verdict,
    compare_rounds,
    log_ratio_of_round,
)
from hasten.core.failure import Failure
from hasten.core.tuning import Step
from hasten.measure.compare import ComparisonResult
from hasten.measure.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.measure.rounds import Candidate, Track
    from hasten.targets.base import Target

_SECONDS_EACH: Final = 0.4
_FEWEST: Final = 3
_MOST_ROUNDS: Final = 15
_LIKELY_GAIN: Final = 0.97


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate on the way from the original to the result: what was changed last, and by which practice."""

    candidate: Candidate
    practice: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The confirmation, and what each step brought."""

    results: tuple[ComparisonResult, ...]
    """Each candidate of the chain after the first, against the first."""
    steps: tuple[Step, ...]

    @property
    def result(self) -> ComparisonResult:
        """The result against the original, with both measurements."""
        return self.results[-1]

    @property
    def comparison(self) -> Comparison:
        """The result against the original."""
        return self.result.comparison

    @property
    def is_last_step_idle(self) -> bool:
        """Whether what was changed last brought nothing that anybody would notice."""
        if len(self.steps) < 2:
            return False
        last = self.steps[-1]
        return last.ratio > 1 - DEFAULT_MARGIN or (last.ratio > _LIKELY_GAIN and last.ci95[1] >= 1)

    def without_last_step(self) -> Proof:
        """The same for the candidate before."""
        return Proof(self.results[:-1], self.steps[:-1])


def prove(
    target: Target, chain: Sequence[Link], seconds: float, patience_s: float, tell: Callable[[str], None]
) -> Proof | Failure:
    """Rounds of all candidates of the chain until the verdict on its ends is sure; three at least.

    A gain that is likely and not sure yet is worth up to `patience_s` in place of `seconds`: the choice hangs on it.
    """
    rounds = Rounds(target, [replace(link.candidate, label=f"step {place}") for place, link in enumerate(chain)])
    begin = time.monotonic()
    longest = 0.0
    for number in range(_MOST_ROUNDS):
        before = time.monotonic()
        if number >= _FEWEST:
            allowed_s = max(seconds, patience_s) if _is_likely(rounds) else seconds
            if _is_sure(rounds) or before + longest > begin + allowed_s:
                break
        tell(f"confirming, round {number + 1}")
        rounds.run_one(_SECONDS_EACH)
        failed = next((track.failure for track in rounds.tracks if track.failure is not None), None)
        if failed is not None:
            return failed
        longest = max(longest, time.monotonic() - before)
    spent = time.monotonic() - begin
    results = tuple(_result(rounds.tracks[0], track, spent) for track in rounds.tracks[1:])
    steps = [_step(link, one, other) for link, (one, other) in zip(chain[1:], pairwise(rounds.tracks), strict=True)]
    return Proof(results, tuple(steps))


def _is_likely(rounds: Rounds) -> bool:
    found = _compared(rounds.tracks[0], rounds.tracks[-1])
    return found.verdict is Verdict.UNDECIDED and found.ratio < _LIKELY_GAIN


def _is_sure(rounds: Rounds) -> bool:
    found = _compared(rounds.tracks[0], rounds.tracks[-1])
    return found.rounds >= FEWEST_ROUNDS and found.verdict is not Verdict.UNDECIDED


def _compared(first: Track, second: Track) -> Comparison:
    pairs = zip(first.rounds, second.rounds, strict=True)
    return compare_rounds([log_ratio_of_round(one, other) for one, other in pairs])


def _result(first: Track, other: Track, seconds: float) -> ComparisonResult:
    start, end = first.result(), other.result()
    assert not isinstance(start, Failure)
    assert not isinstance(end, Failure)
    return ComparisonResult(_compared(first, other), start, end, seconds)


def _step(link: Link, one: Track, other: Track) -> Step:
    before, after, compared = one.result(), other.result(), _compared(one, other)
    assert not isinstance(before, Failure)
    assert not isinstance(after, Failure)
    return Step(
        link.practice, before.samples.median_ms, after.samples.median_ms, compared.ratio, compared.ci95, link.what
    )
