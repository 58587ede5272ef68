"""The guide's "Profile your application": from what was seen of a program to its split, its faults and its timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core import doubts as doubt_codes
from hasten.core.remark import Remark, said
from hasten.practices.app.facts import AppFinding, AppResult, Overhead
from hasten.practices.app.watched.frames import frames_of, model_uses
from hasten.practices.app.watched.recording import RUNS, read_seen, troubles
from hasten.practices.app.watched.rules import Subject, findings
from hasten.practices.app.watched.split import ThreadTimes, code_times, split_thread, thread_split
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.practices.app.facts import ModelUse, ThreadSplit
    from hasten.practices.app.watched.program import Ended
    from hasten.practices.app.watched.recording import Process

MOST_LINES: Final = 40
_FEW_SAMPLES: Final = 20
_MUCH_QUEUED: Final = 0.1


class AppStudy:
    """What was seen of a program, and what it comes to."""

    def __init__(self, folder: Path, command: tuple[str, ...], ended: Ended) -> None:
        self.processes = read_seen(folder)
        self._troubles = troubles(folder)
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
        """The wall time without that for which the program stood ready and other programs had the cores."""
        main = self.main
        queued = main[0].queued_ms(main[1]) if main else 0.0
        return max(self.ended.wall_ms - queued, 0.1 * self.ended.wall_ms)

    def times(self, process: Process, thread: int) -> ThreadTimes:
        """A thread's time, shared out once."""
        key = (process.pid, thread)
        if key not in self._times:
            self._times[key] = split_thread(process, thread, *self._span(process, thread))
        return self._times[key]

    def result(
        self,
        measured: list[AppFinding] | None = None,
        steady_ms: Callable[[Process, int], float | None] | None = None,
        models: list[ModelUse] | None = None,
    ) -> AppResult:
        """All of it; with what was measured after the program's end."""
        threads = [self._thread_split(*entry) for entry in self._threads()]
        main = self.main
        found = [*self._findings(steady_ms), *(measured or ())]
        return AppResult(
            command=self.command,
            exit_code=self.ended.code,
            wall_ms=self.ended.wall_ms,
            main=self._thread_split(*main) if main else None,
            threads=tuple(threads),
            findings=tuple(sorted(found, key=lambda fault: -fault.cost_ms)),
            code=tuple(code_times(self.times(*main), MOST_LINES)) if main else (),
            models=tuple(models if models is not None else model_uses(self.processes)),
            frames=frames_of(*main, self.ended.began_ns) if main else None,
            overhead=self._overhead(),
            processes=len(self.processes),
            doubts=tuple(self._doubts()),
        )

    def _findings(self, steady_ms: Callable[[Process, int], float | None] | None) -> list[AppFinding]:
        found = []
        main = self.main
        for process in self.processes:
            if len(process.events):
                thread = main[1] if main and main[0] is process else process.main_thread

                def steady(number: int, process: Process = process) -> float | None:
                    return warm_ms(process, number) or (steady_ms(process, number) if steady_ms else None)

                quiet = self.undisturbed_ms / max(self.ended.wall_ms, 1e-9)
                subject = Subject(process, self.undisturbed_ms, steady, self.times(process, thread), quiet)
                found += findings(subject)
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
        """From when to when a thread lived; the main thread from the start of the process to its end."""
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
        calls = sum(int((process.events.kind != rows.LOAD).sum()) for process in self.processes)
        costs = [note["call_ns"] for process in self.processes for note in process.notes_of("cost")]
        return Overhead(
            calls=calls,
            call_ns=max(costs, default=0.0),
            samples=sum(len(process.samples.at) for process in self.processes),
            sampler_ms=sum(float(process.ends.get("sampler_cpu_ns", 0)) for process in self.processes) / 1e6,
            start_ms=sum((process.facts["ready_ns"] - process.began) / 1e6 for process in self.processes),
        )

    def _doubts(self) -> list[Remark]:
        found = [said(f"a process could not be watched: {trouble}", doubt_codes.PARTIAL) for trouble in self._troubles]
        main = self.main
        if main and len(main[0].samples.of_thread(main[1]).at) < _FEW_SAMPLES:
            found.append(said("the program was too short for its own code to be told apart", doubt_codes.FEW_SAMPLES))
        if any(not process.ends for process in self.processes):
            found.append(said("a process was torn down; its last quarter of a second is missing", doubt_codes.PARTIAL))
        queued = 1 - self.undisturbed_ms / max(self.ended.wall_ms, 1e-9)
        if queued > _MUCH_QUEUED:
            found.append(
                said(f"the program stood in line for a core for {queued:.0%} of its time", doubt_codes.OTHER_LOAD)
            )
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
