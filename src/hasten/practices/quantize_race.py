"""Variants against their original, which is the first of the candidates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Verdict
from hasten.core.failure import Failure
from hasten.core.quantization import FAILED, VariantRow
from hasten.measure.race import comparison, run_race

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.session import Keep
    from hasten.measure.rounds import Rounds, Track

# With fewer there is no verdict, however clear the difference.
FEWEST_FOR_A_VERDICT: Final = 3
# A ratio that is further than this from that of the latencies is not what a quiet machine would show.
_BUSY: Final = 1.2


def race(rounds: Rounds, until: float, tell: Callable[[str], None], keep: Keep) -> None:
    """Rounds until about that time (of the monotonic clock), three at least."""
    run_race(
        rounds,
        until,
        base=lambda raced: raced.tracks[0],
        fewest=FEWEST_FOR_A_VERDICT,
        tell=lambda state: tell(f"{state}, {len(rounds.alive)} models"),
        keep=keep,
    )


def timed_row(row: VariantRow, base: Track, track: Track, *, only_decided: bool) -> VariantRow | None:
    """The row with its latency or its failure; None where there is neither, or no verdict and one is asked for."""
    measured = track.result()
    if isinstance(measured, Failure):
        return None if track.failure is None else replace(row, floor=FAILED, why=measured.message)
    against = comparison(base, track)
    if only_decided and against.verdict is Verdict.UNDECIDED:
        return None
    original = base.result()
    assert not isinstance(original, Failure), "what was compared was measured"
    alone = measured.samples.latency.estimate / original.samples.latency.estimate
    return replace(
        row, latency=measured.samples.latency, against=against, notes=(*row.notes, *_doubt(against.ratio, alone))
    )


def _doubt(ratio: float, alone: float) -> list[str]:
    """A sentence where others had so much of the cores that the ratio is more theirs than the models'."""
    if abs(math.log(ratio / alone)) < math.log(_BUSY):
        return []
    return [f"the machine was busy: undisturbed runs take {alone:.2f} of the original's time, all runs {ratio:.2f}"]
