"""Events as readers meet them, in any order, put together into one trace: slices paired, threads scheduled."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.platform_trace import (
    DAMAGED,
    LOSSES,
    TOO_LARGE,
    TRUNCATED,
    UNMATCHED,
    Frame,
    PlatformTrace,
    SampleColumns,
    SliceColumns,
    StateColumns,
    ThreadTrace,
    TraceSource,
)
from hasten.core.remark import Remark
from hasten.traces.scheduling import Scheduling

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from hasten.traces.content import Content

MOST_EVENTS: Final = 12_000_000
_LATEST: Final = 1 << 60
_END: Final = -1
_SOME: Final = 1 << 16
# A thousand samples a second, where there are too few to tell their period.
_USUAL_PERIOD_NS: Final = 1_000_000


def _longs() -> array[int]:
    return array("q")


@dataclass(slots=True)
class ThreadRows:
    """What was met of one thread so far."""

    pid: int = 0
    tid: int = 0
    name: str = ""
    mark_ns: array[int] = field(default_factory=_longs)
    mark_name: array[int] = field(default_factory=_longs)
    """The name's number where something begins, -1 where it ends."""
    mark_args: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    whole_ns: array[int] = field(default_factory=_longs)
    whole_duration: array[int] = field(default_factory=_longs)
    whole_name: array[int] = field(default_factory=_longs)
    whole_args: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    sample_ns: array[int] = field(default_factory=_longs)
    sample_weight: array[int] = field(default_factory=_longs)
    sample_stack: array[int] = field(default_factory=_longs)


