"""What the kernel's scheduler did, from its switches and wake-ups: when a thread ran, waited for a core, or slept."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from hasten.core.platform_trace import RUNNABLE, RUNNING, WAITING, StateColumns

_WOKEN: Final = 3
_LATEST: Final = 1 << 60
_LARGEST_TID: Final = 1 << 31


class Scheduling:
    """Switches and wake-ups in any order, as each core writes its own."""

    def __init__(self) -> None:
        self._tid = array("q")
        self._time_ns = array("q")
        self._event = array("b")

    def switch(self, time_ns: int, from_tid: int, to_tid: int, *, runnable: bool) -> None:
        """A core goes from one thread to another; the first is still runnable, or waits for something."""
        if 0 <= time_ns < _LATEST:
            self._add(from_tid, time_ns, RUNNABLE if runnable else WAITING)
            self._add(to_tid, time_ns, RUNNING)

    def wake(self, time_ns: int, tid: int) -> None:
        """What a thread waited for has come."""
        if 0 <= time_ns < _LATEST:
            self._add(tid, time_ns, _WOKEN)

    def last_ns(self) -> int:
        """The last event's time."""
        return max(self._time_ns, default=0)

    def by_thread(self) -> dict[int, StateColumns]:
        """Intervals by thread: from each event to the thread's next one."""
        if not self._tid:
            return {}
        tids, times = np.array(self._tid, np.int64), np.array(self._time_ns, np.int64)
        events = np.array(self._event, np.int64)
        order = np.lexsort((times, tids))
        tids, times, events = tids[order], times[order], events[order]
        same = tids[1:] == tids[:-1]
        # A thread can be woken that runs or is runnable already; only what wakes a sleeper begins anything.
        idle = np.ones(len(events), bool)
        idle[1:] = (events[1:] != _WOKEN) | (same & (events[:-1] == WAITING)) | ~same
        tids, times, events = tids[idle], times[idle], np.where(events[idle] == _WOKEN, RUNNABLE, events[idle])
        found: dict[int, StateColumns] = {}
        edges = np.flatnonzero(np.diff(tids)) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(tids)], strict=True):
            if last - first > 1:
                begins = times[first:last]
                found[int(tids[first])] = StateColumns(begins[:-1], begins[1:], events[first : last - 1])
        return found

    def _add(self, tid: int, time_ns: int, event: int) -> None:
        if 0 < tid < _LARGEST_TID:  # 0 is the idle thread of every core
            self._tid.append(tid)
            self._time_ns.append(time_ns)
            self._event.append(event)
