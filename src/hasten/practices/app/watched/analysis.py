"""The analysis of a watched program: its split, its faults, its models and the rounds of its loop."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.remark import Remark, remark
from hasten.practices.app.facts import Frames, ModelUse, NativeRuntime, Overhead, SlowFrame, Split, WatchedFound
from hasten.practices.app.rules import worth_naming
from hasten.practices.app.watched.recording import RUNS, read_processes, watch_errors
from hasten.practices.app.watched.rules import Subject, faults_of
from hasten.practices.app.watched.split import ThreadTimes, code_times, split_thread, thread_split
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.practices.app.facts import Fault, ThreadSplit
    from hasten.practices.app.watched.program import Ended
    from hasten.practices.app.watched.recording import Process

_MOST_LINES: Final = 40
_FEW_SAMPLES: Final = 20
_MUCH_QUEUED: Final = 0.1
_SLOWEST: Final = 3
_MOST_POINTS: Final = 400


class ProgramAnalysis:
    """What was seen of a program, and what it comes to."""

    def __init__(self, folder: Path, command: tuple[str, ...], ended: Ended) -> None:
        self.processes = read_processes(folder)
        self._errors = watch_errors(folder)
        self.command = command
        self.ended = ended
        self._times: dict[tuple[int, int], ThreadTimes] = {}

    @property
    def main(self) -> tuple[Process, int] | None:
        """The process and thread that ran models longest; the first process's main thread if none did."""
        best: tuple[float, Process, int] | None = None
        for process in self.processes:
            runs = process.events.where(process.events.is_run)
            for thread in np.unique(runs.thread).tolist():
                spent = float(runs.ms[runs.thread == thread].sum())
                if best is None or spent > best[0]:
                    best = (spent, process, thread)
        if best is None:
            return (self.processes[0], self.processes[0].main_thread) if self.processes else None
        return best[1], best[2]

    @property
    def undisturbed_ms(self) -> float:
        """The wall time, without the time in which other programs had the cores that the program waited for."""
        main = self.main
        queued = main[0].queued_ms(main[1]) if main else 0.0
        return max(self.ended.wall_ms - queued, 0.1 * self.ended.wall_ms)

    def times(self, process: Process, thread: int) -> ThreadTimes:
        """A thread's time by part and by line; divided once."""
        key = (process.pid, thread)
        if key not in self._times:
            self._times[key] = split_thread(process, thread, *self._span(process, thread))
        return self._times[key]

    def found(
        self,
        measured: Sequence[Fault] = (),
        steady_ms: Callable[[Process, int], float | None] = lambda process, number: None,
        models: list[ModelUse] | None = None,
    ) -> WatchedFound:
        """All of it; with what was measured after the program's end."""
        main = self.main
        split = self._thread_split(*main) if main else None
        return WatchedFound(
            wall_ms=self.ended.wall_ms,
            split=split.split if split else Split(),
            thread=split.thread if split else None,
            threads=tuple(self._thread_split(*entry) for entry in self._threads()),
            findings=tuple(worth_naming([*self._faults(steady_ms), *measured])),
            doubts=tuple(self._doubts()),
            command=self.command,
            exit_code=self.ended.code,
            code=tuple(code_times(self.times(*main), _MOST_LINES)) if main else (),
            models=tuple(models if models is not None else model_uses(self.processes)),
            frames=_frames(*main, self.ended.began_ns) if main else None,
            overhead=self._overhead(),
            processes=len(self.processes),
            native=self._native(),
        )

    def _native(self) -> NativeRuntime | None:
        """What each process wrote of it last, together."""
        last = [notes[-1] for process in self.processes if (notes := process.notes_of("native"))]
        if not last:
            return None
        paths = sorted({path for note in last for path in note["libraries"]})
        cpu_ms = sum(note["cpu_ns"] for note in last) / 1e6
        return NativeRuntime(tuple(paths), sum(note["threads"] for note in last), cpu_ms)

    def _faults(self, steady_ms: Callable[[Process, int], float | None]) -> list[Fault]:
        found = []
        main = self.main
        for process in self.processes:
            if len(process.events):
                thread = main[1] if main and main[0] is process else process.main_thread

                def steady(number: int, process: Process = process) -> float | None:
                    return warm_ms(process, number) or steady_ms(process, number)

                quiet = self.undisturbed_ms / max(self.ended.wall_ms, 1e-9)
                subject = Subject(process, self.undisturbed_ms, steady, self.times(process, thread), quiet)
                found += faults_of(subject)
        return found

    def _threads(self) -> list[tuple[Process, int]]:
        return [
            (process, thread)
            for process in self.processes
            for thread in np.unique(np.append(process.samples.thread, process.events.thread)).tolist()
        ]

    def _thread_split(self, process: Process, thread: int) -> ThreadSplit:
        start, end = self._span(process, thread)
        return thread_split(process, thread, self.times(process, thread), (end - start) / 1e6)

    def _span(self, process: Process, thread: int) -> tuple[int, int]:
        """The lifetime of a thread; of the main thread, that of the process."""
        first = process is self.processes[0]
        if thread == process.main_thread:
            return (
                min(self.ended.began_ns, process.began) if first else process.began,
                max(self.ended.ended_ns, process.ended) if first else process.ended,
            )
        samples = process.samples.of_thread(thread).at
        own = process.events.where(process.events.thread == thread)
        times = np.concatenate([samples, own.start, own.end])
        return int(times.min()), int(times.max())

    def _overhead(self) -> Overhead:
        processes = self.processes
        calls = sum(int((process.events.kind != rows.LOAD).sum()) for process in processes)
        call_ns = max((note["call_ns"] for process in processes for note in process.notes_of("cost")), default=0.0)
        sampler_ms = sum(float(process.ends.get("sampler_cpu_ns", 0)) for process in processes) / 1e6
        start_ms = sum((process.facts["ready_ns"] - process.began) / 1e6 for process in processes)
        return Overhead(
            calls=calls,
            call_ns=call_ns,
            samples=sum(len(process.samples.at) for process in processes),
            sampler_ms=sampler_ms,
            start_ms=start_ms,
            total_ms=calls * call_ns / 1e6 + sampler_ms + start_ms,
        )

    def _doubts(self) -> list[Remark]:
        found = [remark("app.process-unseen", error=error) for error in self._errors]
        main = self.main
        if main and (samples := len(main[0].samples.of_thread(main[1]).at)) < _FEW_SAMPLES:
            found.append(remark("app.too-short", samples=samples))
        if any(not process.ends for process in self.processes):
            found.append(remark("app.process-killed"))
        queued = 1 - self.undisturbed_ms / max(self.ended.wall_ms, 1e-9)
        if queued > _MUCH_QUEUED:
            found.append(remark("app.queued", share=queued))
        return found


