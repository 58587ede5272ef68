"""One latency to trust: fresh processes until the interval is narrow enough or the time is spent.

Or a long run without a pause: what the device does once it is warm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.errors import Interrupted
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.sustained import Sustained, sustained_from_blocks
from hasten.measure.rounds import Candidate, Progress, Rounds, Track, no_progress
from hasten.measure.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.block import Block
    from hasten.core.measurement import Measurement
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 6.0
NARROW_ENOUGH: Final = 0.01
_ROUNDS_PLANNED: Final = 6
_FEWEST_ROUNDS: Final = 4
_SUSTAINED_BLOCK_SECONDS: Final = 1.0
_MOST_RUNS_A_SUSTAINED_BLOCK: Final = 20_000
_FEWEST_SLICES: Final = 5


def bench(
    target: Target,
    candidate: Candidate,
    seconds: float = DEFAULT_SECONDS,
    progress: Progress = no_progress,
    on_round: Callable[[Track], None] = lambda track: None,
) -> Measurement | Failure:
    """Time one candidate for about `seconds`, start-up of its processes included.

    `on_round` sees what there is after each round, so that an interruption loses one round at most.
    """
    rounds = Rounds(target, [candidate])
    track = rounds.tracks[0]
    schedule = Schedule(seconds)
    while track.failure is None and not _enough(track) and schedule.has_round():
        progress(schedule.share, _state(track))
        with schedule.round():
            rounds.run_one(_round_seconds(track, seconds, schedule.longest_s))
        on_round(track)
    progress(1.0, _state(track))
    return track.result()


def sustain(
    target: Target, candidate: Candidate, minutes: float, progress: Progress = no_progress
) -> Sustained | Failure:
    """Run one candidate for `minutes`. No warm-up: how the device warms up is what is asked.

    After Ctrl-C, the minutes that there are come as `Interrupted.found`.
    """
    blocks: list[Block] = []
    cut_short = ""
    slice_seconds = min(60.0, minutes * 60 / _FEWEST_SLICES)
    try:
        with target.start(candidate.plan) as runner:
            runner.load(candidate.path, candidate.workload)
            schedule = Schedule(minutes * 60)
            while schedule.left_s > 0 or not blocks:
                progress(schedule.share, f"minute {schedule.elapsed_s / 60:.1f} of {minutes:g}")
                blocks.append(runner.block(min(_SUSTAINED_BLOCK_SECONDS, minutes * 6), _MOST_RUNS_A_SUSTAINED_BLOCK))
    except RunnerFailed as failed:
        if not blocks:
            return failed.failure
        cut_short = failed.failure.message
    except KeyboardInterrupt:
        if not blocks:
            raise
        raise Interrupted(sustained_from_blocks(blocks, slice_seconds)) from None
    return replace(sustained_from_blocks(blocks, slice_seconds), cut_short=cut_short)


def _round_seconds(track: Track, seconds: float, longest: float) -> float:
    """The timed part of the next round: an equal share of the budget, less what starting up took in the last one."""
    share = seconds / _ROUNDS_PLANNED
    if not track.rounds:
        return share / 2
    timed = sum(block.conditions.wall_seconds for block in track.rounds[-1])
    overhead = max(0.0, longest - timed)
    return max(share - overhead, share / 4)


def _enough(track: Track) -> bool:
    if len(track.rounds) < _FEWEST_ROUNDS:
        return False
    result = track.result()
    if isinstance(result, Failure):
        return True
    # A narrow interval from one lucky process would say nothing about the next.
    return result.samples.counted >= _FEWEST_ROUNDS - 1 and result.samples.latency.relative_half_width <= NARROW_ENOUGH


def _state(track: Track) -> str:
    result = track.result()
    if isinstance(result, Failure):
        return "first process"
    latency = result.samples.latency
    return f"process {len(track.rounds) + 1}, {latency.estimate:.3g} ms ± {latency.relative_half_width:.1%}"
