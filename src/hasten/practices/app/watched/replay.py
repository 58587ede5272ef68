"""The replay of a program's models by hasten's own engine, after the program has ended.

Operators of a run, the latency of a warm run where the program never had one, and whether other numbers of threads
would have been faster, alone or beside the program's other interpreters.
"""

from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.comparison import Verdict
from hasten.core.doubts import OTHER_LOAD
from hasten.core.errors import HastenError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.levels import exponential
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.core.remark import remark
from hasten.core.statistics import Interval, mean_interval
from hasten.measure.bench import bench
from hasten.measure.compare import compare
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import Candidate, FailedCandidate, Progress
from hasten.measure.warmup import warm_up
from hasten.model.reader import read_graph
from hasten.practices.app.facts import CONTENTION, DEFAULT_THREADS, MANY_THREADS, Fault, OperatorShare
from hasten.practices.app.rules import TOGETHER_SHARE, fault_at, stretches
from hasten.practices.app.watched.analysis import model_uses, warm_ms
from hasten.practices.app.watched.split import own_frame
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.comparison import Comparison
    from hasten.core.remark import Remark
    from hasten.core.samples import Samples
    from hasten.practices.app.facts import ModelUse, WatchedFound
    from hasten.practices.app.watched.analysis import ProgramAnalysis
    from hasten.practices.app.watched.recording import Process
    from hasten.targets.base import Target
    from hasten.targets.client import RunnerClient

_MATTERS_SHARE: Final = 0.05
"""Of the wall time: models that take less are not measured."""
_ENOUGH_GAIN: Final = 0.05
_PARTS: Final = 4
"""Operators, a warm run, threads and concurrent interpreters share the time."""
_MOST_STEADY: Final = 3
_MOST_CHECKS: Final = 3
_FOR_THREADS: Final = 0.6

_TURNS: Final = 4
_MOST_RUNS: Final = 10_000
_MOST_TOGETHER: Final = 16


@dataclass(frozen=True, slots=True)
class Contention:
    """How many interpreters of a group run at once, typically, and for how long."""

    together: int
    wall_ms: float
    """The length of the stretches in which at least two of them ran: from a run's start until none runs any more. The
    moments in them when one is between two runs count as well, as it waits for a core or for Python's lock then."""


@dataclass
class _Group:
    """Interpreters of one model with one number of threads."""

    candidate: Candidate
    process: Process
    number: int
    asked: int | None
    place: int
    run_ms: float
    members: list[tuple[int, int]] = field(default_factory=list)


