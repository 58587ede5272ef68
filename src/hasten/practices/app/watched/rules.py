"""The faults of a watched program: each with its place and its cost in this run.

A fault is named only if it costs enough of the wall time; what is odd but cheap is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.remark import remark
from hasten.practices.app.facts import (
    COLD,
    EVENT_LOOP,
    INPUT_CONVERTED,
    LOADED_AGAIN,
    OUTPUT_COPIED,
    OUTPUT_UNUSED,
    PREPROCESSING,
    RESIZED,
    Fault,
)
from hasten.practices.app.rules import (
    COLD_RATIO,
    DOMINATES_SHARE,
    EVERY_FRAME,
    FELT_MS,
    FEW_RUNS,
    fault_at,
    slowest_function,
    worth_naming,
)
from hasten.practices.app.watched.split import own_frame
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hasten.practices.app.watched.recording import Events, Process
    from hasten.practices.app.watched.split import ThreadTimes

_DISTURBED: Final = 3.0
"""A call that takes this many times the median was delayed by another program."""
_BEYOND_DISTURBED: Final = 1.5
# A first run that is late by less may just have waited for another program's turn on the core.
_LATE_MS: Final = 5.0
# Below this share of its wall time, others had so much of the cores that one late run may be theirs.
_BUSY: Final = 0.7
_NEARLY_ALWAYS: Final = 0.8
"""A sampler that looks at a frame can keep an output alive for an instant longer than the program does."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One process, and what its costs are a share of."""

    process: Process
    wall_ms: float
    steady_ms: Callable[[int], float | None]
    """The latency of an interpreter's model once it is warm, as far as it is known."""
    times: ThreadTimes
    """Of the thread that runs the model most."""
    quiet: float = 1.0
    """The share of the time in which other programs did not keep it from a core; costs exclude the rest."""

    def fault(self, rule: str, place: int, cost_ms: float, code: str, **facts: Any) -> Fault:
        """A fault at a place of the program."""
        file, function, line = own_frame(self.process.chain(place))
        return fault_at(rule, (file, function, line), cost_ms, self.wall_ms, remark(code, **facts))


def faults_of(subject: Subject) -> list[Fault]:
    """All faults of a process that are worth naming."""
    found = worth_naming(fault for rule in _RULES for fault in rule(subject))
    known = {(fault.file, fault.line) for fault in found if fault.rule != PREPROCESSING}
    return [fault for fault in found if fault.rule != PREPROCESSING or (fault.file, fault.line) not in known]


def _typical_ms(times: Any) -> float:
    """What these calls cost without disturbance: delays by other programs are not the program's fault."""
    if not len(times):
        return 0.0
    values = np.asarray(times)
    return float(values[values <= _DISTURBED * np.median(values)].mean()) * len(values)


def _loaded_again(subject: Subject) -> Iterator[Fault]:
    """The same model loaded anew after the earlier interpreter had done its last run."""
    process, events = subject.process, subject.process.events
    costs: dict[int, list[float]] = defaultdict(list)
    seen: dict[tuple[str, Any], int] = {}
    for index in np.flatnonzero(events.kind == rows.LOAD).tolist():
        number = int(events.number[index])
        made = process.objects.get(number, {})
        key = (made.get("key", ""), made.get("threads"))
        own = events.where(events.number == number)
        done = seen.get(key)
        seen[key] = max(done or 0, int(own.end[own.kind != rows.FREE].max()))
        if done is not None and done <= events.start[index] and made.get("key"):
            costs[int(events.place[index])].append(_loading_ms(subject, own))
    for place, times in costs.items():
        cost = _typical_ms(times)
        facts = {"loads": len(times), "each_ms": cost / len(times)}
        yield subject.fault(LOADED_AGAIN, place, cost, "app.loaded-again", **facts)


def _loading_ms(subject: Subject, own: Events) -> float:
    """Load, allocation, freeing, and what the first run takes longer than a warm one."""
    load = own.ms[np.isin(own.kind, (rows.LOAD, rows.ALLOCATE, rows.BUFFER, rows.FREE))].sum()
    runs = own.where(own.is_run)
    steady = subject.steady_ms(int(own.number[0]))
    extra = max(0.0, runs.ms[0] - steady) if len(runs) and steady is not None else 0.0
    return float(load + extra)


