"""The split of a thread's time: calls of LiteRT are known exactly, and samples divide the gaps between them.

A gap without a sample is divided like the sampled gaps between the same two places. Time in which the
thread used no CPU is waiting, whatever its line.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.practices.app.facts import CodeTime, Split, ThreadSplit
from hasten.practices.app.rules import FOREIGN_PATHS
from hasten.practices.app.watched.recording import RUNS
from hasten.watcher import rows

if TYPE_CHECKING:
    from hasten.practices.app.watched.recording import Chain, Process, StackSamples

_PART_OF_EVENT: Final = {
    rows.LOAD: "load",
    rows.ALLOCATE: "load",
    rows.RESIZE: "load",
    rows.BUFFER: "load",
    rows.FREE: "load",
    rows.SET: "copy_in",
    rows.INVOKE: "inference",
    rows.SIGNATURE: "inference",
    rows.GET: "copy_out",
}
_BEFORE_RUN: Final = (rows.SET, rows.ALLOCATE, rows.RESIZE, rows.LOAD, rows.BUFFER)
Key = tuple[str, str, str, int]
"""Part, file, function, line."""
_BUSY: Final = 0.75
"""A line that spends at least this share of its time on a CPU is not waiting."""
_FOREIGN: Final = (*FOREIGN_PATHS, "/hasten/watcher/")


@dataclass
class Gap:
    """Time of a thread between two calls of LiteRT, which are given as indices of events; -1 at the ends."""

    start: int
    end: int
    before: int
    after: int

    @property
    def ms(self) -> float:
        """How long."""
        return max(0, self.end - self.start) / 1e6


@dataclass
class Gaps:
    """All gaps of a thread, as columns."""

    start: Any
    end: Any
    before: Any
    after: Any

    def gap(self, index: int) -> Gap:
        """One of them."""
        return Gap(int(self.start[index]), int(self.end[index]), int(self.before[index]), int(self.after[index]))


@dataclass
class ThreadTimes:
    """A thread's time by part and by line."""

    split: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    code: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0]))
    """The program's own code: ms and samples."""
    before_run: dict[int, dict[Key, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Pre-processing alone, by the place of the run that it is for."""

    def add(self, key: Key, ms: float, samples: int, run: int) -> None:
        """Count time to a part and line, before the run at a place."""
        self.split[key[0]] += ms
        entry = self.code[key]
        entry[0] += ms
        entry[1] += samples
        if key[0] == "pre":
            self.before_run[run][key] += ms


def split_thread(process: Process, thread: int, start: int, end: int) -> ThreadTimes:
    """Divide a thread's time from start to end."""
    found = ThreadTimes()
    events = process.events
    own = np.flatnonzero(events.thread == thread)
    for kind, part in _PART_OF_EVENT.items():
        mask = events.kind[own] == kind
        found.split[part] += float(events.ms[own][mask].sum())
    samples = process.samples.of_thread(thread)
    waiting = _waiting_shares(process, samples, own)
    gaps = _gaps(process, own, start, end)
    first, last = np.searchsorted(samples.at, gaps.start), np.searchsorted(samples.at, gaps.end)
    like: dict[tuple[int, int], dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    for index in np.flatnonzero(last > first).tolist():
        gap = gaps.gap(index)
        each = gap.ms / (last[index] - first[index])
        run = _next_run(process, own, gap)
        for number in samples.stack[first[index] : last[index]].tolist():
            for key, share in _keys(process, gap, process.stacks.get(number, []), waiting):
                found.add(key, each * share, 1, run)
                like[_between(process, gap)][key] += each * share
    # Time without samples is divided like the sampled time between the same places.
    for gap, ms in _unseen(process, gaps, first == last):
        known = like.get(_between(process, gap), {})
        total, run = sum(known.values()), _next_run(process, own, gap)
        for key, part_ms in known.items():
            found.add(key, ms * part_ms / total, 0, run)
        if not total:
            found.split[_part_unseen(process, gap)] += ms
    return found


def thread_split(process: Process, thread: int, times: ThreadTimes, wall_ms: float) -> ThreadSplit:
    """The split as the record that a report prints."""
    runs = int((process.events.is_run & (process.events.thread == thread)).sum())
    split = Split(**{f"{part}_ms": ms for part, ms in times.split.items()})
    return ThreadSplit(process.pid, process.thread_name(thread), wall_ms, split, runs)


def code_times(times: ThreadTimes, most: int) -> list[CodeTime]:
    """The program's own functions and lines that take most time."""
    rows_ = [CodeTime(*key, ms=ms, samples=int(count)) for key, (ms, count) in times.code.items()]
    return sorted(rows_, key=lambda row: -row.ms)[:most]


def is_foreign(file: str) -> bool:
    """Whether a file is Python's or a package's rather than the program's own."""
    return any(mark in file for mark in _FOREIGN) or not file


def own_frame(chain: Chain) -> list[Any]:
    """The innermost frame that is the program's own code; the innermost at all if none is."""
    return next((entry for entry in chain if not is_foreign(entry[0])), chain[0] if chain else ["", "", 0])


def _gaps(process: Process, own: Any, start: int, end: int) -> Gaps:
    events = process.events
    starts = np.concatenate([[start], np.maximum.accumulate(events.end[own])])
    ends = np.concatenate([events.start[own], [end]])
    before, after = np.concatenate([[-1], own]), np.concatenate([own, [-1]])
    mask = ends > starts
    return Gaps(starts[mask], ends[mask], before[mask], after[mask])


def _next_run(process: Process, own: Any, gap: Gap) -> int:
    """The place of the run that follows a gap; -1 if none does."""
    events = process.events
    following = own[np.searchsorted(own, gap.after) :] if gap.after >= 0 else own[:0]
    return next((int(events.place[index]) for index in following[:64] if events.kind[index] in RUNS), -1)


def _unseen(process: Process, gaps: Gaps, mask: Any) -> list[tuple[Gap, float]]:
    """Gaps without a sample, those between the same places together: one of them, and the time of all."""
    places = np.append(process.events.place, -1)
    pairs = np.stack([places[gaps.before[mask]], places[gaps.after[mask]]], axis=1)
    _, chosen, group = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    times = np.bincount(group.reshape(-1), (gaps.end - gaps.start)[mask] / 1e6, minlength=len(chosen))
    indices = np.flatnonzero(mask)[chosen]
    return [(gaps.gap(index), float(ms)) for index, ms in zip(indices.tolist(), times, strict=True)]


def _between(process: Process, gap: Gap) -> tuple[int, int]:
    """The places of the calls around a gap."""
    places = process.events.place
    return (-1 if gap.before < 0 else int(places[gap.before]), -1 if gap.after < 0 else int(places[gap.after]))


def _keys(process: Process, gap: Gap, stack: Chain, waiting: dict[tuple[Any, ...], float]) -> list[tuple[Key, float]]:
    """The part and line that a sample counts to; two of them where its line waits for a share of its time."""
    file, function, line = own_frame(stack)
    part = _part(process, gap, stack)
    share = waiting.get(_leaf(stack), 0.0) if part != "start" else 0.0
    found = []
    if share < 1:
        found.append(((part, file, function, line), 1 - share))
    if share > 0:
        found.append((("waiting", file, function, line), share))
    return found


def _part(process: Process, gap: Gap, stack: Chain) -> str:
    if any(entry[0].startswith("<frozen importlib") for entry in stack):
        return "start"
    if not stack:
        return "start" if gap.before < 0 else "other"
    return _part_of_gap(process, gap, stack)


def _part_of_gap(process: Process, gap: Gap, stack: Chain) -> str:
    """Between runs: after the one or before the other, by the lines of the function that leads to both."""
    kinds = process.events.kind
    if gap.before < 0 or gap.after < 0:
        return "other"
    if kinds[gap.after] == rows.GET:
        return "post"
    if kinds[gap.before] == rows.LOAD and kinds[gap.after] == rows.ALLOCATE:
        return "load"
    if gap.before < process.first_run and kinds[gap.before] != rows.SET:
        return "other"
    if kinds[gap.before] in _BEFORE_RUN:
        return "pre"
    to_next = _line_in_common(stack, process.chain(int(process.events.place[gap.after])))
    to_last = _line_in_common(stack, process.chain(int(process.events.place[gap.before])))
    if to_next is not None and to_next[0] <= to_next[1]:
        return "pre" if to_last is None or to_last[0] != to_last[1] or to_next[0] == to_next[1] else "post"
    return "post" if to_last is not None and to_last[0] >= to_last[1] else "pre"


def _line_in_common(stack: Chain, chain: Chain) -> tuple[int, int] | None:
    """The lines, in the innermost function that both have in common, where the sample was and where the call is."""
    lines = {(entry[0], entry[1]): entry[2] for entry in reversed(chain)}
    for file, function, line in stack:
        if (file, function) in lines:
            return line, lines[(file, function)]
    return None


def _part_unseen(process: Process, gap: Gap) -> str:
    if gap.before < 0:
        return "start" if gap.start <= process.began else "other"
    if gap.after < 0:
        return "other"
    kinds = process.events.kind
    if kinds[gap.after] == rows.GET:
        return "post"
    if kinds[gap.before] == rows.LOAD:
        return "load" if kinds[gap.after] == rows.ALLOCATE else "other"
    return "pre"


def _leaf(stack: Chain) -> tuple[Any, ...]:
    return tuple(stack[0]) if stack else ()


def _waiting_shares(process: Process, samples: StackSamples, own: Any) -> dict[tuple[Any, ...], float]:
    """By innermost line: the share of its time without CPU. Runs count as busy: their threads are LiteRT's own."""
    wall: dict[tuple[Any, ...], float] = defaultdict(float)
    busy: dict[tuple[Any, ...], float] = defaultdict(float)
    if len(samples.at) < 2:
        return {}
    inside = _event_ns_until(process, own, samples.at)
    for index in range(1, len(samples.at)):
        events_ns = inside[index] - inside[index - 1]
        gap_ns = samples.at[index] - samples.at[index - 1] - events_ns
        cpu_ns = samples.cpu[index] - samples.cpu[index - 1] - events_ns
        if gap_ns > 0 and samples.cpu[index - 1] >= 0 <= samples.cpu[index]:
            leaf = _leaf(process.stacks.get(int(samples.stack[index]), []))
            wall[leaf] += gap_ns
            busy[leaf] += min(max(cpu_ns, 0), gap_ns)
    return {leaf: 1 - busy[leaf] / wall[leaf] for leaf in wall if busy[leaf] < _BUSY * wall[leaf]}


def _event_ns_until(process: Process, own: Any, at: Any) -> Any:
    """For each time, the nanoseconds that LiteRT's calls of this thread have taken until then."""
    starts, ends = process.events.start[own], process.events.end[own]
    total = np.concatenate([[0], np.cumsum(ends - starts)])
    before = np.searchsorted(starts, at)
    last = np.maximum(before - 1, 0)
    over = np.where(before > 0, np.maximum(0, ends[last] - at), 0) if len(own) else np.zeros(len(at))
    return total[before] - over
