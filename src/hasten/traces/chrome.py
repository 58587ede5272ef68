"""Chrome's trace events as JSON: what chrome://tracing, Perfetto's converter, TensorFlow and `hasten trace` write."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import DAMAGED, TRUNCATED
from hasten.traces.json_stream import CutOff, array_elements

if TYPE_CHECKING:
    from hasten.traces.builder import ThreadRows, TraceBuilder
    from hasten.traces.content import Content

EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY: Final = re.compile(rb"[\s\xef\xbb\xbf]*\[")


def read_chrome(content: Content, builder: TraceBuilder) -> None:
    """All events, one by one; what the array is not followed by does not matter."""
    begins = _ARRAY.match(content.data) or EVENTS.search(content.data)
    if begins is None:
        builder.doubt(DAMAGED, "no_events")
        return
    opened: dict[tuple[Any, ...], tuple[float, str]] = {}
    strange = 0
    try:
        for event in array_elements(content, begins.end()):
            strange += not (isinstance(event, dict) and _add(builder, event, opened))
    except CutOff as error:
        builder.doubt(TRUNCATED, error.cause)
    if strange:
        builder.doubt(DAMAGED, "events", count=strange)


def _add(builder: TraceBuilder, event: dict[str, Any], opened: dict[tuple[Any, ...], tuple[float, str]]) -> bool:
    """Add one event; whether it made sense."""
    phase, pid, tid = event.get("ph"), event.get("pid", 0), event.get("tid", 0)
    if not isinstance(phase, str) or isinstance(pid, list | dict) or isinstance(tid, list | dict):
        return False
    rows = builder.thread((pid, tid), pid=_number(pid), tid=_number(tid), name=tid if isinstance(tid, str) else "")
    if phase == "M":
        _add_name(builder, rows, event)
        return True
    if phase not in "BEXbe":
        return True
    time_us, name = _time(event.get("ts")), str(event.get("name", ""))
    if time_us is None:
        return False
    if phase == "B":
        builder.begin(rows, round(time_us * 1e3), name, _arguments(event))
    elif phase == "E":
        builder.end(rows, round(time_us * 1e3))
    elif phase == "X":
        duration_us = _time(event.get("dur", 0))
        if duration_us is None:
            return False
        builder.whole(rows, round(time_us * 1e3), max(0, round(duration_us * 1e3)), name, _arguments(event))
    else:
        _add_loose(builder, event, opened, time_us)
    return True


def _add_loose(
    builder: TraceBuilder, event: dict[str, Any], opened: dict[tuple[Any, ...], tuple[float, str]], time_us: float
) -> None:
    """Asynchronous events, paired by their id."""
    pid, name = _number(event.get("pid", 0)), str(event.get("name", ""))
    key = (pid, str(event.get("cat")), str(event.get("id")), name)
    if event["ph"] == "b":
        opened[key] = (time_us, name)
    elif key in opened:
        begin_us, name = opened.pop(key)
        rows = builder.thread(("async", pid, name), pid=pid, name=f"async: {name}")
        builder.whole(rows, round(begin_us * 1e3), max(0, round((time_us - begin_us) * 1e3)), name)


def _add_name(builder: TraceBuilder, rows: ThreadRows, event: dict[str, Any]) -> None:
    args = event.get("args")
    name = str(args.get("name", "")) if isinstance(args, dict) else ""
    if event.get("name") == "process_name":
        builder.processes[rows.pid] = name
    elif event.get("name") == "thread_name":
        rows.name = name


def _arguments(event: dict[str, Any]) -> dict[str, Any] | None:
    args, category = event.get("args"), event.get("cat")
    if isinstance(args, dict) and args:
        return {**args, "cat": category} if isinstance(category, str) and category else args
    return _only_category(category) if isinstance(category, str) and category else None


@lru_cache(maxsize=1024)
def _only_category(category: str) -> dict[str, Any]:
    """One and the same for millions of events."""
    return {"cat": category}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _time(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e15 else None
