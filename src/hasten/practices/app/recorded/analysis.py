"""The analysis of a recorded trace: LiteRT's share of the time, operators, what ran instead, faults."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.platform_trace import FEW_SAMPLES, NO_OPERATORS, NO_SYMBOLS, NO_TFLITE, RUNNABLE, RUNNING, STARTED_LATE
from hasten.core.remark import remark
from hasten.practices.app.facts import (
    Inferences,
    InsteadRow,
    OperatorRow,
    SchedulerTimes,
    Split,
    ThreadSplit,
    TraceFound,
)
from hasten.practices.app.recorded.rules import Subject, faults_of, is_cold_start
from hasten.practices.app.recorded.sections import ThreadActivity, activity_of_sections, has_tflite, how_often
from hasten.practices.app.recorded.stack_samples import Stacks, activity_of_samples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.core.platform_trace import PlatformTrace, ThreadTrace
    from hasten.core.remark import Remark

_MOST_INSTEAD: Final = 40
_FEW_SAMPLES: Final = 100
_NAMELESS_SHARE: Final = 0.5


def analyze_trace(trace: PlatformTrace) -> TraceFound:
    """Analyze a trace."""
    stacks = Stacks(trace)
    activities = _activities(trace, stacks)
    subject = Subject(trace, activities)
    main = activities[0] if activities else None
    split = _split(main) if main else None
    inference_ns = sum(activity.split["inference"] for activity in activities)
    sampled = any(activity.sampled for activity in activities)  # single calls cannot be told from each other
    found = TraceFound(
        wall_ms=split.wall_ms if split else 0.0,
        split=split.split if split else Split(),
        thread=split.thread if split else None,
        threads=tuple(_split(activity) for activity in activities if activity.tflite_ns > 0),
        findings=tuple(faults_of(subject)),
        doubts=trace.doubts,
        source=trace.source,
        process=_process_name(trace, main),
        sampled=main is not None and main.sampled,
        loads=None if sampled else sum(how_often(found) for activity in activities for found in activity.loadings()),
        allocations=None if sampled else sum(len(activity.of_kind("allocate")) for activity in activities),
        inferences=_inferences(activities),
        scheduling=_scheduling(activities),
        partitions=len({key for activity in activities for key in activity.operators if key[3]}),
        operators=_operators(activities, inference_ns),
        instead=_instead(trace, activities),
        pid=main.thread.pid if main else 0,
    )
    return replace(found, doubts=(*trace.doubts, *_doubts(trace, subject, found)))


def _activities(trace: PlatformTrace, stacks: Stacks) -> list[ThreadActivity]:
    """The threads of the process that infers, the one that infers most first."""
    known: dict[int, bool] = {}
    sections = [thread for thread in trace.threads if has_tflite(trace, thread, known)]
    sampled = [] if sections else [thread for thread in trace.threads if _samples_tflite(thread, stacks)]
    of_tflite = sections or sampled
    looked_at = {id(thread): _activity(trace, thread, stacks) for thread in of_tflite}
    if of_tflite:
        chosen = max(of_tflite, key=lambda thread: _rank(looked_at[id(thread)]))
    elif trace.threads:
        chosen = max(trace.threads, key=lambda thread: len(thread.slices) + len(thread.samples))
    else:
        return []
    same = [
        thread
        for thread in trace.threads
        if thread is chosen or (thread.pid == chosen.pid and (len(thread.slices) and thread.pid if sections else True))
    ]
    activities = [looked_at.get(id(thread)) or _activity(trace, thread, stacks) for thread in same]
    return sorted((activity for activity in activities if activity.wall_ns > 0), key=_rank, reverse=True)


def _rank(activity: ThreadActivity) -> tuple[float, float, float]:
    """A thread that calls the model comes before one that only works for it, whichever takes longer."""
    calls = sum(call.ms for call in activity.of_kind("invoke"))
    return calls, activity.split["inference"] + activity.tflite_ns, activity.wall_ns


def _activity(trace: PlatformTrace, thread: ThreadTrace, stacks: Stacks) -> ThreadActivity:
    return activity_of_sections(trace, thread) if len(thread.slices) else activity_of_samples(trace, thread, stacks)


def _samples_tflite(thread: ThreadTrace, stacks: Stacks) -> bool:
    return any(stacks.meaning(number).kind for number in np.unique(thread.samples.stack).tolist())


def _split(activity: ThreadActivity) -> ThreadSplit:
    name = activity.thread.name or (f"thread {activity.thread.tid}" if activity.thread.tid else "all threads")
    split = Split(**{f"{part}_ms": time_ns / 1e6 for part, time_ns in activity.split.items()})
    return ThreadSplit(activity.thread.pid, name, activity.wall_ns / 1e6, split, len(activity.of_kind("invoke")))


def _inferences(activities: list[ThreadActivity]) -> Inferences | None:
    runs = [call for activity in activities if not activity.sampled for call in activity.of_kind("invoke")]
    if not runs:
        return None
    first = min(runs, key=lambda call: call.begin_ns)
    times = np.array([call.ms for call in runs])
    return Inferences(len(runs), first.ms, float(np.median(times)), float(np.percentile(times, 95)))


def _scheduling(activities: list[ThreadActivity]) -> SchedulerTimes | None:
    known = [activity for activity in activities if len(activity.thread.states) and activity.of_kind("invoke")]
    if not known:
        return None
    times = np.concatenate([activity.scheduled() for activity in known])
    running, ready, waiting = (times.sum(axis=0) / 1e6).tolist()
    return SchedulerTimes(running, ready, waiting)


def _operators(activities: list[ThreadActivity], inference_ns: float) -> tuple[OperatorRow, ...]:
    sums: dict[tuple[str, int, int, bool], list[float]] = {}
    for activity in activities:
        for key, (count, time_ns) in activity.operators.items():
            entry = sums.setdefault(key, [0.0, 0.0])
            entry[0], entry[1] = entry[0] + count, entry[1] + time_ns
    rows = [
        OperatorRow(*key, count=int(count), ms=time_ns / 1e6, share=time_ns / max(inference_ns, 1.0))
        for key, (count, time_ns) in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.ms, row.node)))


def _instead(trace: PlatformTrace, activities: list[ThreadActivity]) -> tuple[InsteadRow, ...]:
    rows = [row for activity in activities for row in _own_code(activity)]
    rows += _core_takers(trace, activities)
    return tuple(sorted(rows, key=lambda row: -row.ms)[:_MOST_INSTEAD])


def _own_code(activity: ThreadActivity) -> Iterable[InsteadRow]:
    """The application's own functions and sections, each with the line that takes most of its time."""
    functions: dict[tuple[str, str, str], list[tuple[float, float, int]]] = {}
    for (part, name, file, line), (count, time_ns) in activity.code.items():
        functions.setdefault((part, name, file), []).append((time_ns, count, line))
    for (part, name, file), lines in functions.items():
        time_ns, count = sum(entry[0] for entry in lines), sum(entry[1] for entry in lines)
        yield InsteadRow(name, _split(activity).thread, part, time_ns / 1e6, int(count), file, max(lines)[2])