class Replay:
    """Measures the models of a program that has ended, in about `seconds`."""

    def __init__(self, study: ProgramAnalysis, target: Target, seconds: float, progress: Progress) -> None:
        self._study, self._target, self._seconds, self._progress = study, target, seconds, progress
        self._steady: dict[str, float] = {}
        self._doubts: list[Remark] = []

    def found(self) -> WatchedFound:
        """What was seen of the program, with what was measured."""
        groups = self._groups()
        found: list[Fault] = []
        models = model_uses(self._study.processes)
        for group in groups[:1]:
            self._progress(0.0, "operators")
            models = self._with_operators(models, group)
        self._measure_steady()
        checks = [check for group in groups for check in self._checks(group)][:_MOST_CHECKS]
        for number, check in enumerate(checks):
            self._progress(0.3 + 0.7 * number / len(checks), "threads")
            found += check(self._seconds * _FOR_THREADS / len(checks))
        self._progress(0.9, "done")
        seen = self._study.found(found, self._steady_ms, models)
        return replace(seen, doubts=(*seen.doubts, *self._doubts))

    def _groups(self) -> list[_Group]:
        """The models that take a share of the time worth a measurement, the most expensive first."""
        groups: dict[tuple[str, Any], _Group] = {}
        for process in self._study.processes:
            for number, made in process.objects.items():
                events = process.events.where(process.events.number == number)
                candidate = _candidate(made)
                if candidate is None or not len(events):
                    continue
                key = (made["key"], made.get("threads"))
                loads = events.place[events.kind == rows.LOAD]
                place = int(loads[0]) if len(loads) else int(events.place[0])
                group = groups.setdefault(key, _Group(candidate, process, number, made.get("threads"), place, 0.0))
                group.run_ms += float(events.ms[events.is_run].sum())
                group.members.append((process.pid, number))
        ordered = sorted(groups.values(), key=lambda group: -group.run_ms)
        return [group for group in ordered if group.run_ms >= _MATTERS_SHARE * self._study.undisturbed_ms]

    def _with_operators(self, models: list[ModelUse], group: _Group) -> list[ModelUse]:
        found = profile_model(
            self._target,
            group.candidate,
            read_graph(group.candidate.path),
            self._seconds / _PARTS / 2,
            None,
            lambda share, text: None,
        )
        if isinstance(found, Failure):
            return models
        profile = found[0]
        busy = [doubt for doubt in profile.doubts if doubt.code == OTHER_LOAD]
        self._doubts += [remark("app.replay-busy", cores=doubt.facts["cores"]) for doubt in busy]
        total = max(sum(operator.ms for operator in profile.operators), 1e-9)
        operators = tuple(OperatorShare(kind.op, kind.count, kind.ms / total) for kind in profile.by_kind())
        path = str(group.candidate.path)
        return [replace(use, operators=operators) if use.path == path else use for use in models]

    def _measure_steady(self) -> None:
        """Warm latencies of models that the program reloads and never runs twice."""
        wanted: dict[str, Candidate] = {}
        for process in self._study.processes:
            for number, made in process.objects.items():
                candidate = _candidate(made)
                if candidate is not None and warm_ms(process, number) is None:
                    wanted.setdefault(made["key"], candidate)
        for key, candidate in list(wanted.items())[:_MOST_STEADY]:
            measured = bench(self._target, candidate, self._seconds / _PARTS)
            if not isinstance(measured, Failure):
                self._steady[key] = measured.samples.median_ms

    def _steady_ms(self, process: Process, number: int) -> float | None:
        return self._steady.get(process.objects.get(number, {}).get("key", ""))

    def _checks(self, group: _Group) -> list[Callable[[float], list[Fault]]]:
        """What to measure about a model's threads; each takes the seconds that it may last."""
        cores = int(group.process.facts.get("cores", 1))
        contention = contention_of(self._study.processes, group.members)
        asked = group.asked or 1
        if contention.together >= 2:
            fewer = max(1, cores // contention.together)
            if contention.together * asked <= cores or fewer >= asked:
                return []
            return [lambda seconds: self._contended(group, contention, fewer, seconds)]
        if group.asked is None and cores > 1:
            return [lambda seconds: self._other_threads(group, (cores,), DEFAULT_THREADS, seconds)]
        if asked > cores:
            # A small model may be fastest with one thread: the cost is what the best number saves.
            counts = tuple(dict.fromkeys((cores, 1)))
            return [lambda seconds: self._other_threads(group, counts, MANY_THREADS, seconds)]
        return []

    def _other_threads(self, group: _Group, counts: Sequence[int], rule: str, seconds: float) -> list[Fault]:
        compared = {}
        for threads in counts:
            other = replace(group.candidate, plan=replace(group.candidate.plan, threads=threads))
            found = compare(self._target, group.candidate, other, seconds / len(counts))
            if not isinstance(found, FailedCandidate):
                compared[threads] = found
        best = fastest_proven({threads: found.comparison for threads, found in compared.items()})
        if best is None:
            return []
        found = compared[best]
        left = time_left(rule, found.comparison, found.first.samples, found.second.samples)
        if left is None:
            return []
        ratio, ci95 = left.estimate, [left.low, left.high]
        facts = {"threads": best, "now": group.candidate.plan.threads, "ratio": ratio, "ci95": ci95}
        return [self._fault(group, rule, (1 - ratio) * group.run_ms, "app.other-threads", **facts)]

    def _contended(self, group: _Group, contention: Contention, fewer: int, seconds: float) -> list[Fault]:
        ratio = _contention_ratio(self._target, group.candidate, contention.together, fewer, seconds)
        if ratio is None or 1 - ratio < _ENOUGH_GAIN:
            return []
        now = group.candidate.plan.threads
        facts = {"together": contention.together, "threads": fewer, "now": now, "ratio": ratio}
        return [self._fault(group, CONTENTION, (1 - ratio) * contention.wall_ms, "app.contention", **facts)]

    def _fault(self, group: _Group, rule: str, cost_ms: float, code: str, **facts: Any) -> Fault:
        file, function, line = own_frame(group.process.chain(group.place))
        return fault_at(rule, (file, function, line), cost_ms, self._study.undisturbed_ms, remark(code, **facts))


def fastest_proven(compared: Mapping[int, Comparison]) -> int | None:
    """The number of threads that saves most, of those that are proven to save enough."""
    faster = {
        threads: found.ratio
        for threads, found in compared.items()
        if found.verdict is Verdict.FASTER and 1 - found.ratio >= _ENOUGH_GAIN
    }
    return min(faster, key=lambda threads: faster[threads], default=None)


def time_left(rule: str, found: Comparison, now: Samples, then: Samples) -> Interval | None:
    """The share of its time that a program still needs with the better number of threads; None where it saves little.

    A verdict stands on latencies; where threads hold one another up, what the program waits for is another matter.
    """
    left = mean_ratio(now, then) if rule == MANY_THREADS else Interval(found.ratio, *found.ci95)
    return left if 1 - left.estimate >= _ENOUGH_GAIN else None


def mean_ratio(first: Samples, second: Samples) -> Interval:
    """The mean time of all runs over that of the first, from round to round.

    More threads than cores hold one another up: a program waits for the slow runs, too, which a latency leaves out as
    disturbed by others.
    """
    one, other = (_means(samples) for samples in (first, second))
    found = mean_interval([math.log(other[number] / mean) for number, mean in one.items() if number in other], 0.95)
    return Interval(*(exponential(end) for end in (found.estimate, found.low, found.high)))


def _means(samples: Samples) -> dict[int, float]:
    """Round → the mean of its runs in nanoseconds."""
    rounds: dict[int, list[int]] = {}
    for block in samples.blocks:
        rounds.setdefault(block.runner, []).extend(block.nanoseconds)
    return {number: fmean(times) for number, times in rounds.items() if times}


def _candidate(made: dict[str, Any]) -> Candidate | None:
    """The model as hasten can run it; None if the file is missing or the program uses a delegate of its own."""
    path = Path(made.get("model") or "")
    if not made.get("model") or not path.is_file() or made.get("delegates"):
        return None
    try:
        graph = read_graph(path)
    except HastenError:
        return None
    kernel = {"BUILTIN_REF": "reference", "BUILTIN_WITHOUT_DEFAULT_DELEGATES": "builtin"}.get(
        made.get("resolver", ""), "delegate"
    )
    plan = Plan(threads=max(1, min(1024, made.get("threads") or 1)), kernel=kernel)
    return Candidate(path.name, path, Model(str(path), graph.size_bytes, graph.sha256), plan)


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
    contended = _contended_ns(depth, spans)
    if overlapping < TOGETHER_SHARE * spans[depth >= 1].sum():
        return Contention(1, contended / 1e6)
    weighted = float((depth * spans)[depth >= 2].sum() / overlapping)
    return Contention(min(_MOST_TOGETHER, max(2, round(weighted))), contended / 1e6)


def _contended_ns(depth: NDArray[np.int64], spans: NDArray[np.int64]) -> float:
    """The length of the stretches without a pause of all in which two ran at some moment."""
    stretch = np.cumsum(depth == 0)
    busy = depth >= 1
    lengths = np.bincount(stretch[busy], spans[busy])
    shared = np.bincount(stretch[busy], depth[busy] >= 2)
    return float(lengths[shared > 0].sum())


def _contention_ratio(target: Target, candidate: Candidate, together: int, fewer: int, seconds: float) -> float | None:
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
