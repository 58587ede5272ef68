"""Many candidates against one base in interleaved rounds, until all that is still in the race is decided."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_rounds, log_ratio_of_round
from hasten.core.failure import Failure
from hasten.core.samples import Samples
from hasten.core.session import keep_nothing
from hasten.measure.schedule import Schedule, now

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.session import Keep
    from hasten.measure.rounds import Rounds, Track

# Twice as slow as the base in whole rounds is nothing that more rounds would mend.
OUT_OF_THE_RACE: Final = 2.0
_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 12


def run_race(
    rounds: Rounds,
    until: float,
    *,
    base: Callable[[Rounds], Track | None],
    fewest: int,
    tell: Callable[[str], None] = lambda state: None,
    keep: Keep = keep_nothing,
) -> None:
    """Run rounds until about that time (of the monotonic clock), at least `fewest`.

    Who is far behind or decided gets no more of them; the base stays to the end, as everything is compared with it.
    """
    schedule = Schedule(until - now(), fewest=fewest, most=_MOST_ROUNDS)
    while rounds.alive and schedule.has_round():
        tell(f"round {schedule.rounds + 1}")
        counts = [len(track.rounds) for track in rounds.tracks]
        with schedule.round():
            rounds.run_one(_SECONDS_EACH)
        for track, count in zip(rounds.tracks, counts, strict=True):
            if len(track.rounds) > count:
                _keep_round(track, keep)
        if _is_over(rounds, base(rounds), fewest, schedule.rounds):
            break


def comparison(base: Track, other: Track) -> Comparison:
    """The other against the base, from the rounds that both were in."""
    pairs = zip(base.rounds, other.rounds, strict=False)
    return compare_rounds([log_ratio_of_round(first, second) for first, second in pairs])


def _is_over(rounds: Rounds, base: Track | None, fewest: int, done: int) -> bool:
    """Retire decided candidates; return whether only the base is left."""
    if base is None or base.failure is not None or not base.rounds:
        return done >= FEWEST_ROUNDS
    for track in rounds.alive:
        if track is base or len(track.rounds) < fewest:
            continue
        decided = len(track.rounds) >= FEWEST_ROUNDS and comparison(base, track).verdict is not Verdict.UNDECIDED
        track.retired = decided or _median_ms(track) > OUT_OF_THE_RACE * _median_ms(base)
    return all(track is base for track in rounds.alive)


def _keep_round(track: Track, keep: Keep) -> None:
    found = track.result()
    if not isinstance(found, Failure):
        latest = replace(found, samples=Samples(tuple(track.rounds[-1]), track.timer_step_ns))
        keep("measurement", track.candidate.label, {**to_data(latest), "round": len(track.rounds)})


def _median_ms(track: Track) -> float:
    return median(median(block.nanoseconds) for block in track.blocks) / 1e6
