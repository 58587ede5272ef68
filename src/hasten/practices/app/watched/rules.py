"""Faults that what was seen of a program shows by itself: each with its place, its cost in this run, and the fix.

A fault is named only if it costs a share of the wall time worth a change; what is odd and costs nothing is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.units import milliseconds, size
from hasten.practices.app.facts import AppFinding
from hasten.practices.app.watched.split import own_frame
from hasten.watcher import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hasten.practices.app.watched.recording import Events, Process
    from hasten.practices.app.watched.split import ThreadTimes

WORTH_SHARE: Final = 0.01
"""Of the wall time: what costs less is not named."""
_WORTH_SHARES: Final = {"output copied": 0.02}
"""Where the better way asks more care of the programmer, it has to save more."""
_WORTH_MS: Final = 1.0
_DISTURBED: Final = 3.0
"""A call that takes so many times the median was held up by something else."""
_EVERY_FRAME: Final = 0.3
"""Calls for each run of the model, from which on they count as made on every frame."""
_FEW_RUNS: Final = 10
_COLD_RATIO: Final = 2.0
_BEYOND_DISTURBED: Final = 1.5
# A first run that is late by less may just have waited for another program's turn on the core.
_LATE_MS: Final = 5.0
# Below this share of its wall time, others had so much of the cores that one late run may be theirs.
_BUSY: Final = 0.7
_DOMINATES: Final = "pre-processing dominates"
_DOMINATES_SHARE: Final = 0.25
_NEARLY_ALWAYS: Final = 0.8
"""A sampler that looks at a frame can keep an output alive for an instant longer than the program does."""
_FELT_MS: Final = 1.0
"""A run on an event loop that is shorter than this disturbs nobody."""


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
    """The share of the time in which the program was not kept from a core by others: costs are told without that."""

    def finding(self, rule: str, place: int, cost_ms: float, evidence: str, fix: str) -> AppFinding:
        """A finding at a place of the program."""
        file, function, line = own_frame(self.process.chain(place))
        return AppFinding(rule, file, line, function, cost_ms, cost_ms / max(self.wall_ms, 1e-9), evidence, fix)


def findings(subject: Subject) -> list[AppFinding]:
    """All faults of a process that are worth naming."""
    found = [fault for rule in _RULES for fault in rule(subject) if worth(fault)]
    known = {(fault.file, fault.line) for fault in found if fault.rule != _DOMINATES}
    return [fault for fault in found if fault.rule != _DOMINATES or (fault.file, fault.line) not in known]


def worth(fault: AppFinding) -> bool:
    """Whether a fault costs enough to be named."""
    return fault.share >= _WORTH_SHARES.get(fault.rule, WORTH_SHARE) and fault.cost_ms >= _WORTH_MS


def _typical_ms(times: Any) -> float:
    """What so many calls cost if none is disturbed: other programs' share is not the program's fault."""
    if not len(times):
        return 0.0
    values = np.asarray(times)
    return float(values[values <= _DISTURBED * np.median(values)].mean()) * len(values)


def _loaded_again(subject: Subject) -> Iterator[AppFinding]:
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
        yield subject.finding(
            "model loaded again",
            place,
            _typical_ms(times),
            f"loaded {len(times)} more times than needed, {milliseconds(median(times))} each with its first run",
            "Make the interpreter once, outside of the loop, and keep it.",
        )


def _loading_ms(subject: Subject, own: Events) -> float:
    """Load, allocation, freeing, and what the first run takes longer than a warm one."""
    load = own.ms[np.isin(own.kind, (rows.LOAD, rows.ALLOCATE, rows.BUFFER, rows.FREE))].sum()
    runs = own.where(own.is_run)
    steady = subject.steady_ms(int(own.number[0]))
    extra = max(0.0, runs.ms[0] - steady) if len(runs) and steady is not None else 0.0
    return float(load + extra)


def _resized(subject: Subject) -> Iterator[AppFinding]:
    """Tensors resized or allocated again and again after the first run."""
    events = subject.process.events
    for number in np.unique(events.number).tolist():
        own = events.where(events.number == number)
        runs = own.where(own.is_run)
        if len(runs) < 3:
            continue
        later = own.where((own.start > runs.start[0]) & np.isin(own.kind, (rows.ALLOCATE, rows.RESIZE)))
        if len(later) < _EVERY_FRAME * len(runs):
            continue
        resizes = later.where(later.kind == rows.RESIZE)
        blamed = resizes if len(resizes) else later
        place = _most_common(blamed.place)
        changes = int((resizes.flags & rows.CHANGED).sum())
        yield subject.finding(
            "resized on every frame",
            place,
            _allocating_ms(later) + _shaken_ms(own, later),
            f"{len(later)} calls of resize or allocate in {len(runs)} runs; {changes} changed the shape",
            "Keep an interpreter for each shape, allocated once, or bring all frames to one shape.",
        )


def _allocating_ms(later: Events) -> float:
    return sum(_typical_ms(later.ms[later.kind == kind]) for kind in (rows.ALLOCATE, rows.RESIZE))


def _shaken_ms(own: Events, later: Events) -> float:
    """What runs right after an allocation take longer than the others, if there are others."""
    runs = own.where(own.is_run)
    follow = np.searchsorted(runs.start, later.where(later.kind == rows.ALLOCATE).end)
    after = np.unique(follow[follow < len(runs)])
    others = np.setdiff1d(np.arange(1, len(runs)), after)
    if len(after) < 3 or len(others) < 3:
        return 0.0
    return max(0.0, float(np.median(runs.ms[after]) - np.median(runs.ms[others]))) * len(after)


def _input_made_fit(subject: Subject) -> Iterator[AppFinding]:
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
        name = "an array that is not contiguous" if what == "non-contiguous" else f"a {what}, not an array"
        yield subject.finding(
            "input converted",
            place,
            cost,
            f"{name} of {size(seen[0]['bytes'])}, {len(odd)} times; one that fits takes {milliseconds(fit_ms)}",
            "Write into a contiguous array of the input's type from the start, best into interpreter.tensor(index)().",
        )


def _input_from_double(subject: Subject) -> Iterator[AppFinding]:
    """Arrays of 64-bit floats that the program itself turns into what the model takes, in every round of its loop."""
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
        yield AppFinding(
            "input converted",
            file,
            line,
            function,
            cost,
            cost / max(subject.wall_ms, 1e-9),
            f"float64 of {notes[0]['elements']} numbers converted in every frame, {milliseconds(each)} each",
            "Compute in float32 from the start: np.float32(x), dtype=np.float32, out=… instead of astype at the end.",
        )


def _outputs(subject: Subject) -> Iterator[AppFinding]:
    """Outputs that nobody uses, and copies where a view would do."""
    events = subject.process.events
    notes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in subject.process.notes_of("output"):
        notes[note["place"]].append(note)
    for place in np.unique(events.place[events.kind == rows.GET]).tolist():
        own = events.where((events.place == place) & (events.kind == rows.GET))
        how, _, name = subject.process.places[place]["fate"].partition(":")
        if how in ("dropped", "unread"):
            what = f"put into {name}, which nobody reads" if name else "dropped at once"
            yield subject.finding(
                "output never used",
                place,
                _typical_ms(own.ms + _freeing_ms(notes.get(place, ()))),
                f"read {len(own)} times, and {what}",
                "Leave out this read.",
            )
        elif seen := notes.get(place):
            yield from _copied(subject, place, own, seen)


def _freeing_ms(notes: Sequence[dict[str, Any]]) -> float:
    """What giving back the copy takes, as far as it was looked at."""
    return median(note["free_ns"] for note in notes) / 1e6 if notes else 0.0


def _copied(subject: Subject, place: int, own: Events, seen: list[dict[str, Any]]) -> Iterator[AppFinding]:
    if np.mean([note["view_would_do"] for note in seen]) < _NEARLY_ALWAYS:
        return
    saved_ms = _freeing_ms(seen) - median(note["view_ns"] for note in seen) / 1e6
    yield subject.finding(
        "output copied",
        place,
        _typical_ms(np.maximum(own.ms + saved_ms, 0.0)),
        f"{size(seen[0]['bytes'])} copied {len(own)} times, and gone before the next run",
        "Ask once for output = interpreter.tensor(index), then read output() in the loop and keep no reference to it.",
    )


def _slow_preprocessing(subject: Subject) -> Iterator[AppFinding]:
    """A loop of single images that spends more time before the model than in it."""
    events = subject.process.events
    for place, code in subject.times.before_run.items():
        runs = events.where(events.is_run & (events.place == place))
        pre, inference = sum(code.values()), float(runs.ms.sum())
        if len(runs) < _FEW_RUNS or pre <= inference or pre < _DOMINATES_SHARE * _loop_ms(runs):
            continue
        # On a busy machine, a few frames that were held up before their run can outweigh all the others.
        if np.median(_own_code_ms(events, place)) <= np.median(runs.ms):
            continue
        functions: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for (_, file, function, line), ms in code.items():
            functions[(file, function)][line] += ms
        (file, function), lines = max(functions.items(), key=lambda entry: sum(entry[1].values()))
        cost = sum(lines.values()) * subject.quiet
        yield AppFinding(
            _DOMINATES,
            file,
            max(lines, key=lambda line: lines[line]),
            function,
            cost,
            cost / subject.wall_ms,
            f"{milliseconds(pre / len(runs))} before each run of {milliseconds(inference / len(runs))}, most of it in"
            f" {function}; the cost is all of its time, the most that can be saved",
            f"Speed up {function} (whole arrays instead of loops), or prepare the next frame in another thread.",
        )


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


def _blocks_loop(subject: Subject) -> Iterator[AppFinding]:
    """Runs on the thread of an event loop that has other things to do."""
    events = subject.process.events
    on_loop = events.where(events.is_run & (events.flags & rows.ON_LOOP > 0))
    for place in np.unique(on_loop.place).tolist():
        own = on_loop.where(on_loop.place == place)
        if np.median(own.ms) >= _FELT_MS:
            yield subject.finding(
                "inference on the event loop",
                place,
                float(own.ms.sum()) * subject.quiet,
                f"{len(own)} runs, {milliseconds(float(np.max(own.ms)))} at most, during which nothing else goes on",
                "Run it in a thread: await loop.run_in_executor(pool, run), or a worker thread beside the interface.",
            )


def _cold(subject: Subject) -> Iterator[AppFinding]:
    """A first run inside the loop that takes much longer than the others."""
    events = subject.process.events
    for number in np.unique(events.number[events.is_run]).tolist():
        runs = events.where(events.is_run & (events.number == number))
        same = runs.where(runs.place == runs.place[0])
        if len(same) <= _FEW_RUNS:
            continue
        warm = float(np.median(same.ms[1:]))
        late = float(same.ms[0]) - warm
        if subject.quiet < _BUSY:  # it may have waited for a core, and computed no longer than the others
            late = min(late, _cpu_ms(subject.process, same) - warm)
        # Where other programs hold up many runs, the first may have been held up as well.
        slow = max(_COLD_RATIO * warm, _BEYOND_DISTURBED * float(np.quantile(same.ms[1:], 0.95)))
        if late >= _LATE_MS and same.ms[0] >= slow:
            yield subject.finding(
                "first run not warmed up",
                int(runs.place[0]),
                late * subject.quiet,
                f"the first takes {milliseconds(float(same.ms[0]))}, the others {milliseconds(warm)}",
                "Run the model once on any input before the loop whose latency counts.",
            )


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