def warm_ms(process: Process, number: int) -> float | None:
    """The median of the runs of this interpreter's model, each interpreter's first left out."""
    key = process.objects.get(number, {}).get("key")
    if key not in process.warm_ms:
        process.warm_ms[key] = _warm_ms(process, key)
    return process.warm_ms[key]


def _warm_ms(process: Process, key: str | None) -> float | None:
    alike = [other for other, made in process.objects.items() if made.get("key") == key]
    later = []
    for other in alike:
        mask = np.isin(process.events.kind, RUNS) & (process.events.number == other)
        later += process.events.ms[mask][1:].tolist()
    return float(np.median(later)) if later else None


def _frames(process: Process, thread: int, began_ns: int) -> Frames | None:
    """The rounds of the thread that runs the model; None if it never did."""
    runs = process.events.where(process.events.is_run & (process.events.thread == thread))
    if not len(runs):
        return None
    ends = (runs.end - began_ns) / 1e6
    lengths = np.diff(ends, prepend=(runs.start[0] - began_ns) / 1e6)
    inference = runs.ms
    order = np.argsort(-lengths[1:], kind="stable")[:_SLOWEST] + 1
    later = lengths[1:] if len(lengths) > 1 else lengths
    return Frames(
        count=len(runs),
        median_ms=float(np.median(later)),
        p95_ms=float(np.quantile(later, 0.95)),
        first_ms=float(lengths[0]),
        first_at_ms=float(ends[0]),
        slowest=tuple(SlowFrame(int(i), float(ends[i]), float(lengths[i]), float(inference[i])) for i in order),
        course=tuple((float(ends[i]), float(lengths[i]), float(inference[i])) for i in _shown(lengths)),
    )


def model_uses(processes: list[Process]) -> list[ModelUse]:
    """The models that the program used, the one with most time first."""
    groups: dict[tuple[str, str, int | None], list[tuple[Process, int]]] = {}
    for process in processes:
        used = set(np.unique(process.events.number).tolist())
        for number, made in process.objects.items():
            if number not in used:
                continue
            key = (made.get("key", ""), made.get("type", ""), made.get("threads"))
            groups.setdefault(key, []).append((process, number))
    found = [_use(members) for members in groups.values()]
    return sorted(found, key=lambda use: -use.median_ms * use.runs)


def _use(members: list[tuple[Process, int]]) -> ModelUse:
    first, later = [], []
    for process, number in members:
        runs = process.events.where(process.events.is_run & (process.events.number == number)).ms
        first += runs[:1].tolist()
        later += runs[1:].tolist()
    times = np.array(later or first or [0.0])
    process, number = members[0]
    made = process.objects[number]
    return ModelUse(
        path=made.get("model", ""),
        package=made.get("package", ""),
        kind=made.get("type", ""),
        threads=made.get("threads"),
        loads=len(members),
        runs=len(first) + len(later),
        first_ms=first[0] if first else 0.0,
        median_ms=float(np.median(times)),
        p95_ms=float(np.quantile(times, 0.95)),
    )


def _shown(lengths: NDArray[np.float64]) -> list[int]:
    """All rounds, or the slowest of each stretch where they are too many."""
    if len(lengths) <= _MOST_POINTS:
        return list(range(len(lengths)))
    edges = np.linspace(0, len(lengths), _MOST_POINTS + 1).astype(int)
    return [int(low + np.argmax(lengths[low:high])) for low, high in itertools.pairwise(edges) if high > low]
