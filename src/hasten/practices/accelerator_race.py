"""Accelerators against XNNPACK in interleaved rounds, until all that is still in the race is decided."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_rounds, log_ratio_of_round
from hasten.core.failure import Failure
from hasten.core.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.measure.rounds import Rounds, Track

    Keep = Callable[[str, str, dict[str, Any]], None]

BASE: Final = "xnnpack"
# Twice as slow as the CPU's own row in a whole round is nothing that more rounds would mend.
OUT_OF_THE_RACE: Final = 2.0
_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 12


def keep_nothing(kind: str, label: str, data: dict[str, Any]) -> None:
    """For callers without a session file."""


def race(
    rounds: Rounds, until: float, tell: Callable[[str], None] = lambda state: None, keep: Keep = keep_nothing
) -> None:
    """Rounds until about that time (of the monotonic clock), one at least; after the first only for the promising."""
    longest = 0.0
    for number in range(_MOST_ROUNDS):
        before = time.monotonic()
        if not rounds.alive or (number and before + longest > until):
            break
        tell(f"round {number + 1}: {', '.join(track.candidate.label for track in rounds.alive)}")
        counts = [len(track.rounds) for track in rounds.tracks]
        rounds.run_one(_SECONDS_EACH)
        longest = max(longest, time.monotonic() - before)
        for track, count in zip(rounds.tracks, counts, strict=True):
            if len(track.rounds) > count:
                _keep_round(track, keep)
        _retire_slow(rounds)
        if number + 1 >= FEWEST_ROUNDS and _decided(rounds):
            break


def comparison(base: Track, other: Track) -> Comparison:
    """The other against the base, from the rounds that both were in."""
    pairs = zip(base.rounds, other.rounds, strict=False)
    return compare_rounds([log_ratio_of_round(first, second) for first, second in pairs])


def _keep_round(track: Track, keep: Keep) -> None:
    found = track.result()
    if not isinstance(found, Failure):
        latest = replace(found, samples=Samples(tuple(track.rounds[-1]), track.timer_step_ns))
        keep("measurement", track.candidate.label, {**latest.as_data(), "round": len(track.rounds)})


def _retire_slow(rounds: Rounds) -> None:
    """Take out what is surely slower than the CPU's own row, which stays: everything is compared with it."""
    base = next((track for track in rounds.tracks if track.candidate.label == BASE and track.rounds), None)
    if base is None:
        return
    for track in rounds.alive:
        track.retired = track is not base and _median_ms(track) > OUT_OF_THE_RACE * _median_ms(base)


def _decided(rounds: Rounds) -> bool:
    base = next((track for track in rounds.alive if track.candidate.label == BASE), None)
    others = [track for track in rounds.alive if track is not base]
    return base is None or all(comparison(base, track).verdict is not Verdict.UNDECIDED for track in others)


def _median_ms(track: Track) -> float:
    return median(median(block.nanoseconds) for block in track.blocks) / 1e6
