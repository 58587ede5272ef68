"""A platform's trace as one timeline in Chrome's format, which Perfetto opens: sections, stacks and the scheduler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import RUNNABLE, RUNNING, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.platform_trace import PlatformTrace, ThreadTrace

MOST_EVENTS: Final = 1_000_000
_STATES: Final = {RUNNING: "running", RUNNABLE: "ready, no core", WAITING: "waiting"}
_SCHEDULER: Final = 1 << 32
"""Added to a thread's number for the track that shows what the scheduler did with it."""
_GAP: Final = 1.5
"""Samples further apart than this many of their weights do not belong to one call."""


def trace_events(trace: PlatformTrace, pid: int | None = None) -> str:
    """The whole trace, or one process of it; of a very long one the first million events."""
    threads = [thread for thread in trace.threads if pid is None or thread.pid == pid]
    origin_ns = trace.begin_ns
    events: list[dict[str, Any]] = [
        _named("process_name", number, 0, name) for number, name in trace.processes.items() if pid in (None, number)
    ]
    left_out = 0
    for number, thread in enumerate(threads):
        lane = thread.tid if thread.tid > 0 else 2 * _SCHEDULER + number
        for event in _thread_events(trace, thread, lane, origin_ns):
            if len(events) < MOST_EVENTS:
                events.append(event)
            else:
                left_out += 1
    other = {"source": trace.source.path, "format": trace.source.title, "left_out": left_out}
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": other})


def _thread_events(trace: PlatformTrace, thread: ThreadTrace, number: int, origin_ns: int) -> Iterator[dict[str, Any]]:
    if len(thread.slices) or len(thread.samples):
        yield _named("thread_name", thread.pid, number, thread.name or f"thread {thread.tid}")
    for piece in trace.slices(thread):
        times = (piece.begin_ns - origin_ns, piece.duration_ns)
        yield _event(thread.pid, number, piece.name, "section", times, dict(piece.args))
    yield from _stack_events(trace, thread, number, origin_ns)
    if len(thread.states) and (len(thread.slices) or len(thread.samples)):
        lane = number + _SCHEDULER
        yield _named("thread_name", thread.pid, lane, f"{thread.name or thread.tid}: scheduler")
        states = thread.states
        rows = zip(states.begin_ns.tolist(), states.end_ns.tolist(), states.state.tolist(), strict=True)
        for begin_ns, end_ns, state in rows:
            times = (begin_ns - origin_ns, end_ns - begin_ns)
            yield _event(thread.pid, lane, _STATES[state], "scheduler", times, {})


def _stack_events(trace: PlatformTrace, thread: ThreadTrace, number: int, origin_ns: int) -> Iterator[dict[str, Any]]:
    """Samples as calls: a function that stays on the stack from one sample to the next goes on."""
    opened: list[tuple[int, int]] = []
    end_ns = 0
    samples = thread.samples
    for time_ns, weight_ns, stack in zip(
        samples.time_ns.tolist(), samples.weight_ns.tolist(), samples.stack.tolist(), strict=True
    ):
        frames = trace.stacks[stack]
        same = 0
        if time_ns - end_ns <= _GAP * weight_ns:
            while same < min(len(opened), len(frames)) and opened[same][0] == frames[same]:
                same += 1
        yield from _closed(trace, thread, number, opened, same, end_ns, origin_ns)
        opened.extend((frame, time_ns) for frame in frames[same:])
        end_ns = time_ns + weight_ns
    yield from _closed(trace, thread, number, opened, 0, end_ns, origin_ns)


def _closed(
    trace: PlatformTrace,
    thread: ThreadTrace,
    number: int,
    opened: list[tuple[int, int]],
    keep: int,
    end_ns: int,
    origin_ns: int,
) -> Iterator[dict[str, Any]]:
    while len(opened) > keep:
        position, begin_ns = opened.pop()
        frame = trace.frames[position]
        place = {"file": frame.file, "line": frame.line, "module": frame.module}
        known = {key: value for key, value in place.items() if value}
        times = (begin_ns - origin_ns, max(0, end_ns - begin_ns))
        yield _event(thread.pid, number, frame.function, "sample", times, known)


def _event(
    pid: int, thread: int, name: str, category: str, times: tuple[int, int], args: dict[str, Any]
) -> dict[str, Any]:
    begin_ns, duration_ns = times
    return {
        "name": name,
        "cat": args.pop("cat", category),
        "ph": "X",
        "ts": begin_ns / 1e3,
        "dur": duration_ns / 1e3,
        "pid": pid,
        "tid": thread,
        "args": args,
    }


def _named(what: str, pid: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": thread, "args": {"name": name}}
