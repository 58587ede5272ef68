"""What a platform tool recorded, in one form for all formats: threads with slices, samples and times off the core.

Columns are NumPy arrays, as a phone's trace holds millions of events. Times are nanoseconds on the trace's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import key, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.remark import Remark

    Times = Sequence[int] | NDArray[np.int64]

_SOME: Final = 1 << 16
RUNNING: Final = 0
RUNNABLE: Final = 1
"""Ready to run, and waits for a core."""
WAITING: Final = 2
"""Waits for something else than a core: a lock, a file, another thread, an accelerator."""


# Codes of doubts about what a trace shows.
TRUNCATED: Final = "truncated"
DAMAGED: Final = "damaged"
LOST_EVENTS: Final = "lost-events"
UNMATCHED: Final = "unmatched"
TOO_LARGE: Final = "too-large"
NO_TFLITE: Final = "no-tflite"
NO_OPERATORS: Final = "no-operators"
NO_SYMBOLS: Final = "no-symbols"
NO_ORDER: Final = "no-order"
FEW_SAMPLES: Final = "few-stack-samples"
STARTED_LATE: Final = "started-late"
LOSSES: Final = (TRUNCATED, DAMAGED, LOST_EVENTS, TOO_LARGE)
"""With one of these, the trace is not complete."""


@record
class TraceSource:
    """Where a trace comes from, and whether all of it could be read."""

    path: str
    kind: str
    """The format's short name, as --kind takes it."""
    title: str = key("format")
    """The format in words."""
    size_bytes: int = key("size")
    complete: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """One function on a stack, with what is known of where it stands."""

    function: str
    module: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time with a name, on one thread."""

    begin_ns: int
    duration_ns: int
    name: str
    depth: int
    args: Mapping[str, Any]

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.begin_ns + self.duration_ns


def _longs() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SliceColumns:
    """Slices of one thread, by begin; the outer one first where two begin together."""

    begin_ns: NDArray[np.int64] = field(default_factory=_longs)
    duration_ns: NDArray[np.int64] = field(default_factory=_longs)
    name: NDArray[np.int64] = field(default_factory=_longs)
    depth: NDArray[np.int64] = field(default_factory=_longs)
    args: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """By position, where a slice has any."""

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True, slots=True, eq=False)
class SampleColumns:
    """Samples of one thread in the order of the recording."""

    time_ns: NDArray[np.int64] = field(default_factory=_longs)
    weight_ns: NDArray[np.int64] = field(default_factory=_longs)
    stack: NDArray[np.int64] = field(default_factory=_longs)

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True, eq=False)
class StateColumns:
    """What the scheduler did with one thread: intervals by begin, without overlap."""

    begin_ns: NDArray[np.int64] = field(default_factory=_longs)
    end_ns: NDArray[np.int64] = field(default_factory=_longs)
    state: NDArray[np.int64] = field(default_factory=_longs)

    def __len__(self) -> int:
        return len(self.begin_ns)

    def within(self, begins_ns: Times, ends_ns: Times) -> NDArray[np.int64]:
        """Nanoseconds running, runnable and waiting between pairs of times: a row each."""
        if not len(self):
            return np.zeros((len(begins_ns), 3), np.int64)
        return self._until(np.array(ends_ns, np.int64)) - self._until(np.array(begins_ns, np.int64))

    def _until(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nanoseconds in each state from the first interval to these times."""
        lengths = self.end_ns - self.begin_ns
        at = np.searchsorted(self.begin_ns, times_ns, "right") - 1
        inside = np.clip(np.minimum(times_ns, self.end_ns[at]) - self.begin_ns[at], 0, None)
        found = np.zeros((len(times_ns), 3), np.int64)
        for state in (RUNNING, RUNNABLE, WAITING):
            before = np.concatenate(([0], np.cumsum(np.where(self.state == state, lengths, 0))))
            here = before[np.maximum(at, 0)] + np.where(self.state[at] == state, inside, 0)
            found[:, state] = np.where(at < 0, 0, here)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ThreadTrace:
    """All that a trace has on one thread."""

    pid: int
    tid: int
    name: str
    slices: SliceColumns = field(default_factory=SliceColumns)
    samples: SampleColumns = field(default_factory=SampleColumns)
    states: StateColumns = field(default_factory=StateColumns)

    @property
    def is_main(self) -> bool:
        """Whether the process began with this thread, which on a phone is the one that draws."""
        return (self.tid == self.pid and self.tid > 0) or self.name.lower().startswith("main thread")


@dataclass(frozen=True, slots=True, eq=False)
class PlatformTrace:
    """A whole trace."""

    source: TraceSource
    threads: tuple[ThreadTrace, ...]
    processes: Mapping[int, str]
    names: tuple[str, ...]
    """What the numbers in `SliceColumns.name` stand for."""
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()
    """Stacks as positions in `frames`, outermost first."""
    timed: bool = True
    """Whether samples have a time; without, only totals mean something."""
    doubts: tuple[Remark, ...] = ()

    @property
    def begin_ns(self) -> int:
        """When the first event was."""
        return min((first for first, _ in self._spans()), default=0)

    @property
    def end_ns(self) -> int:
        """When the last event ended."""
        return max((last for _, last in self._spans()), default=0)

    def slices(self, thread: ThreadTrace) -> Iterator[Slice]:
        """The slices of a thread, one by one."""
        columns, position = thread.slices, 0
        nothing: Mapping[str, Any] = {}
        # Numbers of Python take four times the room of those in a column, so only some of them exist at a time.
        for first in range(0, len(columns), _SOME):
            some = slice(first, first + _SOME)
            rows = (columns.begin_ns[some], columns.duration_ns[some], columns.name[some], columns.depth[some])
            for begin_ns, duration_ns, name, depth in zip(*(row.tolist() for row in rows), strict=True):
                yield Slice(begin_ns, duration_ns, self.names[name], depth, columns.args.get(position, nothing))
                position += 1

    def stack(self, number: int) -> tuple[Frame, ...]:
        """The frames of a stack, outermost first."""
        return tuple(self.frames[position] for position in self.stacks[number])

    def _spans(self) -> Iterator[tuple[int, int]]:
        for thread in self.threads:
            slices, samples, states = thread.slices, thread.samples, thread.states
            if len(slices):
                yield int(slices.begin_ns[0]), int((slices.begin_ns + slices.duration_ns).max())
            if len(samples):
                yield int(samples.time_ns.min()), int((samples.time_ns + samples.weight_ns).max())
            if len(states):
                yield int(states.begin_ns[0]), int(states.end_ns[-1])
