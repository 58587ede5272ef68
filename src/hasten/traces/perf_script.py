"""What Linux's `perf script` prints: samples with their stacks, each with functions and the libraries they are in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hasten.core.platform_trace import DAMAGED, LOST_EVENTS, Frame

if TYPE_CHECKING:
    from hasten.traces.builder import TraceBuilder
    from hasten.traces.content import Content

# "python  1234/1235 [001]  100.123456:   250000 cpu-clock:pppH: ": process, core and period may be missing.
HEAD: Final = re.compile(
    r"^(?P<comm>\S.{0,64}?)\s+(?:(?P<pid>\d{1,9})/)?(?P<tid>\d{1,9})\s+(?:\[(?P<core>\d{1,4})\]\s+)?"
    r"(?P<seconds>\d{1,12})\.(?P<digits>\d{3,9}):\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>[\w:./-]{1,120}?):"
    r"(?:[A-Za-z]*:)?(?=\s|$)\s*(?P<rest>.*)$"
)
# "    7f00 xnn_f32_gemm+0x10 (/usr/lib/libLiteRt.so)"; the offset and the library may be missing.
FRAME: Final = re.compile(r"^\s+[0-9a-f]{1,16}\s+(?P<function>.+?)(?:\s+\((?P<module>[^()]*)\))?\s*$")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_CLOCK_EVENTS: Final = ("cpu-clock", "task-clock")
_LOST: Final = re.compile(r"PERF_RECORD_LOST.*lost (\d+)|LOST (\d+) events", re.IGNORECASE)


def read_perf_script(content: Content, builder: TraceBuilder) -> None:
    """All samples; those of a clock know what they weigh, those of another event share the usual distance."""
    head: re.Match[str] | None = None
    stack: list[int] = []
    strange = lost = 0
    for line in content.lines():
        if (frame := FRAME.match(line)) is not None and head is not None:
            stack.append(_frame(builder, frame))
        elif (begins := HEAD.match(line)) is not None:
            _add(builder, head, stack)
            head, stack = begins, []
            if rest := begins["rest"]:  # without stacks the function stands in the same line; other events have notes
                only = FRAME.match(f" {rest}")
                head, stack = (begins, [_frame(builder, only)]) if only and only["module"] else (None, [])
        elif not line.strip():
            _add(builder, head, stack)
            head, stack = None, []
        elif (missing := _LOST.search(line)) is not None:
            lost += int(next(count for count in missing.groups() if count))
        elif not line.startswith("#"):
            strange += 1
    _add(builder, head, stack)
    builder.weigh_samples()
    if lost:
        builder.doubt(LOST_EVENTS, "perf", count=lost)
    if strange:
        builder.doubt(DAMAGED, "sample_lines", count=strange)


def _add(builder: TraceBuilder, head: re.Match[str] | None, stack: list[int]) -> None:
    if head is None:
        return
    tid = int(head["tid"])
    pid = int(head["pid"] or 0)
    rows = builder.thread(tid, pid=pid, tid=tid, name=head["comm"])
    if pid == tid and pid:
        builder.processes.setdefault(pid, head["comm"])
    time_ns = int(head["seconds"]) * 1_000_000_000 + int(head["digits"].ljust(9, "0"))
    counted_in_ns = head["event"].startswith(_CLOCK_EVENTS) and head["period"]
    builder.sample(rows, time_ns, int(head["period"]) if counted_in_ns else 0, builder.stack(tuple(reversed(stack))))


def _frame(builder: TraceBuilder, found: re.Match[str]) -> int:
    function = _OFFSET.sub("", found["function"].strip())
    module = found["module"] or ""
    return builder.frame(Frame(function, "" if module == "[unknown]" else module))
