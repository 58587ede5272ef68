"""Timelines in Chrome's trace format, which Perfetto and chrome://tracing open: of a watched program, of a trace.

Of a program, LiteRT's calls stand where they happened; its own code is drawn from samples, so that its edges are as
fine as these; operators are laid inside each run in proportion to a profile that was made after the program's end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.platform_trace import RUNNABLE, RUNNING, WAITING
from hasten.practices.app.watched.split import own_frame
from hasten.practices.app.words import BOOK
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.platform_trace import PlatformTrace, ThreadTrace
    from hasten.practices.app.facts import WatchedFound
    from hasten.practices.app.watched.analysis import ProgramAnalysis
    from hasten.practices.app.watched.recording import Process

    Event = dict[str, Any]

_MOST_CALLS: Final = 200_000
"""LiteRT's calls of each process; of a longer program the first ones."""
_MOST_EVENTS: Final = 1_000_000
"""Events of a trace; of a longer one the first ones."""
_MOST_RUNS_WITH_OPERATORS: Final = 2_000
_NAMES: Final = {
    rows.LOAD: "load model",
    rows.ALLOCATE: "allocate tensors",
    rows.RESIZE: "resize input",
    rows.SET: "copy in",
    rows.INVOKE: "inference",
    rows.SIGNATURE: "inference with copies",
    rows.GET: "copy out",
    rows.BUFFER: "create buffers",
    rows.FREE: "free model",
}
_STATES: Final = {RUNNING: "running", RUNNABLE: "ready, no core", WAITING: "waiting"}
_LONGEST_SAMPLE_NS: Final = 50_000_000
_CODE_LANE: Final = 1_000_000
"""Added to a thread's number for the row that shows its own code: samples may overlap the edges of calls."""
_SCHEDULER_LANE: Final = 1 << 32
"""Added to a thread's number for the row that shows what the scheduler did with it."""
_GAP: Final = 1.5
"""Samples further apart than this many of their weights do not belong to one call."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """A row of the timeline, and the time that it counts from."""

    pid: int
    number: int
    origin_ns: int

    def named(self, name: str) -> Event:
        """What the row is called."""
        return _named("thread_name", self.pid, self.number, name)

    def event(self, name: str, category: str, times_ns: tuple[float, float], args: dict[str, Any]) -> Event:
        """Something on it, from its begin to its end."""
        begin_ns, end_ns = times_ns
        return {
            "name": name,
            "cat": category,
            "ph": "X",
            "ts": (begin_ns - self.origin_ns) / 1e3,
            "dur": (end_ns - begin_ns) / 1e3,
            "pid": self.pid,
            "tid": self.number,
            "args": args,
        }


def _named(kind: str, pid: int, number: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": number, "name": kind, "args": {"name": name}}


def _document(events: list[Event], **other: Any) -> str:
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": other})


def program_timeline(study: ProgramAnalysis, found: WatchedFound) -> str:
    """The timeline of a watched program: calls, its own code, operators and faults, of all threads and processes."""
    events: list[Event] = []
    for process in study.processes:
        events += _process_events(process, found, study.ended.began_ns)
    for fault in found.findings:
        name = f"{fault.rule} ({Path(fault.file).name}:{fault.line})"
        args = {**to_data(fault, BOOK), "fix": BOOK.hint(fault.evidence)}
        place = {"s": "g", "ts": 0, "pid": study.processes[0].pid, "tid": 0}
        events.append({"name": name, "ph": "i", **place, "args": args})
    return _document(events, command=list(found.command), wall_ms=found.wall_ms)


def _process_events(process: Process, found: WatchedFound, origin_ns: int) -> Iterator[Event]:
    threads = sorted({*process.samples.thread.tolist(), *process.events.thread.tolist()})
    program = f"{Path(found.command[0]).name} {process.pid}" if found.command else ""
    yield _named("process_name", process.pid, 0, program)
    lanes = {thread: _Lane(process.pid, number, origin_ns) for number, thread in enumerate(threads, 1)}
    for thread, lane in lanes.items():
        code = _Lane(process.pid, lane.number + _CODE_LANE, origin_ns)
        yield lane.named(f"{process.thread_name(thread)}: LiteRT")
        yield code.named(f"{process.thread_name(thread)}: the program's code, sampled")
        yield from _code_events(process, thread, code)
    yield from _call_events(process, found, lanes)


def _call_events(process: Process, found: WatchedFound, lanes: dict[int, _Lane]) -> Iterator[Event]:
    events = process.events
    operators = {use.path: use.operators for use in found.models if use.operators}
    drawn = 0
    for index in range(min(len(events), _MOST_CALLS)):
        kind, lane = int(events.kind[index]), lanes[int(events.thread[index])]
        start, end = int(events.start[index]), int(events.end[index])
        file, function, line = own_frame(process.chain(int(events.place[index])))
        model = process.objects.get(int(events.number[index]), {}).get("model", "")
        args = {"at": f"{file}:{line}", "function": function, "model": model}
        yield lane.event(_NAMES.get(kind, "LiteRT"), "litert", (start, end), args)
        if kind in (rows.INVOKE, rows.SIGNATURE) and drawn < _MOST_RUNS_WITH_OPERATORS:
            drawn += 1
            at: float = start
            for entry in operators.get(model, ()):
                note = {"count": entry.count, "share": entry.share, "note": "from a profile made after the program"}
                until = at + (end - start) * entry.share
                yield lane.event(entry.op, "operators", (at, until), note)
                at = until


def _code_events(process: Process, thread: int, lane: _Lane) -> Iterator[Event]:
    """Neighboring samples in the same function become one slice."""
    samples = process.samples.of_thread(thread)
    open_at, open_key, last = 0, None, 0
    for stack, at in zip(samples.stack.tolist(), samples.at.tolist(), strict=True):
        file, function, _ = own_frame(process.stacks.get(stack, []))
        if (file, function) != open_key or at - last > _LONGEST_SAMPLE_NS:
            if open_key is not None:
                until = min(at, last + _LONGEST_SAMPLE_NS)
                yield lane.event(open_key[1], "code", (open_at, until), {"file": open_key[0]})
            open_at, open_key = at, (file, function)
        last = at
    if open_key is not None and last > open_at:
        yield lane.event(open_key[1], "code", (open_at, last), {"file": open_key[0]})


def trace_timeline(trace: PlatformTrace, pid: int | None = None) -> str:
    """The timeline of a trace, or of one process of it: sections, stacks and the scheduler."""
    events: list[Event] = [
        _named("process_name", number, 0, name) for number, name in trace.processes.items() if pid in (None, number)
    ]
    left_out = 0
    threads = [thread for thread in trace.threads if pid is None or thread.pid == pid]
    for place, thread in enumerate(threads):
        number = thread.tid if thread.tid > 0 else 2 * _SCHEDULER_LANE + place
        for event in _thread_events(trace, thread, _Lane(thread.pid, number, trace.begin_ns)):
            if len(events) < _MOST_EVENTS:
                events.append(event)
            else:
                left_out += 1
    return _document(events, source=trace.source.path, format=trace.source.title, left_out=left_out)


def _thread_events(trace: PlatformTrace, thread: ThreadTrace, lane: _Lane) -> Iterator[Event]:
    if not len(thread.slices) and not len(thread.samples):
        return
    yield lane.named(thread.name or f"thread {thread.tid}")
    for piece in trace.slices(thread):
        args = dict(piece.args)
        yield lane.event(piece.name, args.pop("cat", "section"), (piece.begin_ns, piece.end_ns), args)
    yield from _stack_events(trace, thread, lane)
    states = thread.states
    if len(states):
        scheduler = _Lane(lane.pid, lane.number + _SCHEDULER_LANE, lane.origin_ns)
        yield scheduler.named(f"{thread.name or thread.tid}: scheduler")
        for begin, end, state in zip(
            states.begin_ns.tolist(), states.end_ns.tolist(), states.state.tolist(), strict=True
        ):
            yield scheduler.event(_STATES[state], "scheduler", (begin, end), {})


def _stack_events(trace: PlatformTrace, thread: ThreadTrace, lane: _Lane) -> Iterator[Event]:
    """Samples as calls: a function that stays on the stack from one sample to the next goes on."""
    opened: list[tuple[int, int]] = []
    end_ns = 0

    def closed(keep: int) -> Iterator[Event]:
        while len(opened) > keep:
            position, begin_ns = opened.pop()
            frame = trace.frames[position]
            known = {"file": frame.file, "line": frame.line, "module": frame.module}
            args = {key: value for key, value in known.items() if value}
            yield lane.event(frame.function, "sample", (begin_ns, max(begin_ns, end_ns)), args)

    samples = thread.samples
    for time_ns, weight_ns, stack in zip(
        samples.time_ns.tolist(), samples.weight_ns.tolist(), samples.stack.tolist(), strict=True
    ):
        frames = trace.stacks[stack]
        same = 0
        if time_ns - end_ns <= _GAP * weight_ns:
            while same < min(len(opened), len(frames)) and opened[same][0] == frames[same]:
                same += 1
        yield from closed(same)
        opened.extend((frame, time_ns) for frame in frames[same:])
        end_ns = time_ns + weight_ns
    yield from closed(0)
