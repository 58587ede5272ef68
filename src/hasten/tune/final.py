"""The proof: original, result and each step between them, in fresh processes that had no part in the choice."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_rounds, log_ratio_of_round
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


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate on the way from the original to the result: what was changed last, and by which practice."""

    candidate: Candidate
    practice: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The confirmation, and what each step brought."""

    result: ComparisonResult
    steps: tuple[Step, ...]

    @property
    def comparison(self) -> Comparison:
        """The result against the original."""
        return self.result.comparison


def prove(target: Target, chain: Sequence[Link], seconds: float, tell: Callable[[str], None]) -> Proof | Failure:
    """Rounds of all candidates of the chain until the verdict on its ends is sure; three at least."""
    rounds = Rounds(target, [replace(link.candidate, label=f"step {place}") for place, link in enumerate(chain)])
    begin = time.monotonic()
    longest = 0.0
    for number in range(_MOST_ROUNDS):
        before = time.monotonic()
        if number >= _FEWEST and (before + longest > begin + seconds or _is_sure(rounds)):
            break
        tell(f"confirming, round {number + 1}")
        rounds.run_one(_SECONDS_EACH)
        failed = next((track.failure for track in rounds.tracks if track.failure is not None), None)
        if failed is not None:
            return failed
        longest = max(longest, time.monotonic() - before)
    first, last = rounds.tracks[0], rounds.tracks[-1]
    start, end = first.result(), last.result()
    assert not isinstance(start, Failure)
    assert not isinstance(end, Failure)
    found = ComparisonResult(_compared(first, last), start, end, time.monotonic() - begin)
    steps = [_step(link, one, other) for link, (one, other) in zip(chain[1:], pairwise(rounds.tracks), strict=True)]
    return Proof(found, tuple(steps))


def _is_sure(rounds: Rounds) -> bool:
    found = _compared(rounds.tracks[0], rounds.tracks[-1])
    return found.rounds >= FEWEST_ROUNDS and found.verdict is not Verdict.UNDECIDED


def _compared(first: Track, second: Track) -> Comparison:
    pairs = zip(first.rounds, second.rounds, strict=True)
    return compare_rounds([log_ratio_of_round(one, other) for one, other in pairs])


def _step(link: Link, one: Track, other: Track) -> Step:
    before, after, compared = one.result(), other.result(), _compared(one, other)
    assert not isinstance(before, Failure)
    assert not isinstance(after, Failure)
    return Step(
        link.practice, before.samples.median_ms, after.samples.median_ms, compared.ratio, compared.ci95, link.what
    )
