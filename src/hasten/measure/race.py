"""Many candidates against one base in interleaved rounds, until all that is still in the race is decided."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_ROUNDS, FEWEST_WHEN_CLEAR, Comparison, Verdict
from hasten.core.contention import BEYOND_LOAD, compare_measurements
from hasten.core.failure import Failure
from hasten.core.session import keep_nothing
from hasten.measure.schedule import Schedule, now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.measurement import Measurement
    from hasten.core.session import Keep
    from hasten.measure.rounds import Rounds, Track

# Twice as slow as another is out, as soon as its rounds prove that it is slower.
OUT_OF_THE_RACE: Final = 2.0
_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 12


def run_race(
    rounds: Rounds,
    until: float,
    *,
    base: Callable[[Rounds], Track | None],
    second_base: Callable[[Rounds], Track | None] = lambda rounds: None,
    fewest: int,
    tell: Callable[[str], None] = lambda state: None,
    keep: Keep = keep_nothing,
) -> None:
    """Run rounds until about that time (of the monotonic clock), at least `fewest`.

    Who is far behind or decided gets no more of them; the base stays to the end, as everything is compared with it.
    Where there is a second base, it stays as well, until all others are decided against both.
    """
    schedule = Schedule(until - now(), fewest=fewest, most=_MOST_ROUNDS)
    while rounds.alive and schedule.has_round():
        tell(f"round {schedule.rounds + 1}")
        counts = [len(track.rounds) for track in rounds.tracks]
        with schedule.round():
            rounds.run_one(_SECONDS_EACH)
        for track, count in zip(rounds.tracks, counts, strict=True):
            if len(track.rounds) > count:
                keep_round(track, keep, track.candidate.label)
        bases = [track for track in (base(rounds), second_base(rounds)) if track is not None]
        if _is_over(rounds, bases, fewest, schedule.rounds):
            break


def comparison(first: Track, second: Track, base: Track | None = None) -> Comparison | None:
    """The second against the first, from the rounds in which both met the base (the first, if none is given)
    undisturbed; None if one was not measured."""
    one, other = first.result(), second.result()
    anchor = None if base is None or base is first else base.result()
    if isinstance(one, Failure) or isinstance(other, Failure) or isinstance(anchor, Failure):
        return None
    return compare_measurements(one, other, anchor)


def faster_of(base: Track, other: Track | None) -> Track:
    """The one that looks faster, proven or not."""
    if other is None:
        return base
    found = comparison(base, other)
    return other if found is not None and found.ratio < 1 else base


def result_beside(base: Track | None, other: Track) -> Measurement | Failure:
    """What was measured of a candidate, as it stands next to the base (`Samples.beside`)."""
    found = other.result()
    anchor = None if base is None else base.result()
    if isinstance(found, Failure) or anchor is None or isinstance(anchor, Failure):
        return found
    return replace(found, samples=found.samples.beside(anchor.samples))


def _is_over(rounds: Rounds, bases: Sequence[Track], fewest: int, done: int) -> bool:
    """Retire decided candidates; return whether only the first base is left."""
    bases = [base for base in bases if base.failure is None and base.rounds]
    if not bases:
        return done >= FEWEST_ROUNDS
    for track in rounds.alive:
        if track is not bases[0] and len(track.rounds) >= fewest:
            track.retired = all(_is_decided(base, track, bases[0]) for base in bases if base is not track)
    if all(track is bases[0] for track in rounds.alive):
        return True
    for base in bases:
        base.retired = False
    return False


def _is_decided(base: Track, track: Track, anchor: Track) -> bool:
    own_ms, base_ms = _median_ms(track), _median_ms(base)
    needed = FEWEST_WHEN_CLEAR if own_ms > OUT_OF_THE_RACE * base_ms else FEWEST_ROUNDS
    compared = comparison(base, track, anchor) if len(track.rounds) >= needed else None
    decided = compared is not None and compared.verdict is not Verdict.UNDECIDED
    return decided or own_ms > BEYOND_LOAD * base_ms


def keep_round(track: Track, keep: Keep, label: str) -> None:
    """Save the last round of a candidate."""
    latest = track.latest_round()
    if not isinstance(latest, Failure):
        keep("measurement", label, {**to_data(latest), "round": len(track.rounds)})


def _median_ms(track: Track) -> float:
    return median(median(block.nanoseconds) for block in track.blocks) / 1e6
