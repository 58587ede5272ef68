"""Collecting a profile: profiled runs in alternation with plain ones, so that the profile's own cost can be seen."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.samples import Samples
from hasten.measure.rounds import BLOCK_SECONDS, MOST_RUNS_A_BLOCK, Candidate, Progress, no_progress
from hasten.measure.schedule import Schedule
from hasten.measure.warmup import warm_up

if TYPE_CHECKING:
    from hasten.core.block import Block
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, ProfiledRun

DEFAULT_SECONDS: Final = 4.0
_MOST_RUNS_A_TURN: Final = 20
_MOST_RUNS: Final = 1000


@dataclass(frozen=True, slots=True)
class RawProfile:
    """Profiled runs as the engine reported them, and plain samples taken in between."""

    runs: tuple[ProfiledRun, ...]
    plain: Samples
    load: LoadReport


def collect_profile(
    target: Target, candidate: Candidate, seconds: float = DEFAULT_SECONDS, progress: Progress = no_progress
) -> RawProfile | Failure:
    """Profile one candidate for about so many seconds."""
    try:
        return _collect(target, candidate, seconds, progress)
    except RunnerFailed as failed:
        return failed.failure


def _collect(target: Target, candidate: Candidate, seconds: float, progress: Progress) -> RawProfile:
    with contextlib.ExitStack() as stack:
        progress(0.0, "loading")
        plain = stack.enter_context(target.start(candidate.plan))
        profiled = stack.enter_context(target.start(candidate.plan))
        load = plain.load(candidate.path, candidate.workload)
        profiled.load(candidate.path, candidate.workload, profiling=True)
        warm_up(plain)
        profiled.profile(2)  # the first ones are cold
        blocks: list[Block] = []
        runs: list[ProfiledRun] = []
        schedule = Schedule(seconds)
        while not runs or (schedule.left_s > 0 and len(runs) < _MOST_RUNS):
            block = plain.block(BLOCK_SECONDS, MOST_RUNS_A_BLOCK, lead=1)
            blocks.append(block)
            in_a_turn = max(1, min(_MOST_RUNS_A_TURN, len(block.nanoseconds)))
            runs.extend(profiled.profile(in_a_turn + 1)[1:])
            progress(schedule.share, f"{len(runs)} profiled runs")
        return RawProfile(tuple(runs), Samples(tuple(blocks), target.machine().timer_ns), load)
