"""The faults that a recorded trace can show."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.platform_trace import RUNNABLE
from hasten.core.remark import remark
from hasten.practices.app.facts import (
    COLD,
    CONTENTION,
    EVENT_LOOP,
    INPUT_CONVERTED,
    LOADED_AGAIN,
    NO_CORE,
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
    TOGETHER_SHARE,
    fault_at,
    slowest_function,
    stretches,
    worth_naming,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.platform_trace import PlatformTrace
    from hasten.practices.app.recorded.sections import Call, ThreadActivity

_FEWEST_AGAIN: Final = 2
_FEWEST_ALLOCATIONS: Final = 5
_NO_CORE_SHARE: Final = 0.1
_COPIES_SHARE: Final = 0.2
_UI_SECTIONS: Final = ("Choreographer#doFrame", "UIKit", "UpdateCycle", "CATransaction", "traversal", "inflate")


@dataclass(frozen=True, slots=True)
class Subject:
    """The threads of the process that infers; the first of them infers most."""

    trace: PlatformTrace
    activities: list[ThreadActivity]

    @property
    def wall_ms(self) -> float:
        """What costs are a share of."""
        return self.activities[0].wall_ns / 1e6

    def first_run_ns(self) -> int | None:
        """When any thread first infers."""
        return min((call.begin_ns for activity in self.activities for call in activity.of_kind("invoke")), default=None)

    def fault(self, rule: str, at: Call, cost_ms: float, code: str, **facts: Any) -> Fault:
        """A fault at a call; its place is known only where the trace tells it."""
        function = "" if "@" in at.name else at.name
        return fault_at(rule, (at.file, function, at.line), cost_ms, self.wall_ms, remark(code, **facts))


def faults_of(subject: Subject) -> list[Fault]:
    """All faults that are worth naming, the most expensive first."""
    return worth_naming(fault for rule in _RULES for fault in rule(subject)) if subject.activities else []


def is_cold_start(subject: Subject) -> bool:
    """Whether the trace has a load or an allocation before the first run: only then that run is a first one."""
    first_ns = subject.first_run_ns()
    return first_ns is not None and any(
        call.begin_ns <= first_ns
        for activity in subject.activities
        for call in activity.of_kind("load", "delegate", "allocate")
    )


def _loaded_again(subject: Subject) -> Iterator[Fault]:
    """Models loaded in between runs, again and again."""
    again = _loaded_later(subject)
    if len(again) >= _FEWEST_AGAIN:
        times = [sum(call.ms for call in loading) for loading in again]
        facts = {"loads": len(again), "each_ms": sum(times) / len(again)}
        yield subject.fault(LOADED_AGAIN, again[0][0], sum(times), "app.loaded-again", **facts)


def _allocated_again(subject: Subject) -> Iterator[Fault]:
    """Tensors or buffers allocated for every frame; where the model is loaded anew, that is the fault, not this."""
    again = _later(subject, "allocate", "buffer")
    runs = sum(len(activity.of_kind("invoke")) for activity in subject.activities)
    reloaded = len(_loaded_later(subject)) >= _FEWEST_AGAIN
    if not reloaded and len(again) >= max(_FEWEST_ALLOCATIONS, EVERY_FRAME * runs):
        cost = sum(call.ms for call in again)
        yield subject.fault(RESIZED, again[0], cost, "app.resized", calls=len(again), runs=runs)


def _cold(subject: Subject) -> Iterator[Fault]:
    """A first run that takes much longer than the others. Samples do not show single runs."""
    if not is_cold_start(subject):
        return
    for activity in subject.activities:
        runs = [] if activity.sampled else activity.of_kind("invoke")
        if len(runs) <= FEW_RUNS:
            continue
        warm = median(run.ms for run in runs[1:])
        if runs[0].ms >= COLD_RATIO * warm:
            yield subject.fault(COLD, runs[0], runs[0].ms - warm, "app.cold", first_ms=runs[0].ms, warm_ms=warm)


def _on_main_thread(subject: Subject) -> Iterator[Fault]:
    """Inference on the thread that draws."""
    for activity in subject.activities:
        runs = activity.of_kind("invoke")
        if not runs or not activity.thread.is_main or not _draws(subject, activity):
            continue
        longest = max(run.ms for run in runs)
        if longest >= FELT_MS:
            facts = {"thread": activity.thread.name or "main", "longest_ms": longest}
            cost = activity.split["inference"] / 1e6
            yield subject.fault(EVENT_LOOP, runs[0], cost, "app.blocks-interface", **facts)


def _slow_preprocessing(subject: Subject) -> Iterator[Fault]:
    """More time before the model than in it."""
    activity = subject.activities[0]
    pre, inference = activity.split["pre"] / 1e6, activity.split["inference"] / 1e6
    if pre <= inference or pre < DOMINATES_SHARE * subject.wall_ms:
        return
    code = activity.code.items()
    lines = {(file, name, line): ns / 1e6 for (part, name, file, line), (_, ns) in code if part == "pre"}
    if lines:
        where, cost = slowest_function(lines)
        seen = remark("app.preprocessing", function=where[1], pre_ms=pre, inference_ms=inference, per_run=False)
        yield fault_at(PREPROCESSING, where, cost, subject.wall_ms, seen)


def _copies(subject: Subject) -> Iterator[Fault]:
    """Feeding and reading that take a good part of inference."""
    activity = subject.activities[0]
    copies, inside = (activity.split["copy_in"] + activity.split["copy_out"]) / 1e6, activity.split["inference"] / 1e6
    calls = activity.of_kind("copy_in", "copy_out")
    if calls and copies > _COPIES_SHARE * inside:
        facts = {"copies_ms": copies, "inference_ms": inside}
        yield subject.fault(INPUT_CONVERTED, calls[0], copies, "app.copies", **facts)


def _no_core(subject: Subject) -> Iterator[Fault]:
    """Runs that are ready and wait for a core."""
    for activity in subject.activities:
        ready_ms, runs = float(activity.scheduled()[:, RUNNABLE].sum()) / 1e6, activity.of_kind("invoke")
        if not activity.sampled and runs and ready_ms > _NO_CORE_SHARE * sum(run.ms for run in runs):
            share = ready_ms / sum(run.ms for run in runs)
            facts = {"thread": activity.thread.name or str(activity.thread.tid), "share": share}
            yield subject.fault(NO_CORE, runs[0], ready_ms, "app.no-core", **facts)


def _together(subject: Subject) -> Iterator[Fault]:
    """Several threads infer at once and take each other's cores."""
    lanes = [runs for activity in subject.activities if not activity.sampled and (runs := activity.of_kind("invoke"))]
    if len(lanes) < 2:
        return
    runs = [run for lane in lanes for run in lane]
    depth, spans = stretches(np.array([run.begin_ns for run in runs]), np.array([run.end_ns for run in runs]))
    together = int(spans[depth > 1].sum())
    if together > TOGETHER_SHARE * spans[depth > 0].sum() and list(_no_core(subject)):
        facts = {"threads": len(lanes), "together_ms": together / 1e6}
        yield subject.fault(CONTENTION, lanes[0][0], together / 1e6, "app.contention-seen", **facts)