def _resized(subject: Subject) -> Iterator[Fault]:
    """Tensors resized or allocated again and again after the first run."""
    events = subject.process.events
    for number in np.unique(events.number).tolist():
        own = events.where(events.number == number)
        runs = own.where(own.is_run)
        if len(runs) < 3:
            continue
        later = own.where((own.start > runs.start[0]) & np.isin(own.kind, (rows.ALLOCATE, rows.RESIZE)))
        if len(later) < EVERY_FRAME * len(runs):
            continue
        resizes = later.where(later.kind == rows.RESIZE)
        blamed = resizes if len(resizes) else later
        place = _most_common(blamed.place)
        changes = int((resizes.flags & rows.CHANGED).sum())
        allocating = sum(_typical_ms(later.ms[later.kind == kind]) for kind in (rows.ALLOCATE, rows.RESIZE))
        cost = allocating + _shaken_ms(own, later)
        facts = {"calls": len(later), "runs": len(runs), "changes": changes}
        yield subject.fault(RESIZED, place, cost, "app.resized", **facts)


def _shaken_ms(own: Events, later: Events) -> float:
    """The extra time of runs right after an allocation, compared with the other runs."""
    runs = own.where(own.is_run)
    follow = np.searchsorted(runs.start, later.where(later.kind == rows.ALLOCATE).end)
    after = np.unique(follow[follow < len(runs)])
    others = np.setdiff1d(np.arange(1, len(runs)), after)
    if len(after) < 3 or len(others) < 3:
        return 0.0
    return max(0.0, float(np.median(runs.ms[after]) - np.median(runs.ms[others]))) * len(after)


def _input_made_fit(subject: Subject) -> Iterator[Fault]:
    """Inputs that LiteRT must convert or copy before it can copy them: lists, arrays with gaps."""
    events = subject.process.events
    notes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in subject.process.notes_of("input"):
        notes[note["place"]].append(note)
    for place, seen in notes.items():
        odd = events.where((events.place == place) & (events.kind == rows.SET) & (events.flags & rows.ODD > 0))
        fit_ms = median(note["fit_ns"] for note in seen) / 1e6
        cost = _typical_ms(np.maximum(odd.ms - fit_ms, 0.0))
        what = seen[0]["what"]
        code = "app.input-not-contiguous" if what == "non-contiguous" else "app.input-not-array"
        facts = {"type": what, "bytes": seen[0]["bytes"], "calls": len(odd), "fit_ms": fit_ms}
        yield subject.fault(INPUT_CONVERTED, place, cost, code, **facts)


