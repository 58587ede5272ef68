"""Profiled runs as a timeline in Chrome's trace format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.block import ProfiledRun
    from hasten.core.profile import OperatorTime, Profile
    from hasten.measure.profiling import RawProfile
    from hasten.targets.client import LoadReport

MOST_RUNS: Final = 50
_PROCESS: Final = 1
_ENGINE, _START = 1, 2


def trace_json(profile: Profile, raw: RawProfile) -> str:
    """The start-up and the first profiled runs, with every operator where and when it ran."""
    owners = {position: operator for operator in profile.operators for position in operator.events}
    events = [*_names(profile), *_start_events(raw.load)]
    origin = _begin_us(raw.runs[0])
    for number, run in enumerate(raw.runs[:MOST_RUNS]):
        events.extend(_run_events(number, run, owners, origin))
    other = {"model": profile.model.path, "sha256": profile.model.sha256, "plan": profile.plan.describe()}
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": other})


def _names(profile: Profile) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": f"hasten: {profile.model.path}"}}
    yield {"ph": "M", "pid": _PROCESS, "tid": _ENGINE, "name": "thread_name", "args": {"name": "engine"}}
    yield {"ph": "M", "pid": _PROCESS, "tid": _START, "name": "thread_name", "args": {"name": "start-up (own clock)"}}


def _start_events(load: LoadReport) -> Iterator[dict[str, Any]]:
    cursor = 0.0
    steps = {name.removesuffix("_ms"): ms for name, ms in load.load_times.items()}
    for name, ms in {**steps, "first run": load.first_run_ms}.items():
        yield _event(name, "start-up", cursor, ms * 1e3, _START, {})
        cursor += ms * 1e3


def _run_events(
    number: int, run: ProfiledRun, owners: dict[int, OperatorTime], origin: int
) -> Iterator[dict[str, Any]]:
    """One run. Kernels inside a delegate come without a start, so they are laid end to end after what came before.

    Bodies of loops and branches are subgraphs with an Invoke of their own; they lie inside their operator's event.
    """
    begin = float(_begin_us(run) - origin)
    cursors: dict[int, float] = {}
    for position, event in enumerate(run.events):
        start = float(event.start_us - origin) if event.start_us else cursors.get(event.subgraph, begin)
        if event.kind == "invoke":
            name = f"subgraph {event.subgraph}" if cursors else f"Invoke {number}"
            cursors[event.subgraph] = start
            yield _event(name, "run", start, event.elapsed_us, _ENGINE, {"run": number})
            continue
        operator = owners.get(position)
        name = operator.op if operator else event.tag
        yield _event(name, event.kind, start, event.elapsed_us, _ENGINE, _arguments(operator, event.tag))
        cursors[event.subgraph] = start + event.elapsed_us


def _begin_us(run: ProfiledRun) -> int:
    starts = [event.start_us for event in run.events if event.kind == "invoke"]
    return starts[0] if starts else min((event.start_us for event in run.events if event.start_us), default=0)


def _arguments(operator: OperatorTime | None, tag: str) -> dict[str, Any]:
    if operator is None:
        return {"tag": tag}
    return {
        "node": operator.index,
        "kernel": tag,
        "location": operator.location,
        "shapes": operator.shapes,
        "MACs": count(operator.macs),
        "mapped": operator.mapped,
        "fused": list(operator.fused),
    }


def _event(
    name: str, category: str, start: float, duration: float, thread: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start,
        "dur": duration,
        "pid": _PROCESS,
        "tid": thread,
        "args": arguments,
    }
