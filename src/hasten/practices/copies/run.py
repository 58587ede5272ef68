"""The guide's "Eliminate redundant copies": every way to feed and read a model, timed in turns in fresh processes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.bundle.code import snippet_in
from hasten.bundle.record import Bundle
from hasten.core import doubts
from hasten.core.block import Block
from hasten.core.failure import CONNECTION_LOST, Failure, RunnerFailed
from hasten.core.remark import Remark, remark, said
from hasten.core.samples import Samples
from hasten.core.statistics import Interval, grouped_interval
from hasten.data.tensor_forms import bundle_tensors
from hasten.measure.schedule import Schedule
from hasten.measure.study import outcome_of
from hasten.measure.warmup import warm_up
from hasten.practices.copies.facts import BOTH, IN, OUT, CopiesFound, CopyRow, Cycles
from hasten.practices.copies.rules import THROUGH_RUNNER, measured_row, recommended_way, refused_row
from hasten.runner.copy_ways import BY_KEY, FAMILIES, WAYS, Way
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

    from hasten.core.block import Conditions
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.targets.client import LoadReport, RunnerClient

SECONDS: Final = 12.0
_PROCESSES: Final = 3
_FEWEST_TURNS: Final = 2
_BLOCK_SECONDS: Final = 0.03
_MOST_CYCLES_A_BLOCK: Final = 100
# The plain way of the classic interface, that others of it are compared with.
_PLAIN: Final = "copying"
# The ways whose run is nothing but an inference; the first that was timed counts.
_INFERENCES: Final = ("host", "unaligned", "locked", "copying", "views")


def run(candidate: Candidate, graph: Graph, language: str, effort: Effort) -> CopiesFound | Failure:
    """Measure every way; a failure only where nothing at all could be timed. Empty language: no code."""
    return outcome_of(_Study(candidate, graph, language, effort))


@dataclass(frozen=True, slots=True)
class _Block:
    """Cycles of one way, and what else happened meanwhile."""

    way: str
    runner: int
    turn: int
    at_seconds: float
    feed_ns: array[int]
    run_ns: array[int]
    read_ns: array[int]
    conditions: Conditions

    def cycles(self) -> Cycles:
        steps = (tuple(self.feed_ns), tuple(self.run_ns), tuple(self.read_ns))
        return Cycles(self.way, self.runner, self.turn, *steps)


@dataclass(slots=True)
class _Study:
    """Ways that take turns in a few fresh processes."""

    candidate: Candidate
    graph: Graph
    language: str
    effort: Effort
    blocks: list[_Block] = field(default_factory=list)
    reasons: dict[str, Remark] = field(default_factory=dict)
    load: LoadReport | None = None
    _timer_step_ns: int = 0
    _settled: bool = True

    @property
    def has_answer(self) -> bool:
        return any(block.way in _INFERENCES for block in self.blocks)

    def run(self) -> Failure | None:
        whole = Schedule(self.effort.seconds_or(SECONDS), clock=self.effort.clock)
        for number in range(_PROCESSES):
            until = whole.seconds * (number + 1) / _PROCESSES
            failure = self._process_or_another(number, whole, until)
            if failure is not None and not self.has_answer:
                return failure
        self.effort.progress(1.0, "done")
        return None if self.has_answer else Failure("run", "model", "No way to feed and read this model can be timed.")

    def found(self, *, interrupted: bool = False) -> CopiesFound:
        samples = self._samples(self._inference(), "run_ns")
        bare_us = samples.latency.estimate * 1e3
        rows = tuple(row for way in WAYS for row in self._rows(way, bare_us))
        return CopiesFound(
            model=self.candidate.model,
            plan=self.candidate.plan,
            rows=rows,
            inference_us=bare_us,
            inference_ci95_us=(samples.latency.low * 1e3, samples.latency.high * 1e3),
            input_bytes=sum(tensor.bytes for tensor in self.load.inputs) if self.load else 0,
            output_bytes=sum(tensor.bytes for tensor in self.load.outputs) if self.load else 0,
            snippet=self._snippet(recommended_way(rows, bare_us)),
            language=self.language,
            processes=len({block.runner for block in self.blocks}),
            doubts=(*self.candidate.doubts, *samples.doubts(), *([] if self._settled else [remark(doubts.NOT_STEADY)])),
            blocks=tuple(block.cycles() for block in self.blocks),
            interrupted=interrupted,
        )

    def _snippet(self, recommended: str) -> str:
        """Code that goes the recommended way."""
        if not self.language or self.load is None:
            return ""
        candidate = self.candidate
        bundle = Bundle(
            candidate.path.parent,
            candidate.path.name,
            candidate.model.sha256,
            candidate.plan,
            candidate.workload,
            *bundle_tensors(self.graph, candidate.workload, self.load),
        )
        return snippet_in(self.language, bundle, str(candidate.path), runner=recommended in THROUGH_RUNNER)

    def _process_or_another(self, number: int, whole: Schedule, until: float) -> Failure | None:
        """A process; one that died on a way is followed by another without it, as often as there are ways to die on."""
        while True:
            known = len(self.reasons)
            try:
                with_connection(lambda: self._process(number, whole, until))
            except RunnerFailed as failed:
                if len(self.reasons) == known:
                    return failed.failure
            else:
                return None

    def _process(self, number: int, whole: Schedule, until: float) -> None:
        """One fresh process: all ways in turns, there and back, until its time is up."""
        candidate = self.candidate
        with self.effort.target.start(candidate.plan) as runner:
            self._timer_step_ns = self.effort.target.machine().timer_ns
            self.load = runner.load(candidate.path, candidate.workload)
            self._settled &= warm_up(runner).settled
            ways = self._open(runner)
            turns = Schedule(until - whole.elapsed_s, fewest=_FEWEST_TURNS, clock=self.effort.clock)
            while ways and turns.has_round():
                with turns.round():
                    for key in ways if turns.rounds % 2 == 0 else reversed(ways):
                        said_now = f"process {number + 1} of {_PROCESSES}: {BY_KEY[key].feeding}"
                        self.effort.progress(whole.share, said_now)
                        self._block(runner, key, number, turns.rounds)

    def _open(self, runner: RunnerClient) -> list[str]:
        """The ways that this process can go, one interface of LiteRT after the other."""
        available: list[str] = []
        for family, keys in FAMILIES.items():
            if all(key in self.reasons for key in keys):
                continue
            try:
                available, reasons = runner.copies(self.candidate.path, self.candidate.workload, family)
            except RunnerFailed as failed:
                self._blame(keys, failed.failure)
                raise
            self.reasons.update(reasons)
        return [key for key in available if key not in self.reasons]

    def _block(self, runner: RunnerClient, key: str, number: int, turn: int) -> None:
        at = time.monotonic()
        try:
            steps, conditions = runner.copies_block(key, _BLOCK_SECONDS, _MOST_CYCLES_A_BLOCK)
        except RunnerFailed as failed:
            self._blame((key,), failed.failure)
            raise
        feed, run, read = steps
        self.blocks.append(_Block(key, number, turn, at, feed, run, read, conditions))

    def _blame(self, keys: Iterable[str], failure: Failure) -> None:
        """The next process goes on without these ways, unless it was the connection that failed."""
        if failure.code != CONNECTION_LOST:
            self.reasons.update(dict.fromkeys(keys, said(failure.message)))

    def _inference(self) -> str:
        """The way whose run is taken for the bare inference: the engine's own, where it can be."""
        timed = {block.way for block in self.blocks}
        return next(key for key in _INFERENCES if key in timed)

    def _rows(self, way: Way, bare_us: float) -> list[CopyRow]:
        if not any(block.way == way.key for block in self.blocks):
            return [refused_row(way, self.reasons.get(way.key, remark("copies.not-timed")))]
        # On a device this interface returns from a run before its end, and reading waits for the rest.
        is_early = way.key == "buffers" and self._inference() == "locked"
        if way.whole or is_early:
            cost = self._extra_us(way, "locked" if is_early else _PLAIN)
            direction = BOTH if is_early or way.key == "signature" else IN
            return [] if cost is None else [measured_row(way, direction, cost, bare_us)]
        feed = self._step_us(way.key, "feed_ns")
        if not way.reading:
            return [measured_row(way, IN, feed, bare_us)]
        read = self._step_us(way.key, "read_ns")
        # The sum of both, not the median of sums: next to other work that is another number, as each step has its own
        # undisturbed cycles. The ends are added, too, which is cautious.
        both = Interval(feed.estimate + read.estimate, feed.low + read.low, feed.high + read.high)
        return [measured_row(way, direction, us, bare_us) for direction, us in ((IN, feed), (OUT, read), (BOTH, both))]

    def _step_us(self, key: str, step: str) -> Interval:
        found = self._samples(key, step).latency
        return Interval(found.estimate * 1e3, found.low * 1e3, found.high * 1e3)

    def _samples(self, key: str, step: str) -> Samples:
        """Each cycle's time in a step, as samples that know of disturbed runs."""
        blocks = [
            Block(block.runner, block.at_seconds, getattr(block, step), block.conditions)
            for block in self.blocks
            if block.way == key
        ]
        return Samples(tuple(blocks), self._timer_step_ns)

    def _extra_us(self, way: Way, plain_way: str) -> Interval | None:
        """What feeding and running take beyond a plain run, block by block in the same turn.

        Where one call or a wait cannot be told apart from reading, that counts, too.
        """
        plain = {(block.runner, block.turn): block for block in self.blocks if block.way == plain_way}
        groups: dict[int, list[float]] = {}
        for block in self.blocks:
            beside = plain.get((block.runner, block.turn))
            if block.way != way.key or beside is None:
                continue
            feed: float = _undisturbed(block.feed_ns)
            if way.key == "reshape":  # there and back, where an application resizes once
                feed -= (feed - _undisturbed(beside.feed_ns)) / 2
            extra = feed + _undisturbed(block.run_ns) - _undisturbed(beside.run_ns)
            if not way.fault:
                extra += _undisturbed(block.read_ns)
            groups.setdefault(block.runner, []).append(extra / 1e3)
        return grouped_interval(list(groups.values())) if groups else None


def _undisturbed(durations: array[int]) -> int:
    """The quickest fifth's slowest: a small difference of two long times needs times that nothing disturbed."""
    return sorted(durations)[len(durations) // 5]
