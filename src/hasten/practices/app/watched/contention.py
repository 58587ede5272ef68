"""Interpreters that run at the same time: how many, for how long, and what fewer threads each would have saved."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Workload
from hasten.measure.warmup import warm_up
from hasten.practices.app.rules import TOGETHER_SHARE, stretches

if TYPE_CHECKING:
    from hasten.measure.rounds import Candidate
    from hasten.practices.app.watched.recording import Process
    from hasten.targets.base import Target
    from hasten.targets.client import RunnerClient

_TURNS: Final = 4
_MOST_RUNS: Final = 10_000
_MOST_TOGETHER: Final = 16


@dataclass(frozen=True, slots=True)
class Contention:
    """How many interpreters of a group run at once, typically, and for how long."""

    together: int
    wall_ms: float
    """The time during which at least two of them ran."""


def contention_of(processes: list[Process], members: list[tuple[int, int]]) -> Contention:
    """Runs of these interpreters that overlap, across threads and processes."""
    starts, ends = [], []
    for process in processes:
        numbers = [number for pid, number in members if pid == process.pid]
        runs = process.events.where(process.events.is_run & np.isin(process.events.number, numbers))
        starts.append(runs.start)
        ends.append(runs.end)
    start, end = np.concatenate(starts), np.concatenate(ends)
    if len(start) < 2:
        return Contention(1, 0.0)
    depth, spans = stretches(start, end)
    overlapping = spans[depth >= 2].sum()
    if overlapping < TOGETHER_SHARE * spans[depth >= 1].sum():
        return Contention(1, overlapping / 1e6)
    weighted = float((depth * spans)[depth >= 2].sum() / overlapping)
    return Contention(min(_MOST_TOGETHER, max(2, round(weighted))), overlapping / 1e6)


def contention_ratio(target: Target, candidate: Candidate, together: int, fewer: int, seconds: float) -> float | None:
    """The time of a run with fewer threads each over that with the plan's, `together` of them running at once."""
    each = seconds / (2 * _TURNS)
    ratios = []
    try:
        with contextlib.ExitStack() as stack:
            now = [_ready(target, candidate, candidate.plan.threads, stack) for _ in range(together)]
            then = [_ready(target, candidate, fewer, stack) for _ in range(together)]
            for turn in range(_TURNS):
                order = (now, then) if turn % 2 == 0 else (then, now)
                speeds = {id(group): _runs_a_second(group, each) for group in order}
                ratios.append(speeds[id(now)] / max(speeds[id(then)], 1e-9))
    except RunnerFailed:
        return None
    return median(ratios)


def _ready(target: Target, candidate: Candidate, threads: int, stack: contextlib.ExitStack) -> RunnerClient:
    runner = stack.enter_context(target.start(replace(candidate.plan, threads=threads)))
    runner.load(candidate.path, candidate.workload or Workload())
    warm_up(runner)
    return runner


def _runs_a_second(group: list[RunnerClient], seconds: float) -> float:
    """All at once; the runs that they make together in a second."""
    speeds: list[float] = []
    failures: list[RunnerFailed] = []

    def work(runner: RunnerClient) -> None:
        try:
            block = runner.block(seconds, _MOST_RUNS)
            speeds.append(len(block.nanoseconds) / max(sum(block.nanoseconds) / 1e9, 1e-9))
        except RunnerFailed as failed:
            failures.append(failed)

    threads = [threading.Thread(target=work, args=(runner,)) for runner in group]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(speeds)
