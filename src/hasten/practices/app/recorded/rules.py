"""Faults that a platform's trace shows: the rules of `hasten app`, as far as a recording of somebody else can tell."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.platform_trace import RUNNABLE
from hasten.core.units import milliseconds, percent
from hasten.practices.app.facts import AppFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.platform_trace import PlatformTrace
    from hasten.practices.app.recorded.views import Call, ThreadView

_WORTH_SHARE: Final = 0.01
_WORTH_MS: Final = 1.0
_EVERY_FRAME: Final = 0.3
_FEWEST_AGAIN: Final = 2
_FEWEST_ALLOCATIONS: Final = 5
_FEW_RUNS: Final = 10
_COLD_RATIO: Final = 2.0
_DOMINATES_SHARE: Final = 0.25
_FELT_MS: Final = 1.0
_NO_CORE_SHARE: Final = 0.1
_COPIES_SHARE: Final = 0.2
_TOGETHER_SHARE: Final = 0.2
_UI_SECTIONS: Final = ("Choreographer#doFrame", "UIKit", "UpdateCycle", "CATransaction", "traversal", "inflate")


@dataclass(frozen=True, slots=True)
class Subject:
    """The threads of the process that infers; the first of them infers most."""

    trace: PlatformTrace
    views: list[ThreadView]

    @property
    def wall_ms(self) -> float:
        """What costs are a share of."""
        return self.views[0].wall_ns / 1e6

    def first_run_ns(self) -> int | None:
        """When any thread first infers."""
        return min((call.begin_ns for view in self.views for call in view.of_kind("invoke")), default=None)

    def finding(self, rule: str, at: Call, cost_ms: float, evidence: str, fix: str) -> AppFinding:
        """A finding at a call; its place is known only where the trace tells it."""
        share = cost_ms / max(self.wall_ms, 1e-9)
        function = "" if "@" in at.name else at.name
        return AppFinding(rule, at.file, at.line, function, cost_ms, share, evidence, fix)


def findings(subject: Subject) -> list[AppFinding]:
    """All that are worth naming, the dearest first."""
    if not subject.views:
        return []
    found = [fault for rule in _RULES for fault in rule(subject)]
    worth = [fault for fault in found if fault.share >= _WORTH_SHARE and fault.cost_ms >= _WORTH_MS]
    return sorted(worth, key=lambda fault: -fault.cost_ms)


def is_cold_start(subject: Subject) -> bool:
    """Whether the trace has a load or an allocation before the first run: only then that run is a first one."""
    first_ns = subject.first_run_ns()
    return first_ns is not None and any(
        call.begin_ns <= first_ns for view in subject.views for call in view.of_kind("load", "delegate", "allocate")
    )


def _loaded_again(subject: Subject) -> Iterator[AppFinding]:
    """Models loaded in between runs, again and again."""
    again = _loaded_later(subject)
    if len(again) >= _FEWEST_AGAIN:
        times = [sum(call.ms for call in loading) for loading in again]
        yield subject.finding(
            "model loaded again",
            again[0][0],
            sum(times),
            f"{len(again)} loads after the first run, {milliseconds(median(times))} each",
            "Make the interpreter once, when the application starts, and keep it.",
        )


def _allocated_again(subject: Subject) -> Iterator[AppFinding]:
    """Tensors or buffers allocated for every frame; where the model is loaded anew, that is the fault, not this."""
    again = _later(subject, "allocate", "buffer")
    runs = sum(len(view.of_kind("invoke")) for view in subject.views)
    reloaded = len(_loaded_later(subject)) >= _FEWEST_AGAIN
    if not reloaded and len(again) >= max(_FEWEST_ALLOCATIONS, _EVERY_FRAME * runs):
        yield subject.finding(
            "resized on every frame",
            again[0],
            sum(call.ms for call in again),
            f"{len(again)} allocations in {runs} runs",
            "Resize and allocate once; keep an interpreter, or a set of buffers, for each shape.",
        )


def _cold(subject: Subject) -> Iterator[AppFinding]:
    """A first run that takes much longer than the others. Samples do not show single runs."""
    if not is_cold_start(subject):
        return
    for view in subject.views:
        runs = [] if view.sampled else view.of_kind("invoke")
        if len(runs) <= _FEW_RUNS:
            continue
        warm = median(run.ms for run in runs[1:])
        if runs[0].ms >= _COLD_RATIO * warm:
            yield subject.finding(
                "first run not warmed up",
                runs[0],
                runs[0].ms - warm,
                f"the first takes {milliseconds(runs[0].ms)}, the others {milliseconds(warm)}",
                "Run the model once on any input before the user waits for it.",
            )


def _on_main_thread(subject: Subject) -> Iterator[AppFinding]:
    """Inference on the thread that draws."""
    for view in subject.views:
        runs = view.of_kind("invoke")
        if not runs or not view.thread.is_main or not _draws(subject, view):
            continue
        longest = max(run.ms for run in runs)
        if longest >= _FELT_MS:
            yield subject.finding(
                "inference on the event loop",
                runs[0],
                view.split["inference"] / 1e6,
                f"{view.thread.name or 'the main thread'} draws the interface and infers, "
                f"{milliseconds(longest)} at a time",
                "Run it on a thread of its own: an executor, a coroutine off the main dispatcher, a dispatch queue.",
            )


def _slow_preprocessing(subject: Subject) -> Iterator[AppFinding]:
    """More time before the model than in it."""
    view = subject.views[0]
    pre, inference = view.split["pre"] / 1e6, view.split["inference"] / 1e6
    if pre <= inference or pre < _DOMINATES_SHARE * subject.wall_ms:
        return
    functions: dict[tuple[str, str], dict[int, float]] = {}
    for (part, name, file, line), (_, time_ns) in view.code.items():
        if part == "pre":
            lines = functions.setdefault((name, file), {})
            lines[line] = lines.get(line, 0.0) + time_ns
    if not functions:
        return
    (name, file), lines = max(functions.items(), key=lambda entry: sum(entry[1].values()))
    cost = sum(lines.values()) / 1e6
    yield AppFinding(
        "pre-processing dominates",
        file,
        max(lines, key=lambda line: lines[line]),
        name,
        cost,
        cost / subject.wall_ms,
        f"{milliseconds(pre)} before the model and {milliseconds(inference)} in it, most of it in {name}; "
        "the cost is all of its time, the most that can be saved",
        f"Speed up {name}, or prepare the next frame on another thread.",
    )


def _copies(subject: Subject) -> Iterator[AppFinding]:
    """Feeding and reading that take a good part of inference."""
    view = subject.views[0]
    copies, inside = (view.split["copy_in"] + view.split["copy_out"]) / 1e6, view.split["inference"] / 1e6
    calls = view.of_kind("copy_in", "copy_out")
    if calls and copies > _COPIES_SHARE * inside:
        yield subject.finding(
            "input converted",
            calls[0],
            copies,
            f"feeding and reading take {milliseconds(copies)} beside {milliseconds(inside)} of inference",
            "Write straight into the input's own memory: direct ByteBuffers, interpreter.tensor(), host buffers.",
        )


def _no_core(subject: Subject) -> Iterator[AppFinding]:
    """Runs that are ready and wait for a core."""
    for view in subject.views:
        ready_ms, runs = float(view.scheduled()[:, RUNNABLE].sum()) / 1e6, view.of_kind("invoke")
        if not view.sampled and runs and ready_ms > _NO_CORE_SHARE * sum(run.ms for run in runs):
            share = ready_ms / sum(run.ms for run in runs)
            yield subject.finding(
                "waits for a core",
                runs[0],
                ready_ms,
                f"{percent(share)} of inference, thread {view.thread.name or view.thread.tid} was ready without a core",
                "Use fewer threads (hasten threads --load busy), or end what else runs at that moment.",
            )


def _together(subject: Subject) -> Iterator[AppFinding]:
    """Several threads infer at once and take each other's cores."""
    lanes = [(view, view.of_kind("invoke")) for view in subject.views if not view.sampled and view.of_kind("invoke")]
    if len(lanes) < 2:
        return
    edges = sorted(edge for _, runs in lanes for run in runs for edge in ((run.begin_ns, 1), (run.end_ns, -1)))
    together = at_least_one = 0
    busy, before = 0, edges[0][0]
    for time_ns, step in edges:
        together += (time_ns - before) if busy > 1 else 0
        at_least_one += (time_ns - before) if busy else 0
        busy, before = busy + step, time_ns
    if together > _TOGETHER_SHARE * at_least_one and list(_no_core(subject)):
        yield subject.finding(
            "interpreters fight for cores",
            lanes[0][1][0],
            together / 1e6,
            f"{len(lanes)} threads infer at once for {milliseconds(together / 1e6)}, and wait for cores meanwhile",
            "Let one thread infer after the other, or give each interpreter fewer threads.",
        )


def _loaded_later(subject: Subject) -> list[list[Call]]:
    """Loads after the first run, the earliest first."""
    first_ns = subject.first_run_ns()
    found = [loading for view in subject.views for loading in view.loadings()]
    later = [loading for loading in found if first_ns is not None and loading[0].begin_ns > first_ns]
    return sorted(later, key=lambda loading: loading[0].begin_ns)


def _later(subject: Subject, *kinds: str) -> list[Call]:
    """Calls of these kinds after the first run."""
    first_ns = subject.first_run_ns()
    if first_ns is None:
        return []
    calls = [call for view in subject.views for call in view.of_kind(*kinds)]
    return sorted((call for call in calls if call.begin_ns > first_ns), key=lambda call: call.begin_ns)


def _draws(subject: Subject, view: ThreadView) -> bool:
    """Whether a main thread belongs to an interface; that of a program in a shell does not."""
    if view.thread.name.lower().startswith("main thread") and subject.trace.source.kind == "instruments":
        return True
    names = {name for _, name, _, _ in view.code}
    return any(name.startswith(_UI_SECTIONS) for name in names) or any(
        other.thread.name == "RenderThread" for other in subject.views
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
