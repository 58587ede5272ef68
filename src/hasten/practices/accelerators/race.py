"""Accelerators against XNNPACK, whose row is known by its label: it may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.session import keep_nothing
from hasten.measure.race import run_race

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.session import Keep
    from hasten.measure.rounds import Rounds, Track

BASE: Final = "xnnpack"


def race(
    rounds: Rounds, until: float, tell: Callable[[str], None] = lambda state: None, keep: Keep = keep_nothing
) -> None:
    """Rounds until about that time (of the monotonic clock), one at least; after the first only for the promising."""
    run_race(
        rounds,
        until,
        base=_base,
        fewest=1,
        tell=lambda state: tell(f"{state}: {', '.join(track.candidate.label for track in rounds.alive)}"),
        keep=keep,
    )


def _base(rounds: Rounds) -> Track | None:
    return next((track for track in rounds.tracks if track.candidate.label == BASE), None)
