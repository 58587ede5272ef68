"""The kernel's own events in a Perfetto trace: marks that applications write, switches, wake-ups, names of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.platform_trace import LOST_EVENTS
from hasten.traces.wire import bytes_tag, fields, number_tag, packed, signed, text

if TYPE_CHECKING:
    from hasten.traces.builder import TraceBuilder
    from hasten.traces.marks import Marks

# Field numbers of FtraceEventBundle, FtraceEvent and their parts, from Perfetto's own definitions.
_EVENT, _LOST, _COMPACT = bytes_tag(2), number_tag(3), bytes_tag(4)
_TIME, _TID = number_tag(1), number_tag(2)
_PRINT, _SWITCH, _WAKEUP, _WAKING, _WAKEUP_NEW = (bytes_tag(field) for field in (3, 4, 17, 20, 114))
_BUF: Final = bytes_tag(2)
_PREV_COMM, _PREV_TID, _PREV_STATE = bytes_tag(1), number_tag(2), number_tag(4)
_NEXT_COMM, _NEXT_TID = bytes_tag(5), number_tag(6)
_WOKEN_TID: Final = number_tag(2)
_COMPACT_SWITCH: Final = {bytes_tag(1): "time", bytes_tag(2): "state", bytes_tag(3): "tid", bytes_tag(6): "comm"}
_COMPACT_WAKE: Final = {bytes_tag(7): "time", bytes_tag(8): "tid"}
_COMPACT_NAMES, _CPU = bytes_tag(5), number_tag(1)
# TASK_REPORT and the idle state; a higher bit marks a thread that was taken off its core while it could run.
_SLEEPING_BITS: Final = 0xFF


class KernelEvents:
    """Takes the bundles of all cores."""

    def __init__(self, builder: TraceBuilder, marks: Marks) -> None:
        self._builder = builder
        self._marks = marks
        self._last_tid: dict[int, int] = {}
        """By core, which thread the last compact switch put on it: the next one does not say what it takes off."""

    def add_bundle(self, data: bytes) -> None:
        """One bundle, from one core."""
        core = 0
        for tag, value in fields(data):
            if tag == _EVENT:
                self._add_event(core, value)
            elif tag == _COMPACT:
                self._add_compact(core, value)
            elif tag == _CPU:
                core = value
            elif tag == _LOST and value:
                self._builder.doubt(LOST_EVENTS, "kernel_buffer")

    def _add_event(self, core: int, data: bytes) -> None:
        time_ns = tid = 0
        for tag, value in fields(data):
            if tag == _TIME:
                time_ns = value
            elif tag == _TID:
                tid = value
            elif tag == _SWITCH:
                self._add_switch(core, time_ns, value)
            elif tag == _PRINT:
                self._add_print(time_ns, tid, value)
            elif tag in (_WAKING, _WAKEUP, _WAKEUP_NEW):
                self._add_wake(time_ns, value)

    def _add_switch(self, core: int, time_ns: int, data: bytes) -> None:
        if not self._builder.takes_event():
            return
        found = dict(fields(data))
        from_tid, to_tid = found.get(_PREV_TID, 0), found.get(_NEXT_TID, 0)
        runnable = not found.get(_PREV_STATE, 0) & _SLEEPING_BITS
        self._builder.scheduling.switch(time_ns, from_tid, to_tid, runnable=runnable, core=core)
        self._name(from_tid, found.get(_PREV_COMM, b""))
        self._name(to_tid, found.get(_NEXT_COMM, b""))

    def _add_print(self, time_ns: int, tid: int, data: bytes) -> None:
        for tag, value in fields(data):
            if tag == _BUF:
                rows = self._builder.rows.get(tid) or self._builder.thread(tid, tid=tid)
                self._marks.add(rows, time_ns, text(value).rstrip("\n\0"))

    def _add_wake(self, time_ns: int, data: bytes) -> None:
        for tag, value in fields(data):
            if tag == _WOKEN_TID and self._builder.takes_event():
                self._builder.scheduling.wake(time_ns, value)

    def _add_compact(self, core: int, data: bytes) -> None:
        """Switches and wake-ups as columns, with times as differences."""
        switches: dict[str, list[int]] = {}
        wakes: dict[str, list[int]] = {}
        names: list[bytes] = []
        for tag, value in fields(data):
            if tag == _COMPACT_NAMES:
                names.append(value)
            elif tag in _COMPACT_SWITCH:
                switches[_COMPACT_SWITCH[tag]] = packed(value)
            elif tag in _COMPACT_WAKE:
                wakes[_COMPACT_WAKE[tag]] = packed(value)
        time_ns = 0
        columns = zip(*(switches.get(name, ()) for name in ("time", "state", "tid", "comm")), strict=False)
        for difference, state, tid, comm in columns:
            time_ns += difference
            if self._builder.takes_event():
                runnable = not signed(state) & _SLEEPING_BITS
                self._builder.scheduling.switch(time_ns, self._last_tid.get(core, 0), tid, runnable=runnable, core=core)
            self._last_tid[core] = tid
            if comm < len(names):
                self._name(tid, names[comm])
        time_ns = 0
        for difference, tid in zip(wakes.get("time", ()), wakes.get("tid", ()), strict=False):
            time_ns += difference
            if self._builder.takes_event():
                self._builder.scheduling.wake(time_ns, tid)

    def _name(self, tid: int, name: bytes) -> None:
        if tid and name and tid not in self._builder.rows:
            self._builder.thread(tid, tid=tid, name=text(name))