def _core_takers(trace: PlatformTrace, activities: list[ThreadActivity]) -> Iterable[InsteadRow]:
    """Who ran while inference was ready and had no core."""
    for activity in activities[:1]:
        states, runs = activity.thread.states, activity.of_kind("invoke")
        if not len(states) or not runs:
            continue
        begins, ends = _pieces(activity)
        sums: dict[str, float] = {}
        for other in trace.threads:
            if other is not activity.thread and len(other.states):
                name = trace.processes.get(other.pid, "") or other.name or f"thread {other.tid}"
                ran_ns = float(other.states.within(begins, ends)[:, RUNNING].sum())
                sums[name] = sums.get(name, 0.0) + ran_ns
        yield from (InsteadRow("", name, "core", time_ns / 1e6, 0) for name, time_ns in sums.items() if time_ns > 0)


def _pieces(activity: ThreadActivity) -> tuple[list[int], list[int]]:
    """When inference was ready and had no core."""
    states, runs = activity.thread.states, activity.of_kind("invoke")
    ready = states.state == RUNNABLE
    begins, ends = states.begin_ns[ready], states.end_ns[ready]
    # Runs of one thread follow each other: the run of a piece is the last that began before the piece ended.
    starts = np.array([run.begin_ns for run in runs], np.int64)
    stops = np.array([run.end_ns for run in runs], np.int64)
    at = np.searchsorted(starts, ends, "left") - 1
    begins, ends = np.maximum(begins, starts[at]), np.minimum(ends, stops[at])
    inside = (at >= 0) & (ends > begins)
    return begins[inside].tolist(), ends[inside].tolist()


def _process_name(trace: PlatformTrace, main: ThreadActivity | None) -> str:
    if main is None:
        return ""
    pid = main.thread.pid
    name = trace.processes.get(pid, "")
    return f"{name} ({pid})" if name and pid else name or (f"process {pid}" if pid else "")


def _doubts(trace: PlatformTrace, subject: Subject, found: TraceFound) -> Iterable[Remark]:
    activities = subject.activities
    inference_ns = sum(activity.split["inference"] for activity in activities)
    if not any(activity.tflite_ns for activity in activities):
        yield remark(NO_TFLITE)
        return
    samples = sum(len(activity.thread.samples) for activity in activities)
    if found.sampled and trace.timed and samples < _FEW_SAMPLES:
        yield remark(FEW_SAMPLES, samples=samples)
    if found.sampled and sum(activity.nameless_ns for activity in activities) > _NAMELESS_SHARE * max(
        inference_ns, 1.0
    ):
        yield remark(NO_SYMBOLS)
    if not found.sampled and not found.operators and found.inferences:
        yield remark(NO_OPERATORS)
    if not found.sampled and found.inferences and not is_cold_start(subject):
        yield remark(STARTED_LATE)
