"""One timeline of an application: LiteRT's calls, the program's own code, operators, all threads and processes.

In Chrome's trace format, which Perfetto and chrome://tracing open. Calls of LiteRT stand where they happened; the
program's own code is drawn from samples, so its edges are as fine as these; operators are laid inside each run in
proportion to a profile made after the program's end, and say so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.practices.app.watched.split import own_frame
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.practices.app.facts import AppResult
    from hasten.practices.app.watched.recording import Process
    from hasten.practices.app.watched.study import AppStudy

MOST_EVENTS: Final = 200_000
"""LiteRT's calls in the timeline; of a longer program the first ones."""
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
_LONGEST_SAMPLE_NS: Final = 50_000_000
_CODE_THREAD: Final = 1_000_000
"""Added to a thread's number for the row that shows its own code: samples may overlap the edges of calls."""


def app_trace_json(study: AppStudy, found: AppResult) -> str:
    """The timeline as a JSON document."""
    origin = study.ended.began_ns
    events: list[dict[str, Any]] = []
    for process in study.processes:
        events += _process_events(process, found, origin)
    for fault in found.findings:
        name = f"{fault.rule} ({Path(fault.file).name}:{fault.line})"
        events.append(
            {
                "name": name,
                "ph": "i",
                "s": "g",
                "ts": 0,
                "pid": study.processes[0].pid,
                "tid": 0,
                "args": fault.as_data(),
            }
        )
    other = {"command": list(found.command), "wall_ms": found.wall_ms}
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": other})


def _process_events(process: Process, found: AppResult, origin: int) -> Iterator[dict[str, Any]]:
    threads = sorted({*process.samples.thread.tolist(), *process.events.thread.tolist()})
    yield _name(process.pid, 0, "process_name", f"{Path(found.command[0]).name} {process.pid}" if found.command else "")
    for number, thread in enumerate(threads, 1):
        name = process.thread_name(thread)
        yield _name(process.pid, number, "thread_name", f"{name}: LiteRT")
        yield _name(process.pid, number + _CODE_THREAD, "thread_name", f"{name}: the program's code, sampled")
        yield from _code_events(process, thread, number + _CODE_THREAD, origin)
    numbers = {thread: number for number, thread in enumerate(threads, 1)}
    yield from _call_events(process, found, numbers, origin)


def _call_events(process: Process, found: AppResult, numbers: dict[int, int], origin: int) -> Iterator[dict[str, Any]]:
    events = process.events
    operators = {use.path: use.operators for use in found.models if use.operators}
    drawn = 0
    for index in range(min(len(events), MOST_EVENTS)):
        kind, thread = int(events.kind[index]), numbers[int(events.thread[index])]
        start, ms = (int(events.start[index]) - origin) / 1e3, float(events.ms[index])
        file, function, line = own_frame(process.chain(int(events.place[index])))
        made = process.objects.get(int(events.number[index]), {})
        arguments = {"at": f"{file}:{line}", "function": function, "model": made.get("model", "")}
        yield _event(_NAMES.get(kind, "LiteRT"), "litert", start, ms * 1e3, process.pid, thread, arguments)
        if kind in (rows.INVOKE, rows.SIGNATURE) and drawn < _MOST_RUNS_WITH_OPERATORS:
            drawn += 1
            for op, count, share in operators.get(made.get("model", ""), ()):
                note = {"count": count, "share": share, "note": "from a profile made after the program's end"}
                yield _event(op, "operators", start, ms * 1e3 * share, process.pid, thread, note)
                start += ms * 1e3 * share


def _code_events(process: Process, thread: int, number: int, origin: int) -> Iterator[dict[str, Any]]:
    """Neighbouring samples in the same function become one slice."""
    samples = process.samples.of_thread(thread)
    open_at, open_key, last = 0, None, 0
    for stack_number, at in zip(samples.stack.tolist(), samples.at.tolist(), strict=True):
        stack = process.stacks.get(stack_number, [])
        file, function, _ = own_frame(stack)
        key = (file, function)
        if key != open_key or at - last > _LONGEST_SAMPLE_NS:
            if open_key is not None:
                yield _slice(process.pid, number, open_key, open_at, min(at, last + _LONGEST_SAMPLE_NS), origin)
            open_at, open_key = at, key
        last = at
    if open_key is not None and last > open_at:
        yield _slice(process.pid, number, open_key, open_at, last, origin)


def _slice(pid: int, thread: int, key: tuple[str, str], start: int, end: int, origin: int) -> dict[str, Any]:
    return _event(key[1], "code", (start - origin) / 1e3, (end - start) / 1e3, pid, thread, {"file": key[0]})


def _name(pid: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": thread, "name": kind, "args": {"name": name}}


def _event(
    name: str, category: str, start_us: float, us: float, pid: int, thread: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start_us,
        "dur": us,
        "pid": pid,
        "tid": thread,
        "args": arguments,
    }
