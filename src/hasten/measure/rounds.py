"""The one way to time: rounds of fresh processes, one for each candidate, which take turns.

What drifts (heat, clock, other programs) then touches all candidates alike, and what differs from process to process
(where memory lies) shows up between rounds instead of hiding in one number.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final, Protocol

from hasten.core import doubts
from hasten.core.failure import CONNECTION_LOST, Failure, RunnerFailed
from hasten.core.measurement import Burst, Effective, Measurement, Model, Start, effective_doubts
from hasten.core.plan import Plan, Workload
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.measure.crew import burst_of, crew_size
from hasten.measure.schedule import now
from hasten.measure.warmup import WarmUp, warm_up
from hasten.targets.base import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.block import Block
    from hasten.core.machine import Cluster
    from hasten.core.remark import Remark
    from hasten.data.tensor_forms import ModelForms
    from hasten.measure.schedule import Clock
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient

BLOCK_SECONDS: Final = 0.05
# Candidates take turns of this length within a block. On a host whose cores others shared for most of the time, ratios
# of six candidates in rounds of 0.15 s each had a standard deviation of 7 % with turns of 5 ms, of 17 % with 50 ms.
_TURN_SECONDS: Final = 0.005
_REQUESTS_A_TURN: Final = 4
# Of a model of 2 ms, the second run of a turn took 4 % longer than later ones, the third 0.5 %.
_FEWEST_RUNS_A_TURN: Final = 3
# Enough runs of a tiny model for a firm median; more would only fill the session file.
MOST_RUNS_A_BLOCK: Final = 400


class Progress(Protocol):
    """Told how far a measurement is; the command line draws a bar, a test keeps a list."""

    def __call__(self, share: float, text: str) -> None:
        """Report the fraction done (0 to 1) and the current step."""


def no_progress(share: float, text: str) -> None:
    """For callers that show nothing."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A sample that a candidate runs on in place of seeded inputs."""

    source: str
    forms: ModelForms
    values: tuple[bytes, ...]
    """The bytes of each input, in the order of the forms."""

    def put_into(self, runner: RunnerClient, load: LoadReport) -> None:
        """Run the model on the sample once: its inputs hold the sample from then on."""
        loaded = self.forms.in_effect(
            [(tensor.name, tensor.shape) for tensor in load.inputs],
            [(tensor.name, tensor.shape) for tensor in load.outputs],
        )
        runner.evaluate(loaded.fed(self.values))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model with a plan, ready to be timed."""

    label: str
    path: Path
    model: Model
    plan: Plan = field(default=Plan())
    workload: Workload = field(default=Workload())
    doubts: tuple[Remark, ...] = ()
    """What makes every number of it doubtful, whatever is measured."""
    feed: Feed | None = None
    """What it runs on; seeded inputs where there is none."""


@dataclass(frozen=True, slots=True)
class FailedCandidate:
    """Which of several candidates failed, and how."""

    candidate: Candidate
    failure: Failure


@dataclass(slots=True)
class Track:
    """What has been measured of one candidate so far."""

    candidate: Candidate
    rounds: list[list[Block]] = field(default_factory=list)
    loads: list[LoadReport] = field(default_factory=list)
    warm_ups: list[WarmUp] = field(default_factory=list)
    bursts: list[Burst] = field(default_factory=list)
    """Only where throughput is asked for."""
    peak_memory_mb: float | None = None
    timer_step_ns: int = 0
    failure: Failure | None = None
    retired: bool = False
    """Out of the race: it keeps what was measured, and gets no further rounds."""

    @property
    def blocks(self) -> list[Block]:
        """All blocks so far."""
        return [block for blocks in self.rounds for block in blocks]

    @property
    def has_lost_connection(self) -> bool:
        """Whether its device went away while it was measured: the same may work once more."""
        return self.failure is not None and self.failure.code == CONNECTION_LOST

    def marks(self) -> tuple[int, int, int, int]:
        """How far it is, for `cut`."""
        return len(self.rounds), len(self.loads), len(self.warm_ups), len(self.bursts)

    def cut(self, marks: tuple[int, int, int, int]) -> None:
        """Forget what was measured since then; a failure other than a lost connection stays."""
        rounds, loads, warm_ups, bursts = marks
        del self.rounds[rounds:], self.loads[loads:], self.warm_ups[warm_ups:], self.bursts[bursts:]
        if self.has_lost_connection:
            self.failure = None

    def result(self) -> Measurement | Failure:
        """The measurement; or the failure, if there is nothing to measure by."""
        if not self.rounds:
            return self.failure or Failure("run", "bug", "nothing was measured", "Please report this.")
        effective = _effective(self.candidate.plan, self.loads[-1])
        found = [*self.candidate.doubts, *effective_doubts(self.candidate.plan, effective)]
        if not all(warm_up.settled for warm_up in self.warm_ups):
            found.append(remark(doubts.NOT_STEADY))
        if self.failure is not None:
            found.append(remark(doubts.PARTIAL, failure=self.failure.message))
        return Measurement(
            model=self.candidate.model,
            plan=self.candidate.plan,
            workload=self.candidate.workload,
            effective=effective,
            samples=Samples(tuple(self.blocks), self.timer_step_ns),
            init_ms=median(load.init_ms for load in self.loads),
            first_run_ms=median(load.first_run_ms for load in self.loads),
            warm_up_runs=round(median(warm_up.runs for warm_up in self.warm_ups)),
            peak_memory_mb=self.peak_memory_mb,
            other_doubts=tuple(found),
            starts=tuple(
                Start(blocks[0].runner, load.init_ms, load.first_run_ms)
                for blocks, load in zip(self.rounds, self.loads, strict=False)  # who fails after loading has one more
            ),
            bursts=tuple(self.bursts),
            inputs=self.candidate.feed.source if self.candidate.feed is not None else "",
        )

    def latest_round(self) -> Measurement | Failure:
        """The measurement with the samples of the last round only: a session keeps it round by round."""
        found = self.result()
        if isinstance(found, Failure):
            return found
        number = self.rounds[-1][0].runner
        return replace(
            found,
            samples=Samples(tuple(self.rounds[-1]), self.timer_step_ns),
            starts=found.starts[-1:],
            bursts=tuple(burst for burst in found.bursts if burst.round == number),
        )


class Rounds:
    """Times candidates round by round. A candidate that fails is left out from then on; the others go on.

    `crews` asks for throughput as well: each candidate with as many runners side by side as keep all cores busy.
    `first_round` is the number of the next round, where a session that goes on has earlier ones.
    """

    def __init__(
        self,
        target: Target,
        candidates: Sequence[Candidate],
        clock: Clock | None = None,
        *,
        crews: bool = False,
        first_round: int = 0,
    ) -> None:
        self.tracks = [Track(candidate) for candidate in candidates]
        self._target, self._crews = target, crews
        self._clock = clock or now
        self._number = first_round

    @property
    def alive(self) -> list[Track]:
        """The candidates that are still in the race."""
        return [track for track in self.tracks if track.failure is None and not track.retired]

    def run_one(self, seconds_each: float) -> None:
        """One round: a fresh process for each candidate, then blocks in turn until each had its time.

        A round that a lost connection cut short is run again, for all: half of one compares nothing.
        """
        for attempt in range(1, ATTEMPTS + 1):
            before = [(track, track.marks()) for track in self.alive]
            self._run_round(seconds_each)
            lost = any(track.has_lost_connection for track, _ in before)
            if not lost or attempt == ATTEMPTS:
                break
            for track, marks in before:
                track.cut(marks)
        self._number += 1

    def _run_round(self, seconds_each: float) -> None:
        with contextlib.ExitStack() as stack:
            entrants = []
            # Who starts first lies idle while the others start: take turns at that, too.
            for track in self.alive if self._number % 2 == 0 else reversed(self.alive):
                runner = self._start(track, stack)
                if runner is not None:
                    entrants.append((track, runner))
            self._alternate(entrants, seconds_each)
            if self._crews:
                self._burst([pair for pair in entrants if pair[0].failure is None], stack)

    def _start(self, track: Track, stack: contextlib.ExitStack) -> RunnerClient | None:
        candidate = track.candidate
        try:
            runner = stack.enter_context(self._target.start(candidate.plan))
            machine = self._target.machine()
            track.timer_step_ns = machine.timer_ns
            runner.plan = replace(candidate.plan, cores=candidate.plan.cores or self._shared_cores(machine.clusters))
            load = runner.load(candidate.path, candidate.workload)
            if candidate.feed is not None:
                candidate.feed.put_into(runner, load)
            warm = warm_up(runner)
        except RunnerFailed as failed:
            track.failure = failed.failure
            return None
        track.loads.append(load)
        track.warm_ups.append(warm)
        return runner

    def _shared_cores(self, clusters: tuple[Cluster, ...]) -> tuple[int, ...]:
        """The cores that all candidates of this round share; other ones in the next. Empty: whatever they get.

        A neighbor on the same chip can halve the speed of one core for seconds. The scheduler leaves each process on
        a core of its own, and the ratio of two equal models would then be that of two cores.
        """
        threads = self.alive[0].candidate.plan.threads
        # Runners side by side spread over all cores.
        if len(self.alive) < 2 or len(clusters) != 1 or not self._are_alike or self._crews:
            return ()
        cores = clusters[0].cores
        if threads >= len(cores):
            return ()
        return tuple(sorted(cores[(self._number * threads + i) % len(cores)] for i in range(threads)))

    @property
    def _are_alike(self) -> bool:
        """Whether all candidates use the CPU with as many threads: what slows one, slows the others."""
        first, *others = (track.candidate.plan for track in self.alive)
        return first.runs_on_cpu and all(
            plan == replace(first, options=plan.options, kernel=plan.kernel, kernels=plan.kernels, cache=plan.cache)
            for plan in others
        )

    def _burst(self, entrants: list[tuple[Track, RunnerClient]], stack: contextlib.ExitStack) -> None:
        """Bursts of all candidates in ABBA order, each with a crew of runners; one whose crew fails is out."""
        crews: list[tuple[Track, list[RunnerClient]]] = []
        for track, runner in entrants:
            others = crew_size(track.candidate.plan, self._target.machine().cores) - 1
            try:
                joined = [self._join(track.candidate, stack) for _ in range(others)]
            except RunnerFailed as failed:
                track.failure = failed.failure
                continue
            crews.append((track, [runner, *joined]))
        for track, crew in [*crews, *reversed(crews)]:
            if track.failure is not None:
                continue
            try:
                track.bursts.append(burst_of(crew, self._number))
            except RunnerFailed as failed:
                track.failure = failed.failure

    def _join(self, candidate: Candidate, stack: contextlib.ExitStack) -> RunnerClient:
        """Another runner of a candidate, warm."""
        runner = stack.enter_context(self._target.start(candidate.plan))
        runner.load(candidate.path, candidate.workload)
        warm_up(runner)
        return runner

    def _alternate(self, entrants: list[tuple[Track, RunnerClient]], seconds_each: float) -> None:
        """Turns of a few milliseconds in ABBA order: a drift that is straight in time cancels out within two turns, and
        what comes and goes within tenths of a second, as neighbors on the host do, meets all candidates."""
        timed = [_Timed(*pair) for pair in entrants]
        turn, due = 0, timed
        while due:
            for one in due if turn % 2 == 0 else reversed(due):
                begin = self._clock()
                try:
                    one.take_turn(self._number, is_alone=len(entrants) == 1)
                except RunnerFailed as failed:
                    one.track.failure = failed.failure
                    continue
                one.spent_s += self._clock() - begin
                one.track.peak_memory_mb = _larger(one.track.peak_memory_mb, one.runner.peak_memory_mb)
            turn += 1
            # A slow one fills its time with a few runs, and must not hold up the rest.
            due = [one for one in timed if one.track.failure is None and one.spent_s < seconds_each]
        for one in timed:
            if one.blocks:
                one.track.rounds.append(one.blocks)


@dataclass(slots=True)
class _Timed:
    """What a candidate has of a round so far."""

    track: Track
    runner: RunnerClient
    blocks: list[Block] = field(default_factory=list)
    turns: int = 0
    spent_s: float = 0.0

    def take_turn(self, round_number: int, *, is_alone: bool) -> None:
        """Add a block, or more of the last one while it is not full."""
        if is_alone:
            self.blocks.append(self.runner.block(BLOCK_SECONDS, MOST_RUNS_A_BLOCK, runner=round_number))
            return
        # The first run after another process's turn finds cold caches, and does not count.
        seconds = self._turn_seconds()
        if not self.blocks or _is_full(self.blocks[-1]):
            self.blocks.append(self.runner.block(seconds, MOST_RUNS_A_BLOCK, runner=round_number, lead=1))
        else:
            left = MOST_RUNS_A_BLOCK - len(self.blocks[-1].nanoseconds)
            self.blocks[-1] = self.runner.more_of(self.blocks[-1], seconds, left, lead=1)
        self.turns += 1

    def _turn_seconds(self) -> float:
        """Longer where requests take their time, as over a network: most of a turn is for runs that count. And long
        enough that the middle one of its runs finds warm caches."""
        if not self.turns:
            return _TURN_SECONDS
        run_s = min(self.blocks[-1].nanoseconds) / 1e9
        timed_s = sum(block.conditions.wall_seconds for block in self.blocks)
        request_s = (self.spent_s - timed_s) / self.turns - run_s  # a run that does not count is part of each
        wanted_s = max(_TURN_SECONDS, _REQUESTS_A_TURN * request_s, _FEWEST_RUNS_A_TURN * run_s)
        return min(BLOCK_SECONDS, wanted_s)


def _is_full(block: Block) -> bool:
    return block.conditions.wall_seconds >= BLOCK_SECONDS or len(block.nanoseconds) >= MOST_RUNS_A_BLOCK


def _effective(plan: Plan, load: LoadReport) -> Effective:
    off_cpu = not plan.runs_on_cpu
    # Threads that other back ends start for themselves say nothing about the setting.
    seen = 1 + load.extra_threads if load.api == "CompiledModel" and not off_cpu and plan.kernel == "delegate" else None
    name = "delegate" if plan.delegate else plan.accelerator
    # What the engine was seen to place counts more than what it says: it takes an external delegate for the CPU's own.
    whole = load.without_cpu if load.placement is None else load.placement.on_cpu == 0
    return Effective(
        accelerator=name if not off_cpu or whole else f"{name}+cpu",
        threads=seen,
        api=load.api,
        zero_copy=all(tensor.zero_copy for tensor in (*load.inputs, *load.outputs)),
        fully_accelerated=whole if off_cpu else load.fully_accelerated,
    )


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)
