"""speedscope's JSON, as py-spy and others write it (sampled and evented), and stacks folded into lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import DAMAGED, NO_ORDER, TRUNCATED, Frame
from hasten.traces.json_stream import document

if TYPE_CHECKING:
    from hasten.traces.builder import TraceBuilder
    from hasten.traces.content import Content

_UNITS_NS: Final = {"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}
_PERIOD_NS: Final = 10_000_000
"""py-spy's default: a hundred samples a second. A profile that counts samples does not say how far apart they were."""
_PROCESS: Final = re.compile(r"[Pp]rocess (\d{1,9})")
_THREAD: Final = re.compile(r"[Tt]hread \(?(\w{1,20})")
FOLDED: Final = re.compile(r"^(?P<stack>\S.*?) (?P<count>\d{1,15}(?:\.\d+)?)$")
_SHARED: Final = re.compile(r"\.(so|dylib|dll)\b")
_PLACE: Final = re.compile(r"^(?P<function>.+?) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?\)$")


def read_speedscope(content: Content, builder: TraceBuilder) -> None:
    """Every profile of the document is a thread."""
    found, fault = document(content)
    if fault is not None:
        builder.doubt(fault.code, **fault.facts)
    found = found if isinstance(found, dict) else {}
    frames = [_frame(builder, frame) for frame in _list(_dict(found.get("shared")).get("frames"))]
    if not frames:
        builder.doubt(DAMAGED, "no_names")
        return
    for number, profile in enumerate(_list(found.get("profiles"))):
        if isinstance(profile, dict):
            _Profile(builder, frames, profile, number).add()


class _Profile:
    """One profile: samples with weights, or events that open and close frames."""

    def __init__(self, builder: TraceBuilder, frames: list[int], data: dict[str, Any], number: int) -> None:
        self._builder, self._frames, self._data = builder, frames, data
        name = str(data.get("name", ""))
        process, thread = _PROCESS.search(name), _THREAD.search(name)
        pid = int(process[1]) if process else 0
        # py-spy writes a thread that gets its name later as two profiles of one number.
        key = (pid, thread[1]) if thread else ("profile", number)
        self._rows = builder.thread(key, pid=pid, name=name.replace(' ""', ""))
        unit = str(data.get("unit", "none"))
        self._unit_ns: float = _UNITS_NS.get(unit, _PERIOD_NS)
        if unit not in _UNITS_NS:
            builder.doubt(NO_ORDER, "samples")

    def add(self) -> None:
        """Its samples."""
        if self._data.get("type") == "evented":
            self._add_events()
        else:
            self._add_samples()

    def _add_samples(self) -> None:
        samples, weights = _list(self._data.get("samples")), _list(self._data.get("weights"))
        time_ns = max(self._ns(self._data.get("startValue", 0)), self._end_ns())
        if len(weights) < len(samples):
            self._builder.doubt(TRUNCATED, "weights", count=len(samples) - len(weights))
        for sample, weight in zip(samples, weights, strict=False):
            weight_ns = self._ns(weight)
            self._builder.sample(self._rows, time_ns, weight_ns, self._stack(_list(sample)))
            time_ns += weight_ns

    def _add_events(self) -> None:
        """Between two events the stack stays as it is: that is a sample that weighs as much."""
        opened: list[Any] = []
        before_ns = max(self._ns(self._data.get("startValue", 0)), self._end_ns())
        for event in _list(self._data.get("events")):
            if not isinstance(event, dict):
                continue
            time_ns = self._ns(event.get("at", 0))
            if time_ns > before_ns and opened:
                self._builder.sample(self._rows, before_ns, time_ns - before_ns, self._stack(opened))
            before_ns = max(before_ns, time_ns)
            if event.get("type") == "O":
                opened.append(event.get("frame"))
            elif opened:
                opened.pop()

    def _end_ns(self) -> int:
        """Where an earlier profile of the same thread ends."""
        rows = self._rows
        return rows.sample_ns[-1] + rows.sample_weight[-1] if rows.sample_ns else 0

    def _stack(self, numbers: list[Any]) -> int:
        known = (number for number in numbers if isinstance(number, int) and 0 <= number < len(self._frames))
        return self._builder.stack(tuple(self._frames[number] for number in known))

    def _ns(self, value: Any) -> int:
        usable = isinstance(value, int | float) and 0 <= value < 1e12
        return round(value * self._unit_ns) if usable else 0


def read_folded(content: Content, builder: TraceBuilder) -> None:
    """Lines of `outer;inner;innermost count`: totals without an order."""
    builder.timed = False
    counts: dict[tuple[tuple[int, str], int], float] = {}
    names_of: dict[tuple[int, str], str] = {}
    strange = 0
    for line in content.lines():
        found = FOLDED.match(line)
        if found is None:
            strange += bool(line.strip())
            continue
        pid, thread, names = _folded_names(found["stack"].split(";"))
        stack = builder.stack(tuple(_folded_frame(builder, name) for name in names))
        number = _THREAD.match(thread)
        key = ((pid, number[1] if number else thread), stack)
        names_of[key[0]] = thread
        counts[key] = counts.get(key, 0.0) + float(found["count"])
    for (where, stack), count in counts.items():
        rows = builder.thread(where, pid=where[0], name=names_of[where])
        builder.sample(rows, 0, round(min(count, 1e9) * _PERIOD_NS), stack)
    builder.doubt(NO_ORDER, "stacks")
    if strange:
        builder.doubt(DAMAGED, "stack_lines", count=strange)


def _folded_names(names: list[str]) -> tuple[int, str, list[str]]:
    """py-spy puts the process and the thread before the functions, where asked to."""
    pid, thread = 0, ""
    if names and (process := re.match(r"process (\d{1,9})\b", names[0])):
        pid, names = int(process[1]), names[1:]
    if names and re.match(r"thread \(", names[0]):
        thread, names = names[0], names[1:]
    return pid, thread, names


def _folded_frame(builder: TraceBuilder, name: str) -> int:
    if (place := _PLACE.match(name)) is not None:
        return builder.frame(frame_at(place["function"], place["file"], int(place["line"] or 0)))
    module, _, function = name.rpartition("`")
    return builder.frame(Frame(function or name, module))


def _frame(builder: TraceBuilder, data: Any) -> int:
    found = _dict(data)
    name, file, line = str(found.get("name", "[unknown]")), str(found.get("file") or ""), found.get("line")
    return builder.frame(frame_at(name, file, line if isinstance(line, int) else 0))


def frame_at(function: str, place: str, line: int) -> Frame:
    """A frame of source, or of a library where its place is one."""
    return Frame(function, place) if not line and _SHARED.search(place) else Frame(function, "", place, line)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