class TraceBuilder:
    """Takes events, gives a PlatformTrace. A time that no clock shows is dropped and counted, as all damage is."""

    def __init__(self) -> None:
        self.rows: dict[Hashable, ThreadRows] = {}
        self.processes: dict[int, str] = {}
        self.scheduling = Scheduling()
        self.timed = True
        self.room = MOST_EVENTS
        self._names: dict[str, int] = {}
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._doubts: dict[str, Remark] = {}
        self._odd_times = 0
        self._unopened = 0
        self._unclosed = 0

    def thread(self, key: Hashable, *, pid: int = 0, tid: int = 0, name: str = "") -> ThreadRows:
        """The thread of this key; what is newly known of it is added."""
        rows = self.rows.get(key)
        if rows is None:
            rows = self.rows[key] = ThreadRows(pid, tid, name)
            return rows
        rows.pid, rows.tid, rows.name = rows.pid or pid, rows.tid or tid, name or rows.name
        return rows

    def begin(self, rows: ThreadRows, time_ns: int, name: str, args: Mapping[str, Any] | None = None) -> None:
        """Something begins."""
        if self._takes(time_ns):
            if args:
                rows.mark_args[len(rows.mark_ns)] = args
            rows.mark_ns.append(time_ns)
            rows.mark_name.append(self._names.setdefault(name, len(self._names)))

    def end(self, rows: ThreadRows, time_ns: int) -> None:
        """What began last ends."""
        if self._takes(time_ns):
            rows.mark_ns.append(time_ns)
            rows.mark_name.append(_END)

    def whole(
        self, rows: ThreadRows, time_ns: int, duration_ns: int, name: str, args: Mapping[str, Any] | None = None
    ) -> None:
        """Something that is known from its begin to its end."""
        if self._takes(time_ns) and 0 <= duration_ns < _LATEST:
            if args:
                rows.whole_args[len(rows.whole_ns)] = args
            rows.whole_ns.append(time_ns)
            rows.whole_duration.append(duration_ns)
            rows.whole_name.append(self._names.setdefault(name, len(self._names)))

    def sample(self, rows: ThreadRows, time_ns: int, weight_ns: int, stack: int) -> None:
        """A thread was seen with this stack."""
        if self._takes(time_ns) and 0 <= weight_ns < _LATEST:
            rows.sample_ns.append(time_ns)
            rows.sample_weight.append(weight_ns)
            rows.sample_stack.append(stack)

    def frame(self, frame: Frame) -> int:
        """The number of a frame."""
        return self._frames.setdefault(frame, len(self._frames))

    def stack(self, frames: tuple[int, ...]) -> int:
        """The number of a stack, given outermost first."""
        return self._stacks.setdefault(frames, len(self._stacks))

    def weigh_samples(self) -> None:
        """Give samples without a weight the sampling period: the median distance of two samples of one thread."""
        gaps: list[int] = []
        for rows in self.rows.values():
            gaps.extend(np.diff(np.sort(np.array(rows.sample_ns, np.int64))).tolist())
        between = [gap for gap in gaps if gap > 0]
        period_ns = int(np.median(between)) if between else _USUAL_PERIOD_NS
        for rows in self.rows.values():
            rows.sample_weight = array("q", (weight or period_ns for weight in rows.sample_weight))

    def doubt(self, code: str, cause: str, **facts: Any) -> None:
        """Note what is wrong with the file; the first cause of each code is kept."""
        self._doubts.setdefault(code, Remark(code, {"cause": cause, **facts}))

    def finished(self, content: Content, kind: str, title: str) -> PlatformTrace:
        """The whole trace."""
        if content.cut:
            self.doubt(TRUNCATED, "gzip")
        last_ns = self._last_ns()
        states = self.scheduling.by_thread()
        for tid in states:
            self.thread(tid, tid=tid)
        threads = [
            self._thread(rows, states.get(rows.tid) if key == rows.tid else None, last_ns)
            for key, rows in self.rows.items()
        ]
        self._note_counts()
        complete = self._doubts.keys().isdisjoint(LOSSES)
        return PlatformTrace(
            source=TraceSource(str(content.path), kind, title, content.size, complete),
            threads=tuple(sorted(threads, key=lambda thread: (thread.pid, thread.tid))),
            processes=dict(self.processes),
            names=tuple(self._names),
            frames=tuple(self._frames),
            stacks=tuple(self._stacks),
            timed=self.timed,
            doubts=tuple(self._doubts.values()),
        )

    def takes_event(self) -> bool:
        """Whether there is room for one more; the end of it is noted."""
        self.room -= 1
        if self.room < 0:
            self.doubt(TOO_LARGE, "events", count=MOST_EVENTS)
            return False
        return True

    def _takes(self, time_ns: int) -> bool:
        if not -_LATEST < time_ns < _LATEST:
            self._odd_times += 1
            return False
        return self.takes_event()

    def _last_ns(self) -> int:
        last = self.scheduling.last_ns()
        for rows in self.rows.values():
            ends = (begin + length for begin, length in zip(rows.whole_ns, rows.whole_duration, strict=True))
            last = max(last, max(rows.mark_ns, default=last), max(ends, default=last))
        return last

    def _thread(self, rows: ThreadRows, states: StateColumns | None, last_ns: int) -> ThreadTrace:
        samples = SampleColumns(
            np.array(rows.sample_ns, np.int64),
            np.array(rows.sample_weight, np.int64),
            np.array(rows.sample_stack, np.int64),
        )
        return ThreadTrace(
            rows.pid, rows.tid, rows.name, self._slices(rows, last_ns), samples, states or StateColumns()
        )

    def _slices(self, rows: ThreadRows, last_ns: int) -> SliceColumns:
        """Marks paired and whole slices, ordered as they nest."""
        begins, durations, names = rows.whole_ns[:], rows.whole_duration[:], rows.whole_name[:]
        args = dict(rows.whole_args)
        times = np.array(rows.mark_ns, np.int64)
        in_order = bool((times[1:] >= times[:-1]).all())
        order = range(len(times)) if in_order else np.argsort(times, kind="stable").tolist()
        opened: list[int] = []
        for position in order:
            if rows.mark_name[position] != _END:
                opened.append(position)
                continue
            if not opened:
                self._unopened += 1
                continue
            self._close(rows, opened.pop(), rows.mark_ns[position], begins, durations, names, args)
        self._unclosed += len(opened)
        while opened:
            self._close(rows, opened.pop(), last_ns, begins, durations, names, args)
        return _ordered(begins, durations, names, args)

    @staticmethod
    def _close(
        rows: ThreadRows,
        mark: int,
        end_ns: int,
        begins: array[int],
        durations: array[int],
        names: array[int],
        args: dict[int, Mapping[str, Any]],
    ) -> None:
        if mark in rows.mark_args:
            args[len(begins)] = rows.mark_args[mark]
        begins.append(rows.mark_ns[mark])
        durations.append(max(0, end_ns - rows.mark_ns[mark]))
        names.append(rows.mark_name[mark])

    def _note_counts(self) -> None:
        if self._odd_times:
            self.doubt(DAMAGED, "times", count=self._odd_times)
        if self._unopened + self._unclosed:
            self.doubt(UNMATCHED, "sections", unopened=self._unopened, unclosed=self._unclosed)


def _ordered(
    begins: array[int], durations: array[int], names: array[int], args: dict[int, Mapping[str, Any]]
) -> SliceColumns:
    begin_ns, duration_ns = np.array(begins, np.int64), np.array(durations, np.int64)
    order = np.lexsort((-duration_ns, begin_ns))
    begin_ns, duration_ns = begin_ns[order], duration_ns[order]
    where = {int(old): new for new, old in enumerate(order)} if args else {}
    return SliceColumns(
        begin_ns,
        duration_ns,
        np.array(names, np.int64)[order],
        _depths(begin_ns, duration_ns),
        {where[position]: values for position, values in args.items()},
    )


def _depths(begin_ns: NDArray[np.int64], duration_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """In how many others each lies."""
    depths, ends = _longs(), []  # type: array[int], list[int]
    for first in range(0, len(begin_ns), _SOME):
        begins = begin_ns[first : first + _SOME]
        for begin, length in zip(begins.tolist(), duration_ns[first : first + _SOME].tolist(), strict=True):
            while ends and ends[-1] <= begin:
                ends.pop()
            depths.append(len(ends))
            ends.append(begin + length)
    return np.array(depths, np.int64)