def _loaded_later(subject: Subject) -> list[list[Call]]:
    """Loads after the first run, the earliest first."""
    first_ns = subject.first_run_ns()
    found = [loading for activity in subject.activities for loading in activity.loadings()]
    later = [loading for loading in found if first_ns is not None and loading[0].begin_ns > first_ns]
    return sorted(later, key=lambda loading: loading[0].begin_ns)


def _later(subject: Subject, *kinds: str) -> list[Call]:
    """Calls of these kinds after the first run."""
    first_ns = subject.first_run_ns()
    if first_ns is None:
        return []
    calls = [call for activity in subject.activities for call in activity.of_kind(*kinds)]
    return sorted((call for call in calls if call.begin_ns > first_ns), key=lambda call: call.begin_ns)


def _draws(subject: Subject, activity: ThreadActivity) -> bool:
    """Whether a main thread belongs to an interface; that of a program in a shell does not."""
    if activity.thread.name.lower().startswith("main thread") and subject.trace.source.kind == "instruments":
        return True
    names = {name for _, name, _, _ in activity.code}
    return any(name.startswith(_UI_SECTIONS) for name in names) or any(
        other.thread.name == "RenderThread" for other in subject.activities
    )


_RULES: Final = (
    _loaded_again,
    _allocated_again,
    _cold,
    _on_main_thread,
    _slow_preprocessing,
    _copies,
    _no_core,
    _together,
)
