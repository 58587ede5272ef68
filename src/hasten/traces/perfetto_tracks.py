"""Track events in a Perfetto trace: slices that applications write through its library, with names sent only once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import Frame
from hasten.traces.wire import bytes_tag, fields, number_tag, packed, text

if TYPE_CHECKING:
    from hasten.traces.builder import ThreadRows, TraceBuilder

# Field numbers of TrackEvent, TrackDescriptor, InternedData and their parts, from Perfetto's own definitions.
_TYPE, _NAME_ID, _TRACK, _TIME_US = (number_tag(number) for number in (9, 10, 11, 16))
_NAME, _ANNOTATION, _LEGACY, _LOCATION_ID = bytes_tag(23), bytes_tag(4), bytes_tag(6), number_tag(34)
_BEGIN, _END = 1, 2
_PHASE, _DURATION_US = number_tag(2), number_tag(3)
_UUID, _PARENT = number_tag(1), number_tag(5)
_TRACK_NAMES: Final = (bytes_tag(2), bytes_tag(10), bytes_tag(13))
_PROCESS, _THREAD = bytes_tag(3), bytes_tag(4)
_PID, _TID, _THREAD_NAME, _PROCESS_NAME = number_tag(1), number_tag(2), bytes_tag(5), bytes_tag(6)
_ID, _STRING = number_tag(1), bytes_tag(2)
_LOCATION_FILE, _LOCATION_LINE = bytes_tag(2), number_tag(4)
_FRAME_FUNCTION, _FRAME_MAPPING, _MAPPING_PATH = number_tag(2), number_tag(3), number_tag(7)
_STACK_FRAME, _STACK_FRAMES = number_tag(2), bytes_tag(2)
_SAMPLE_PID, _SAMPLE_TID, _SAMPLE_STACK = number_tag(2), number_tag(3), number_tag(4)
_EVENT_NAMES, _ANNOTATION_NAMES, _LOCATIONS = bytes_tag(2), bytes_tag(3), bytes_tag(4)
_FUNCTIONS, _FRAMES, _STACKS, _PATHS, _MAPPINGS = (bytes_tag(number) for number in (5, 6, 7, 17, 19))
_INTERNED: Final = (_EVENT_NAMES, _ANNOTATION_NAMES, _LOCATIONS, _FUNCTIONS, _FRAMES, _STACKS, _PATHS, _MAPPINGS)
_ANNOTATION_NAME_ID, _ANNOTATION_NAME, _ANNOTATION_STRING = number_tag(1), bytes_tag(10), bytes_tag(6)
_ANNOTATION_NUMBERS: Final = (number_tag(2), number_tag(3), number_tag(4))


@dataclass(slots=True)
class Sequence:
    """What one writer has said so far that its later packets lean on."""

    number: int
    interned: dict[int, dict[int, bytes]] = field(default_factory=lambda: {tag: {} for tag in _INTERNED})
    strings: dict[tuple[int, int], str] = field(default_factory=dict)
    """What of it was asked for already, as text."""
    default_track: int = 0
    default_clock: int = 0

    def forget(self) -> None:
        """The writer begins anew."""
        for values in self.interned.values():
            values.clear()
        self.strings.clear()
        self.default_track = self.default_clock = 0

    def add_interned(self, data: bytes) -> None:
        """Names that later packets mean by number."""
        for tag, value in fields(data):
            if tag in self.interned:
                number = next((entry for key, entry in fields(value) if key == _ID), 0)
                self.interned[tag][number] = value
                self.strings.pop((tag, number), None)

    def string(self, table: int, number: int) -> str:
        """What a number stands for; empty where that was lost."""
        found = self.strings.get((table, number))
        if found is None:
            entry = self.interned[table].get(number, b"")
            found = next((text(value) for tag, value in fields(entry) if tag == _STRING), "")
            self.strings[(table, number)] = found
        return found


class TrackEvents:
    """Takes track descriptors, track events and stack samples."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._descriptors: dict[int, tuple[int, int, int, str]] = {}
        """By track: (pid, tid, parent track, name)."""
        self.nameless = 0
        """Events whose name was lost."""

    def add_descriptor(self, data: bytes) -> None:
        """A track, and the thread or process that it belongs to."""
        pid = tid = uuid = parent = 0
        name = ""
        for tag, value in fields(data):
            if tag == _UUID:
                uuid = value
            elif tag == _PARENT:
                parent = value
            elif tag in _TRACK_NAMES:
                name = text(value)
            elif tag == _THREAD:
                pid, tid = self.add_thread(value)
            elif tag == _PROCESS:
                pid = self.add_process(value)
        self._descriptors[uuid] = (pid, tid, parent, name)

    def add_thread(self, data: bytes) -> tuple[int, int]:
        """A thread's descriptor."""
        found = dict(fields(data))
        pid, tid = found.get(_PID, 0), found.get(_TID, 0)
        if tid:
            self._builder.thread(tid, pid=pid, tid=tid, name=text(found.get(_THREAD_NAME, b"")))
        return pid, tid

    def add_process(self, data: bytes) -> int:
        """A process's descriptor."""
        found = dict(fields(data))
        pid: int = found.get(_PID, 0)
        if pid and (name := text(found.get(_PROCESS_NAME, b""))):
            self._builder.processes[pid] = name
        return pid

    def add_event(self, sequence: Sequence, time_ns: int, data: bytes) -> None:
        """One event on one track."""
        found = fields(data)
        values: dict[int, Any] = dict(found)
        rows = self._builder.thread(("track", values.get(_TRACK, sequence.default_track)))
        time_ns = values[_TIME_US] * 1000 if _TIME_US in values else time_ns
        kind = values.get(_TYPE, 0)
        if kind == _END:
            self._builder.end(rows, time_ns)
        elif kind == _BEGIN:
            self._builder.begin(rows, time_ns, self._name(sequence, values), _arguments(sequence, found))
        elif _LEGACY in values:
            self._add_legacy(rows, time_ns, self._name(sequence, values), dict(fields(values[_LEGACY])))

    def _add_legacy(self, rows: ThreadRows, time_ns: int, name: str, event: dict[int, Any]) -> None:
        """An event as Chrome's older format has them."""
        phase = event.get(_PHASE)
        if phase == ord("B"):
            self._builder.begin(rows, time_ns, name)
        elif phase == ord("E"):
            self._builder.end(rows, time_ns)
        elif phase == ord("X"):
            self._builder.whole(rows, time_ns, event.get(_DURATION_US, 0) * 1000, name)

    def add_sample(self, sequence: Sequence, time_ns: int, data: bytes) -> None:
        """A thread seen by the sampling profiler. What it weighs is worked out when all are there."""
        found = dict(fields(data))
        tid, pid = found.get(_SAMPLE_TID, 0), found.get(_SAMPLE_PID, 0)
        rows = self._builder.thread(tid, pid=pid, tid=tid)
        self._builder.sample(rows, time_ns, 0, self._stack(sequence, found.get(_SAMPLE_STACK, 0)))

    def finish(self) -> None:
        """Events of a thread's track become that thread's; other tracks get the name and process that they have."""
        for key in [key for key in self._builder.rows if isinstance(key, tuple) and key[0] == "track"]:
            rows = self._builder.rows[key]
            pid, tid, parent, name = self._descriptors.get(key[1], (0, 0, 0, ""))
            if tid:
                _join(self._builder.thread(tid, pid=pid, tid=tid), rows)
                del self._builder.rows[key]
                continue
            steps = 0
            while not pid and parent in self._descriptors and steps < len(self._descriptors):
                pid, _, parent, _ = self._descriptors[parent]
                steps += 1
            rows.pid, rows.name = pid, f"track: {name}" if name else "track"

    def _name(self, sequence: Sequence, values: dict[int, Any]) -> str:
        if _NAME in values:
            return text(values[_NAME])
        name = sequence.string(_EVENT_NAMES, values.get(_NAME_ID, 0))
        if not name:
            self.nameless += 1
        return name or "(name lost)"

    def _stack(self, sequence: Sequence, number: int) -> int:
        frames: list[int] = []
        for tag, value in fields(sequence.interned[_STACKS].get(number, b"")):
            numbers = packed(value) if tag == _STACK_FRAMES else [value] if tag == _STACK_FRAME else []
            frames.extend(self._frame(sequence, frame) for frame in numbers)
        return self._builder.stack(tuple(frames))

    def _frame(self, sequence: Sequence, number: int) -> int:
        found = dict(fields(sequence.interned[_FRAMES].get(number, b"")))
        mapping = fields(sequence.interned[_MAPPINGS].get(found.get(_FRAME_MAPPING, 0), b""))
        parts = [sequence.string(_PATHS, value) for tag, value in mapping if tag == _MAPPING_PATH]
        function = sequence.string(_FUNCTIONS, found.get(_FRAME_FUNCTION, 0))
        return self._builder.frame(Frame(function or "[unknown]", "/".join(part.strip("/") for part in parts)))


