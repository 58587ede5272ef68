"""The kernel's trace as text (`atrace`, `trace-cmd report`), alone or inside systrace's HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hasten.core.platform_trace import DAMAGED, LOST_EVENTS, TRUNCATED
from hasten.traces.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.traces.builder import TraceBuilder
    from hasten.traces.content import Content

# "  name-123  ( 100) [002] d..3  1234.567890: sched_switch: …": the process may be missing or unknown (-----),
# and so may the four or five letters of flags.
LINE: Final = re.compile(
    r"^\s*(?P<comm>.{1,64}?)-(?P<tid>\d{1,9})\s+(?:\(\s*(?P<pid>\d{1,9}|-+)\)\s+)?\[(?P<core>\d{1,4})\]\s+"
    r"(?:[^\s\d:]\S{0,7}\s+|\S{4,5}\s+)?(?P<seconds>\d{1,12})\.(?P<digits>\d{3,9}):\s+(?P<event>[\w.]{1,64}):\s?(?P<rest>.*)$"
)
_SWITCH: Final = re.compile(
    r"prev_comm=.{0,64}? prev_pid=(?P<prev>\d{1,9}) prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=(?P<comm>.{0,64}?) next_pid=(?P<next>\d{1,9})"
)
_WOKEN: Final = re.compile(r"\bpid=(\d{1,9})\b")
_LOST: Final = re.compile(r"LOST \d+ EVENTS|CPU:?\d+ \[LOST", re.ASCII)
_MARKS: Final = frozenset({"tracing_mark_write", "print", "0"})
# Old pages hold the trace as a JavaScript string, line by line.
_DATA_BEGINS: Final = re.compile(r'<script[^>]*class="trace-data"[^>]*>|var linuxPerfData = "')


def read_atrace(content: Content, builder: TraceBuilder) -> None:
    """All lines that are events."""
    marks = Marks(builder)
    events = strange = 0
    last = ""
    for line in _trace_lines(content):
        if (found := LINE.match(line)) is not None:
            _add(builder, marks, found)
            events += 1
        elif line.strip() and not line.startswith(("#", "TRACE:", "CAPTURING", "capturing", "done")):
            if _LOST.search(line):
                builder.doubt(LOST_EVENTS, "kernel_buffer")
                continue
            strange, last = strange + 1, line
    marks.finish()
    if strange == 1 and last and content.data[-1:] != b"\n":
        builder.doubt(TRUNCATED, "line")
    elif strange:
        builder.doubt(DAMAGED, "lines", count=strange, total=strange + events)


def _add(builder: TraceBuilder, marks: Marks, found: re.Match[str]) -> None:
    tid = int(found["tid"])
    time_ns = int(found["seconds"]) * 1_000_000_000 + int(found["digits"].ljust(9, "0"))
    pid = int(found["pid"]) if (found["pid"] or "-")[0] != "-" else 0
    event, rest = found["event"], found["rest"]
    if event in _MARKS:
        rows = builder.thread(tid, pid=pid, tid=tid, name=_name(found["comm"]))
        marks.add(rows, time_ns, rest.removeprefix("tracing_mark_write: ").rstrip("\0"))
        return
    if event == "sched_switch" and (switch := _SWITCH.search(rest)) and builder.takes_event():
        runnable = switch["state"].startswith("R")
        before, core = int(switch["prev"]), int(found["core"])
        builder.scheduling.switch(time_ns, before, int(switch["next"]), runnable=runnable, core=core)
        if pid and tid:
            builder.thread(tid, pid=pid, tid=tid, name=_name(found["comm"]))
        if (after := int(switch["next"])) and after not in builder.rows:
            builder.thread(after, tid=after, name=_name(switch["comm"]))
    elif event in ("sched_waking", "sched_wakeup") and (woken := _WOKEN.search(rest)) and builder.takes_event():
        builder.scheduling.wake(time_ns, int(woken[1]))


def _name(comm: str) -> str:
    return "" if comm == "<...>" else comm.strip()


def _trace_lines(content: Content) -> Iterator[str]:
    """The trace's own lines; of a page only what stands in its blocks of trace data."""
    page = content.data[:4096].lstrip().lower()
    if not page.startswith((b"<!doctype", b"<html")):
        yield from content.lines()
        return
    inside = False
    for line in content.lines():
        begins = _DATA_BEGINS.search(line)
        if begins:
            inside, line = True, line[begins.end() :]
        if inside and "</script>" in line:
            inside, line = False, line.partition("</script>")[0]
            if line.strip():
                yield line
        elif inside and (line := line.removesuffix("\\").removesuffix("\\n")).strip(' ";\\n'):
            yield line
