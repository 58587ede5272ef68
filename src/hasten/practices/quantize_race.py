"""Variants against their original in interleaved rounds, until all that is still in the race is decided."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_rounds, log_ratio_of_round
from hasten.core.failure import Failure
from hasten.core.quantization import FAILED, VariantRow
from hasten.core.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.measure.rounds import Rounds, Track

    Keep = Callable[[str, str, dict[str, Any]], None]

# Twice as slow as the original in whole rounds is nothing that more rounds would mend.
OUT_OF_THE_RACE: Final = 2.0
# With fewer there is no verdict, however clear the difference.
FEWEST_FOR_A_VERDICT: Final = 3
_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 12


def race(rounds: Rounds, until: float, tell: Callable[[str], None], keep: Keep) -> None:
    """Rounds until about that time (of the monotonic clock), three at least. The first candidate is the original."""
    longest = 0.0
    for number in range(_MOST_ROUNDS):
        before = time.monotonic()
        if not rounds.alive or (number >= FEWEST_FOR_A_VERDICT and before + longest > until):
            break
        tell(f"round {number + 1}, {len(rounds.alive)} models")
        counts = [len(track.rounds) for track in rounds.tracks]
        rounds.run_one(_SECONDS_EACH)
        longest = max(longest, time.monotonic() - before)
        for track, count in zip(rounds.tracks, counts, strict=True):
            if len(track.rounds) > count:
                _keep_round(track, keep)
        _retire_decided(rounds)
        if len(rounds.alive) <= 1:
            break


def timed_row(row: VariantRow, base: Track, track: Track, *, only_decided: bool) -> VariantRow | None:
    """The row with its latency or its failure; None where there is neither, or no verdict and one is asked for."""
    measured = track.result()
    if isinstance(measured, Failure):
        return None if track.failure is None else replace(row, floor=FAILED, why=measured.message)
    against = comparison(base, track)
    if only_decided and against.verdict is Verdict.UNDECIDED:
        return None
    return replace(row, latency=measured.samples.latency, against=against)


def comparison(base: Track, other: Track) -> Comparison:
    """The other against the base, from the rounds that both were in."""
    pairs = zip(base.rounds, other.rounds, strict=False)
    return compare_rounds([log_ratio_of_round(first, second) for first, second in pairs])


def _retire_decided(rounds: Rounds) -> None:
    """Take out what is surely slower, and what has had its rounds and its verdict. The original stays to the end."""
    base, *others = rounds.tracks
    for track in others:
        done = len(track.rounds)
        if base.failure is not None or track.failure is not None or done < FEWEST_FOR_A_VERDICT:
            continue
        decided = done >= FEWEST_ROUNDS and comparison(base, track).verdict is not Verdict.UNDECIDED
        track.retired = decided or _median_ms(track) > OUT_OF_THE_RACE * _median_ms(base)


def _keep_round(track: Track, keep: Keep) -> None:
    found = track.result()
    if not isinstance(found, Failure):
        latest = replace(found, samples=Samples(tuple(track.rounds[-1]), track.timer_step_ns))
        keep("measurement", track.candidate.label, {**latest.as_data(), "round": len(track.rounds)})


def _median_ms(track: Track) -> float:
    return median(median(block.nanoseconds) for block in track.blocks) / 1e6