def _input_from_double(subject: Subject) -> Iterator[Fault]:
    """Arrays of float64 that the program converts to the input's type in every round of its loop."""
    process = subject.process
    runs = process.events.where(process.events.is_run)
    by_line: dict[tuple[int, str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for note in process.notes_of("conversion"):
        if note["from"] == "float64":
            file, function, line = note["where"]
            by_line[(note["run"], file, function, line)].append(note)
    for (place, file, function, line), notes in by_line.items():
        looked_at = int(((runs.place == place) & (runs.flags & rows.LOOKED_AT > 0)).sum())
        each = median(note["ns"] + note["free_ns"] for note in notes) * len(notes) / max(1, looked_at) / 1e6
        cost = each * int((runs.place == place).sum())
        seen = remark("app.input-float64", elements=notes[0]["elements"], each_ms=each)
        yield fault_at(INPUT_CONVERTED, (file, function, line), cost, subject.wall_ms, seen)


def _outputs(subject: Subject) -> Iterator[Fault]:
    """Outputs that nobody uses, and copies where a view would do."""
    events = subject.process.events
    notes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in subject.process.notes_of("output"):
        notes[note["place"]].append(note)
    for place in np.unique(events.place[events.kind == rows.GET]).tolist():
        own = events.where((events.place == place) & (events.kind == rows.GET))
        how, _, name = subject.process.places[place]["fate"].partition(":")
        if how in ("dropped", "unread"):
            cost = _typical_ms(own.ms + _freeing_ms(notes.get(place, ())))
            yield subject.fault(OUTPUT_UNUSED, place, cost, "app.output-unused", reads=len(own), variable=name)
        elif seen := notes.get(place):
            yield from _copied(subject, place, own, seen)


def _freeing_ms(notes: Sequence[dict[str, Any]]) -> float:
    """The time to free a copy, where it was measured."""
    return median(note["free_ns"] for note in notes) / 1e6 if notes else 0.0


def _copied(subject: Subject, place: int, own: Events, seen: list[dict[str, Any]]) -> Iterator[Fault]:
    if np.mean([note["view_would_do"] for note in seen]) < _NEARLY_ALWAYS:
        return
    saved_ms = _freeing_ms(seen) - median(note["view_ns"] for note in seen) / 1e6
    cost = _typical_ms(np.maximum(own.ms + saved_ms, 0.0))
    yield subject.fault(OUTPUT_COPIED, place, cost, "app.output-copied", bytes=seen[0]["bytes"], calls=len(own))


def _slow_preprocessing(subject: Subject) -> Iterator[Fault]:
    """A loop of single images that spends more time before the model than in it."""
    events = subject.process.events
    for place, code in subject.times.before_run.items():
        runs = events.where(events.is_run & (events.place == place))
        pre, inference = sum(code.values()), float(runs.ms.sum())
        if len(runs) < FEW_RUNS or pre <= inference or pre < DOMINATES_SHARE * _loop_ms(runs):
            continue
        # On a busy machine, a few frames that were held up before their run can outweigh all the others.
        if np.median(_own_code_ms(events, place)) <= np.median(runs.ms):
            continue
        lines: dict[tuple[str, str, int], float] = {key[1:]: ms for key, ms in code.items()}
        where, cost = slowest_function(lines)
        each: dict[str, Any] = {"pre_ms": pre / len(runs), "inference_ms": inference / len(runs), "per_run": True}
        seen = remark("app.preprocessing", function=where[1], **each)
        yield fault_at(PREPROCESSING, where, cost * subject.quiet, subject.wall_ms, seen)


def _own_code_ms(events: Events, place: int) -> Any:
    """For each run at a place but the first: the time outside of LiteRT since the thread's run before."""
    own = events.where(events.thread == _most_common(events.thread[events.is_run & (events.place == place)]))
    gaps = np.maximum(own.start[1:] - np.maximum.accumulate(own.end)[:-1], 0) / 1e6
    until = np.concatenate([[0.0], np.cumsum(gaps)])
    runs = np.flatnonzero(own.is_run)
    return np.diff(until[runs])[own.place[runs[1:]] == place]


def _loop_ms(runs: Events) -> float:
    """From the first run of a loop to its last."""
    return float(runs.end[-1] - runs.start[0]) / 1e6


def _blocks_loop(subject: Subject) -> Iterator[Fault]:
    """Runs on the thread of an event loop that has other things to do."""
    events = subject.process.events
    on_loop = events.where(events.is_run & (events.flags & rows.ON_LOOP > 0))
    for place in np.unique(on_loop.place).tolist():
        own = on_loop.where(on_loop.place == place)
        if np.median(own.ms) >= FELT_MS:
            cost, facts = float(own.ms.sum()) * subject.quiet, {"runs": len(own), "longest_ms": float(np.max(own.ms))}
            yield subject.fault(EVENT_LOOP, place, cost, "app.blocks-event-loop", **facts)


def _cold(subject: Subject) -> Iterator[Fault]:
    """A first run inside the loop that takes much longer than the others."""
    events = subject.process.events
    for number in np.unique(events.number[events.is_run]).tolist():
        runs = events.where(events.is_run & (events.number == number))
        same = runs.where(runs.place == runs.place[0])
        if len(same) <= FEW_RUNS:
            continue
        warm = float(np.median(same.ms[1:]))
        late = float(same.ms[0]) - warm
        if subject.quiet < _BUSY:  # it may have waited for a core, and computed no longer than the others
            late = min(late, _cpu_ms(subject.process, same) - warm)
        # Where other programs hold up many runs, the first may have been held up as well.
        slow = max(COLD_RATIO * warm, _BEYOND_DISTURBED * float(np.quantile(same.ms[1:], 0.95)))
        if late >= _LATE_MS and same.ms[0] >= slow:
            facts = {"first_ms": float(same.ms[0]), "warm_ms": warm}
            yield subject.fault(COLD, int(runs.place[0]), late * subject.quiet, "app.cold", **facts)


def _cpu_ms(process: Process, runs: Events) -> float:
    """The CPU time of the thread in the first of these runs, at most; 0 where no sample tells."""
    samples = process.samples.of_thread(int(runs.thread[0]))
    at, cpu = samples.at[samples.cpu >= 0], samples.cpu[samples.cpu >= 0]
    before, after = int(np.searchsorted(at, runs.start[0], side="right")) - 1, int(np.searchsorted(at, runs.end[0]))
    if after == len(at):
        return 0.0
    return float(cpu[after] - (cpu[before] if before >= 0 else 0)) / 1e6


def _most_common(values: Any) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])


_RULES: Final = (
    _loaded_again,
    _resized,
    _input_made_fit,
    _input_from_double,
    _outputs,
    _slow_preprocessing,
    _blocks_loop,
    _cold,
)