def _arguments(sequence: Sequence, found: list[tuple[int, Any]]) -> dict[str, Any] | None:
    """What a program noted beside the event, and where in its source it stands."""
    arguments: dict[str, Any] = {}
    for tag, value in found:
        if tag not in (_ANNOTATION, _LOCATION_ID):
            continue
        if tag == _ANNOTATION:
            note = dict(fields(value))
            name = text(note.get(_ANNOTATION_NAME, b"")) or sequence.string(
                _ANNOTATION_NAMES, note.get(_ANNOTATION_NAME_ID, 0)
            )
            if _ANNOTATION_STRING in note:
                arguments[name] = text(note[_ANNOTATION_STRING])
            for number in _ANNOTATION_NUMBERS:
                if number in note:
                    arguments[name] = note[number]
        else:
            place = dict(fields(sequence.interned[_LOCATIONS].get(value, b"")))
            arguments["file"], arguments["line"] = text(place.get(_LOCATION_FILE, b"")), place.get(_LOCATION_LINE, 0)
    return arguments or None


def _join(rows: ThreadRows, more: ThreadRows) -> None:
    marks, wholes = len(rows.mark_ns), len(rows.whole_ns)
    rows.mark_args.update({marks + position: args for position, args in more.mark_args.items()})
    rows.whole_args.update({wholes + position: args for position, args in more.whole_args.items()})
    for name in ("mark_ns", "mark_name", "whole_ns", "whole_duration", "whole_name"):
        getattr(rows, name).extend(getattr(more, name))
