"""What the kernel's scheduler did, from its switches and wake-ups: when a thread ran, waited for a core, or slept."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.platform_trace import RUNNABLE, RUNNING, WAITING, StateColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WOKEN: Final = 3
_LATEST: Final = 1 << 60
_NO_CORE: Final = -1
_MOST_CORES: Final = 4096
_LARGEST_TID: Final = 1 << 31


class Scheduling:
    """Switches and wake-ups in any order, as each core writes its own."""

    def __init__(self) -> None:
        self._tid = array("q")
        self._time_ns = array("q")
        self._event = array("b")
        self._core = array("h")

    def switch(self, time_ns: int, from_tid: int, to_tid: int, *, runnable: bool, core: int) -> None:
        """A core goes from one thread to another; the first is still runnable, or waits for something."""
        if 0 <= time_ns < _LATEST:
            core = core if 0 <= core < _MOST_CORES else _MOST_CORES
            self._add(from_tid, time_ns, RUNNABLE if runnable else WAITING, core)
            self._add(to_tid, time_ns, RUNNING, core)

    def wake(self, time_ns: int, tid: int) -> None:
        """What a thread waited for has come."""
        if 0 <= time_ns < _LATEST:
            self._add(tid, time_ns, _WOKEN, _NO_CORE)

    def last_ns(self) -> int:
        """The last event's time."""
        return max(self._time_ns, default=0)

    def by_thread(self) -> dict[int, StateColumns]:
        """Intervals by thread: from each event to the thread's next one."""
        if not self._tid:
            return {}
        tids, times = np.array(self._tid, np.int64), np.array(self._time_ns, np.int64)
        events, leaves = np.array(self._event, np.int64), self._leaves(times)
        order = np.lexsort((times, tids))
        tids, times, events, leaves = tids[order], times[order], events[order], leaves[order]
        same = tids[1:] == tids[:-1]
        # A thread can be woken that runs or is runnable already; only what wakes a sleeper begins anything.
        idle = np.ones(len(events), bool)
        idle[1:] = (events[1:] != _WOKEN) | (same & (events[:-1] == WAITING)) | ~same
        tids, times, leaves = tids[idle], times[idle], leaves[idle]
        events = np.where(events[idle] == _WOKEN, RUNNABLE, events[idle])
        found: dict[int, StateColumns] = {}
        edges = np.flatnonzero(np.diff(tids)) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(tids)], strict=True):
            if last - first > 1 and tids[first]:  # 0 is the idle thread of every core
                begins, kinds = times[first : last - 1], events[first : last - 1]
                ends = np.where(
                    kinds == RUNNING,
                    np.minimum(times[first + 1 : last], leaves[first : last - 1]),
                    times[first + 1 : last],
                )
                found[int(tids[first])] = StateColumns(begins, ends, kinds)
        return found

    def _leaves(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the next switch on the same core is, by event: nothing runs longer, even if its own switch was lost."""
        cores = np.array(self._core, np.int64)
        found = np.full(len(times), _LATEST, np.int64)
        order = np.lexsort((times, cores))
        ordered = cores[order]
        for core in np.unique(ordered).tolist():
            if core != _NO_CORE:
                # Both halves of a switch have one time: the next switch is at the next later one.
                mine = order[ordered == core]
                stamps = times[mine]
                next_at = np.searchsorted(stamps, stamps, "right")
                found[mine] = np.where(next_at < len(stamps), stamps[np.minimum(next_at, len(stamps) - 1)], _LATEST)
        return found

    def _add(self, tid: int, time_ns: int, event: int, core: int) -> None:
        if 0 <= tid < _LARGEST_TID:
            self._tid.append(tid)
            self._time_ns.append(time_ns)
            self._event.append(event)
            self._core.append(core)
