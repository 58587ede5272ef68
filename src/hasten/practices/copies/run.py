"""The guide's "eliminate redundant copies": every way to feed and read a model, timed in turns in fresh processes."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.block import Block
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.remark import Remark, remark
from hasten.core.samples import Samples
from hasten.core.statistics import Interval, grouped_interval
from hasten.data.forms import bundle_tensors
from hasten.measure.rounds import Candidate, Progress, no_progress
from hasten.measure.warmup import warm_up
from hasten.practices.copies.facts import CopyRow, CopyStudy, choose, finding_of, measured_row, refused_row
from hasten.runner.copy_ways import BY_KEY, FAMILIES, WAYS, Way

if TYPE_CHECKING:
    from hasten.bundle.record import BundleTensor
    from hasten.core.block import Conditions
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient

DEFAULT_SECONDS: Final = 12.0
_PROCESSES: Final = 3
_FEWEST_TURNS: Final = 2
_BLOCK_SECONDS: Final = 0.03
_MOST_CYCLES_A_BLOCK: Final = 100
# The plain way of the classic interface, that others of it are compared with.
_PLAIN: Final = "copying"
# The ways whose run is nothing but an inference; the first that was timed counts.
_INFERENCES: Final = ("host", "unaligned", "locked", "copying", "views")


@dataclass(frozen=True, slots=True)
class CycleBlock:
    """Cycles of one way, timed one after the other in one process."""

    way: str
    runner: int
    turn: int
    at_seconds: float
    feed_ns: array[int]
    run_ns: array[int]
    read_ns: array[int]
    conditions: Conditions

    def as_data(self) -> dict[str, Any]:
        """The block as a session file holds it."""
        steps = {name: list(getattr(self, name)) for name in ("feed_ns", "run_ns", "read_ns")}
        return {"way": self.way, "runner": self.runner, "turn": self.turn, **steps}


@dataclass(slots=True)
class CopiesPractice:
    """One study of copies: `run` measures, `found` says at any time what is known."""

    target: Target
    candidate: Candidate
    graph: Graph
    seconds: float = DEFAULT_SECONDS
    blocks: list[CycleBlock] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    load: LoadReport | None = None
    _timer_step_ns: int = 0
    _settled: bool = True

    @property
    def has_blocks(self) -> bool:
        """Whether anything can be said already."""
        return any(block.way in _INFERENCES for block in self.blocks)

    def run(self, progress: Progress = no_progress) -> Failure | None:
        """Measure; a failure only where nothing at all could be."""
        begin = time.monotonic()
        for number in range(_PROCESSES):
            until = begin + self.seconds * (number + 1) / _PROCESSES
            failure = self._process_or_another(number, until, progress)
            if failure is not None and not self.has_blocks:
                return failure
        if not self.has_blocks:
            reason = next(iter(self.reasons.values()), "none was ready")
            return Failure("run", "model", f"no way to feed and read this model can be timed: {reason}")
        return None

    def found(self) -> CopyStudy:
        """The costs measured so far."""
        samples = self._samples(self._inference(), "run_ns")
        bare_us = samples.latency.estimate * 1e3
        rows = tuple(row for way in WAYS for row in self._rows(way, bare_us))
        recommended = choose(rows, bare_us)
        return CopyStudy(
            model=self.candidate.model,
            plan=self.candidate.plan,
            input_bytes=sum(tensor.bytes for tensor in self.load.inputs) if self.load else 0,
            output_bytes=sum(tensor.bytes for tensor in self.load.outputs) if self.load else 0,
            inference_us=bare_us,
            inference_ci95_us=(samples.latency.low * 1e3, samples.latency.high * 1e3),
            rows=rows,
            recommended=recommended,
            finding=finding_of(rows, recommended, bare_us),
            processes=len({block.runner for block in self.blocks}),
            doubts=(*samples.doubts(), *self._own_doubts()),
        )

    def tensors(self) -> tuple[tuple[BundleTensor, ...], tuple[BundleTensor, ...]]:
        """The model's inputs and outputs, for code that feeds them."""
        if self.load is None:
            return (), ()
        return bundle_tensors(self.graph, self.candidate.workload, self.load)

    def _process_or_another(self, number: int, until: float, progress: Progress) -> Failure | None:
        """A process; one that died on a way is followed by another without it, as often as there are ways to die on."""
        while True:
            known = len(self.reasons)
            try:
                self._process(number, until, progress)
            except RunnerFailed as failed:
                if len(self.reasons) == known:
                    return failed.failure
            else:
                return None

    def _process(self, number: int, until: float, progress: Progress) -> None:
        """One fresh process: all ways in turns, there and back, until its time is up."""
        candidate = self.candidate
        with self.target.start(candidate.plan) as runner:
            self._timer_step_ns = self.target.machine().timer_ns
            self.load = runner.load(candidate.path, candidate.workload)
            self._settled &= warm_up(runner).settled
            ways = self._open(runner)
            turn = 0
            while ways and (turn < _FEWEST_TURNS or time.monotonic() < until):
                for key in ways if turn % 2 == 0 else reversed(ways):
                    share = (number + min(1.0, turn / 10)) / _PROCESSES
                    progress(share, f"process {number + 1} of {_PROCESSES}: {BY_KEY[key].feeding}")
                    self._block(runner, key, number, turn)
                turn += 1

    def _open(self, runner: RunnerClient) -> list[str]:
        """The ways that this process can go, one interface of LiteRT after the other."""
        available: list[str] = []
        for family, keys in FAMILIES.items():
            if all(key in self.reasons for key in keys):
                continue
            try:
                available, reasons = runner.copies(self.candidate.path, self.candidate.workload, family)
            except RunnerFailed as failed:
                self.reasons.update(dict.fromkeys(keys, failed.failure.message))
                raise
            self.reasons.update(reasons)
        return [key for key in available if key not in self.reasons]

    def _block(self, runner: RunnerClient, key: str, number: int, turn: int) -> None:
        at = time.monotonic()
        try:
            steps, conditions = runner.copies_block(key, _BLOCK_SECONDS, _MOST_CYCLES_A_BLOCK)
        except RunnerFailed as failed:
            self.reasons[key] = failed.failure.message  # the next process goes on without it
            raise
        feed, run, read = steps
        self.blocks.append(CycleBlock(key, number, turn, at, feed, run, read, conditions))

    def _inference(self) -> str:
        """The way whose run is taken for the bare inference: the engine's own, where it can be."""
        timed = {block.way for block in self.blocks}
        return next(key for key in _INFERENCES if key in timed)

    def _rows(self, way: Way, bare_us: float) -> list[CopyRow]:
        if not any(block.way == way.key for block in self.blocks):
            return [refused_row(way, self.reasons.get(way.key, "it was not timed before the end"))]
        # On a device this interface returns from a run before its end, and reading waits for the rest.
        is_early = way.key == "buffers" and self._inference() == "locked"
        if way.whole or is_early:
            cost = self._extra_us(way, "locked" if is_early else _PLAIN)
            direction = "both" if is_early or way.key == "signature" else "in"
            return [] if cost is None else [measured_row(way, direction, cost, bare_us)]
        rows = [measured_row(way, "in", self._step_us(way.key, "feed_ns"), bare_us)]
        if way.reading:
            rows.append(measured_row(way, "out", self._step_us(way.key, "read_ns"), bare_us))
            rows.append(measured_row(way, "both", self._step_us(way.key, "feed_ns", "read_ns"), bare_us))
        return rows

    def _step_us(self, key: str, *steps: str) -> Interval:
        found = self._samples(key, *steps).latency
        return Interval(found.estimate * 1e3, found.low * 1e3, found.high * 1e3)

    def _samples(self, key: str, *steps: str) -> Samples:
        """Each cycle's time in these steps, as samples that know of disturbed runs."""
        blocks = [
            Block(block.runner, block.at_seconds, _summed(block, *steps), block.conditions)
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

    def _own_doubts(self) -> list[Remark]:
        if self._settled:
            return []
        return [remark(doubts.NOT_STEADY)]


def _undisturbed(durations: array[int]) -> int:
    """The quickest fifth's slowest: a small difference of two long times needs times that nothing disturbed."""
    return sorted(durations)[len(durations) // 5]


def _summed(block: CycleBlock, *steps: str) -> array[int]:
    columns = [getattr(block, step) for step in steps]
    return array("q", (sum(values) for values in zip(*columns, strict=True)))
