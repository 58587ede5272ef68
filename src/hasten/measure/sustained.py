"""A long run without a pause: what the device does once it is warm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.sustained import Sustained, sustained_from_blocks
from hasten.measure.rounds import Candidate, Progress, no_progress
from hasten.measure.schedule import Schedule

if TYPE_CHECKING:
    from hasten.core.block import Block
    from hasten.targets.base import Target

_BLOCK_SECONDS: Final = 1.0
_MOST_RUNS_A_BLOCK: Final = 20_000
_FEWEST_SLICES: Final = 5


def sustain(
    target: Target, candidate: Candidate, minutes: float, progress: Progress = no_progress
) -> Sustained | Failure:
    """Run one candidate for so many minutes. No warm-up: how the device warms up is what is asked."""
    blocks: list[Block] = []
    cut_short = ""
    try:
        with target.start(candidate.plan) as runner:
            runner.load(candidate.path, candidate.workload)
            schedule = Schedule(minutes * 60)
            while schedule.left_s > 0 or not blocks:
                progress(schedule.share, f"minute {schedule.elapsed_s / 60:.1f} of {minutes:g}")
                blocks.append(runner.block(min(_BLOCK_SECONDS, minutes * 6), _MOST_RUNS_A_BLOCK))
    except RunnerFailed as failed:
        if not blocks:
            return failed.failure
        cut_short = failed.failure.message
    return replace(sustained_from_blocks(blocks, min(60.0, minutes * 60 / _FEWEST_SLICES)), cut_short=cut_short)
