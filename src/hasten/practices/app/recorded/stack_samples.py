"""The activity of a thread, from the stack samples of a trace: what each stack is for, and the calls that they form.

Where functions have no telling name, lines decide: what a function calls above the line of its inference is
pre-processing, what it calls below is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.platform_trace import Frame
from hasten.practices.app.recorded.names import (
    PART_OF_KIND,
    app_kind,
    frame_meaning,
    is_foreign,
    is_importing,
    is_waiting,
    plain_name,
)
from hasten.practices.app.recorded.sections import Call, ThreadActivity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.core.platform_trace import PlatformTrace, ThreadTrace

_NOWHERE = Frame("(no stack)")


@dataclass(frozen=True, slots=True)
class StackMeaning:
    """What one stack is for."""

    kind: str
    part: str
    op: str
    own: Frame
    """The application's innermost function on it."""


class Stacks:
    """All stacks of a trace, looked at once each."""

    def __init__(self, trace: PlatformTrace) -> None:
        self._trace = trace
        self._meanings: dict[int, StackMeaning] = {}
        self._lines: dict[tuple[str, str], tuple[int, int]] = {}
        for number in range(len(trace.stacks)):
            self._note_lines(trace.stack(number))

    def meaning(self, number: int) -> StackMeaning:
        """What this stack is for."""
        if number not in self._meanings:
            self._meanings[number] = self._looked_at(self._trace.stack(number))
        return self._meanings[number]

    def _note_lines(self, frames: tuple[Frame, ...]) -> None:
        """Remember from which lines inference is called."""
        at = _first_of_tflite(frames)
        if at is not None and frame_meaning(frames[at]).kind == "invoke":
            for frame in frames[:at]:
                if frame.line:
                    key = (frame.function, frame.file)
                    low, high = self._lines.get(key, (frame.line, frame.line))
                    self._lines[key] = (min(low, frame.line), max(high, frame.line))

    def _looked_at(self, frames: tuple[Frame, ...]) -> StackMeaning:
        own = next((frame for frame in reversed(frames) if not is_foreign(frame)), frames[-1] if frames else _NOWHERE)
        at = _first_of_tflite(frames)
        if at is not None:
            kind = frame_meaning(frames[at]).kind
            op = next((frame_meaning(frame).op for frame in reversed(frames[at:]) if frame_meaning(frame).op), "")
            caller = next((frame for frame in reversed(frames[:at]) if not is_foreign(frame)), frames[max(0, at - 1)])
            return StackMeaning(kind, PART_OF_KIND[kind], op, caller)
        kind = self._kind_of_own(frames)
        return StackMeaning("", PART_OF_KIND.get(kind, "other"), "", own)

    def _kind_of_own(self, frames: tuple[Frame, ...]) -> str:
        if any(is_importing(frame) for frame in frames):
            return "start"
        if frames and is_waiting(frames[-1]):
            return "waiting"
        named = next((app_kind(frame.function) for frame in frames if app_kind(frame.function)), "")
        return named or self._by_line(frames)

    def _by_line(self, frames: tuple[Frame, ...]) -> str:
        for frame in reversed(frames):
            if (frame.function, frame.file) in self._lines and frame.line:
                low, high = self._lines[(frame.function, frame.file)]
                return "pre" if frame.line < low else "post" if frame.line > high else ""
        return ""


def activity_of_samples(trace: PlatformTrace, thread: ThreadTrace, stacks: Stacks) -> ThreadActivity:
    """A thread that was sampled."""
    activity = ThreadActivity(thread, sampled=True)
    numbers, where = np.unique(thread.samples.stack, return_inverse=True)
    times = np.bincount(where, thread.samples.weight_ns.astype(float), len(numbers))
    counts = np.bincount(where, minlength=len(numbers))
    activity.wall_ns = float(times.sum())
    for number, time_ns, count in zip(numbers.tolist(), times.tolist(), counts.tolist(), strict=True):
        found = stacks.meaning(number)
        activity.split[found.part] += time_ns
        if found.part == "inference":
            _add_kernel(activity, found.op, count, time_ns)
        elif not found.kind:
            own = found.own
            entry = activity.code[(found.part, plain_name(own.function), own.file or own.module, own.line)]
            entry[0], entry[1] = entry[0] + count, entry[1] + time_ns
    if trace.timed:
        activity.calls = _calls(thread, stacks)
    return activity


def _add_kernel(activity: ThreadActivity, op: str, count: int, time_ns: float) -> None:
    if not op:
        activity.nameless_ns += time_ns
        return
    entry = activity.operators[(op, -1, 0, False)]
    entry[0], entry[1] = entry[0] + count, entry[1] + time_ns


def _calls(thread: ThreadTrace, stacks: Stacks) -> list[Call]:
    """Samples of a kind that follow each other, as one call each."""
    order = np.argsort(thread.samples.time_ns, kind="stable")
    rows: Iterable[Any] = zip(
        thread.samples.time_ns[order].tolist(),
        thread.samples.weight_ns[order].tolist(),
        thread.samples.stack[order].tolist(),
        strict=True,
    )
    found: list[Call] = []
    before = ""
    for time_ns, weight_ns, number in rows:
        seen = stacks.meaning(number)
        if seen.kind and seen.kind == before:
            last = found[-1]
            found[-1] = Call(last.kind, last.begin_ns, time_ns + weight_ns, last.name, last.file, last.line)
        elif seen.kind:
            place = (seen.own.function, seen.own.file, seen.own.line)
            found.append(Call(seen.kind, time_ns, time_ns + weight_ns, *place))
        before = seen.kind
    return found


def _first_of_tflite(frames: tuple[Frame, ...]) -> int | None:
    """The outermost call of its interface, or where there is none, its outermost function."""
    kinds = [frame_meaning(frame).kind for frame in frames]
    calls = (at for at, kind in enumerate(kinds) if kind and kind != "operator")
    return next(calls, kinds.index("operator") if "operator" in kinds else None)
