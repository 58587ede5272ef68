"""Perfetto's protobuf traces (Android's System Tracing, Perfetto's own library), packet by packet."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.platform_trace import DAMAGED, LOST_EVENTS, TOO_LARGE, TRUNCATED
from hasten.traces.marks import Marks
from hasten.traces.perfetto_ftrace import KernelEvents
from hasten.traces.perfetto_tracks import Sequence, TrackEvents
from hasten.traces.wire import Malformed, bytes_tag, fields, number_tag, signed, text, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.traces.builder import TraceBuilder
    from hasten.traces.content import Content

PACKET: Final = bytes_tag(1)
# Field numbers of TracePacket and its parts, from Perfetto's own definitions.
_FTRACE, _PROCESS_TREE, _CLOCK_SNAPSHOT, _TRACK_EVENT, _INTERNED = (bytes_tag(field) for field in (1, 2, 6, 11, 12))
_STATS, _PROCESS, _THREAD, _COMPRESSED, _DEFAULTS = (bytes_tag(field) for field in (35, 43, 44, 50, 59))
_DESCRIPTOR, _SAMPLE = bytes_tag(60), bytes_tag(66)
_TIME, _SEQUENCE, _FLAGS, _CLEARED, _DROPPED, _CLOCK = (number_tag(field) for field in (8, 10, 13, 41, 42, 58))
_DEFAULT_EVENT, _DEFAULT_CLOCK, _DEFAULT_TRACK = bytes_tag(11), number_tag(58), number_tag(11)
_TREE_PROCESS, _TREE_THREAD = bytes_tag(1), bytes_tag(2)
_TREE_PID, _TREE_CMDLINE = number_tag(1), bytes_tag(3)
_TREE_TID, _TREE_THREAD_NAME, _TREE_TGID = number_tag(1), bytes_tag(2), number_tag(3)
_BUFFER, _OVERWRITTEN, _LOST_PACKETS = bytes_tag(1), number_tag(3), number_tag(19)
_BOOTTIME: Final = 6
_FIRST_OF_SEQUENCE, _LAST_OF_SEQUENCE = 64, 127
_READING: Final = bytes_tag(1)
_READING_CLOCK, _READING_TIME, _READING_INCREMENTAL, _READING_UNIT = (number_tag(field) for field in (1, 2, 3, 4))
_TELLING: Final = frozenset({_TIME, _SEQUENCE, _FTRACE, _PROCESS_TREE, _COMPRESSED, _STATS})
_RARE: Final = frozenset(
    {_DEFAULTS, _INTERNED, _CLOCK_SNAPSHOT, _DESCRIPTOR, _DROPPED, _PROCESS_TREE, _PROCESS, _THREAD, _STATS}
)
_MOST_PACKET: Final = 64 << 20
_MOST_UNPACKED_AT_ONCE: Final = 32 << 20
_MOST_UNPACKED: Final = 4 << 30
_MOST_SOUGHT: Final = 1 << 20
"""A packet larger than this is not looked for after damage: each candidate is read as a whole."""
_FAR: Final = 4 << 20


def read_perfetto(content: Content, builder: TraceBuilder) -> None:
    """All packets that can be read."""
    reader = _Reader(builder)
    for packet in _packets(content, builder):
        reader.add(packet)
    reader.finish()


class _Reader:
    """What packets mean, one after the other."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._marks = Marks(builder)
        self._kernel = KernelEvents(builder, self._marks)
        self._tracks = TrackEvents(builder)
        self._clocks = _Clocks()
        self._sequences: dict[int, Sequence] = {}
        self._unpacked = 0
        self._damaged = 0

    def add(self, packet: bytes, *, nested: bool = False) -> None:
        """One packet; one that is damaged costs itself only."""
        try:
            found = fields(packet)
            values: dict[int, Any] = dict(found)
            if _FTRACE in values:
                self._kernel.add_bundle(values[_FTRACE])
            elif _COMPRESSED in values and not nested:
                self._add_compressed(values[_COMPRESSED])
            else:
                self._add_other(values)
        except Malformed:
            self._damaged += 1

    def finish(self) -> None:
        """Put together what came in pieces, and say what was lost."""
        self._marks.finish()
        self._tracks.finish()
        self._builder.weigh_samples()
        if self._damaged:
            self._builder.doubt(DAMAGED, "packets", count=self._damaged)
        if self._tracks.nameless:
            self._builder.doubt(LOST_EVENTS, "names", count=self._tracks.nameless)

    def _add_other(self, values: dict[int, Any]) -> None:
        number = values.get(_SEQUENCE, 0)
        sequence = self._sequences.get(number)
        if sequence is None:
            sequence = self._sequences[number] = Sequence(number)
        if values.get(_FLAGS, 0) & 1 or _CLEARED in values:
            sequence.forget()
        if not _RARE.isdisjoint(values):
            self._add_rare(sequence, values)
        if _TRACK_EVENT in values:
            self._tracks.add_event(sequence, self._time_ns(sequence, values), values[_TRACK_EVENT])
        elif _SAMPLE in values:
            self._tracks.add_sample(sequence, self._time_ns(sequence, values), values[_SAMPLE])

    def _add_rare(self, sequence: Sequence, values: dict[int, Any]) -> None:
        """What later events lean on, and so comes before them."""
        if _DEFAULTS in values:
            self._add_defaults(sequence, values[_DEFAULTS])
        if _INTERNED in values:
            sequence.add_interned(values[_INTERNED])
        if _CLOCK_SNAPSHOT in values:
            self._clocks.add_snapshot(sequence.number, values[_CLOCK_SNAPSHOT])
        if _DESCRIPTOR in values:
            self._tracks.add_descriptor(values[_DESCRIPTOR])
        self._add_facts(values)

    def _add_facts(self, values: dict[int, Any]) -> None:
        if _DROPPED in values:
            self._builder.doubt(LOST_EVENTS, "dropped")
        if _PROCESS_TREE in values:
            self._add_tree(values[_PROCESS_TREE])
        if _PROCESS in values:
            self._tracks.add_process(values[_PROCESS])
        if _THREAD in values:
            self._tracks.add_thread(values[_THREAD])
        if _STATS in values:
            self._add_stats(values[_STATS])

    def _time_ns(self, sequence: Sequence, values: dict[int, Any]) -> int:
        clock = values.get(_CLOCK, sequence.default_clock)
        return self._clocks.trace_ns(sequence.number, clock, values.get(_TIME, 0))

    def _add_defaults(self, sequence: Sequence, data: bytes) -> None:
        values = dict(fields(data))
        sequence.default_clock = values.get(_DEFAULT_CLOCK, 0)
        sequence.default_track = dict(fields(values.get(_DEFAULT_EVENT, b""))).get(_DEFAULT_TRACK, 0)

    def _add_tree(self, data: bytes) -> None:
        for tag, value in fields(data):
            entry: dict[int, Any] = {}
            for key, part in fields(value) if tag in (_TREE_PROCESS, _TREE_THREAD) else ():
                entry.setdefault(key, part)  # of a command line the first word
            if tag == _TREE_PROCESS and (pid := entry.get(_TREE_PID, 0)):
                self._builder.processes[pid] = text(entry.get(_TREE_CMDLINE, b""))
                self._builder.thread(pid, pid=pid, tid=pid)
            elif tag == _TREE_THREAD and (tid := entry.get(_TREE_TID, 0)):
                name = text(entry.get(_TREE_THREAD_NAME, b""))
                self._builder.thread(tid, pid=entry.get(_TREE_TGID, 0), tid=tid, name=name)

    def _add_stats(self, data: bytes) -> None:
        for tag, value in fields(data):
            if tag == _BUFFER:
                stats = dict(fields(value))
                if stats.get(_OVERWRITTEN):
                    self._builder.doubt(LOST_EVENTS, "overwritten")
                if stats.get(_LOST_PACKETS):
                    self._builder.doubt(LOST_EVENTS, "packets", count=stats[_LOST_PACKETS])

    def _add_compressed(self, data: bytes) -> None:
        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(data, min(_MOST_UNPACKED_AT_ONCE, max(1, _MOST_UNPACKED - self._unpacked)))
        except zlib.error:
            raise Malformed("compressed packets that do not unpack") from None
        self._unpacked += len(unpacked)
        if unpacker.unconsumed_tail:
            self._builder.doubt(TOO_LARGE, "unpacked", limit=_MOST_UNPACKED)
        elif not unpacker.eof:
            self._damaged += 1
        position = 0
        while position < len(unpacked) and self._builder.takes_event():
            begin, end = _extent(unpacked[position : position + 11], position)
            if not begin or end > len(unpacked):
                self._damaged += 1
                return
            self.add(unpacked[begin:end], nested=True)
            position = end


@dataclass(slots=True)
class _Clock:
    offset_ns: int
    unit_ns: int
    incremental: bool
    last: int


class _Clocks:
    """Each packet may tell time on another clock; all become the trace's own, BOOTTIME, by its snapshots of them. One
    that no snapshot speaks of is taken as BOOTTIME."""

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], _Clock] = {}

    def add_snapshot(self, sequence: int, data: bytes) -> None:
        """All clocks at one moment."""
        readings = [dict(fields(value)) for tag, value in fields(data) if tag == _READING]
        boots = (reading for reading in readings if reading.get(_READING_CLOCK) == _BOOTTIME)
        boot_ns = next((reading.get(_READING_TIME, 0) for reading in boots), None)
        if boot_ns is None:
            return
        for reading in readings:
            clock, last = reading.get(_READING_CLOCK, 0), reading.get(_READING_TIME, 0)
            unit_ns = max(1, reading.get(_READING_UNIT, 1))
            self._clocks[self._key(sequence, clock)] = _Clock(
                boot_ns - last * unit_ns, unit_ns, bool(reading.get(_READING_INCREMENTAL)), last
            )

    def trace_ns(self, sequence: int, clock: int, value: int) -> int:
        """A packet's time on the trace's clock; packets of an incremental clock must come in order."""
        found = self._clocks.get(self._key(sequence, clock or _BOOTTIME))
        if found is None or clock in (0, _BOOTTIME):
            return value
        if found.incremental:
            found.last += value
            value = found.last
        return found.offset_ns + value * found.unit_ns

    @staticmethod
    def _key(sequence: int, clock: int) -> tuple[int, int]:
        return (sequence if _FIRST_OF_SEQUENCE <= clock <= _LAST_OF_SEQUENCE else 0, clock)


def _packets(content: Content, builder: TraceBuilder) -> Iterator[bytes]:
    """Packets one after the other; after damage, from the next place on that looks like packets again."""
    data, position, size = content.data, 0, content.size
    while position < size:
        begin, end = _extent(data[position : position + 11], position)
        if end > size and begin and end - size < _MOST_PACKET and _next_packet(content, position + 1) is None:
            builder.doubt(TRUNCATED, "packet", bytes=end - size)
            return
        if not begin or end > size or end - begin > _MOST_PACKET:
            builder.doubt(DAMAGED, "no_packet", position=position)
            again = _next_packet(content, position + 1)
            if again is None:
                return
            position = again
            continue
        yield data[begin:end]
        position = end
        content.told(position)


def _extent(head: bytes, position: int) -> tuple[int, int]:
    """Where the packet that begins here has its content; (0, 0) where none begins."""
    if not head or head[0] != PACKET:
        return 0, 0
    try:
        length, used = varint(head, 1)
    except Malformed:
        return 0, 0
    return position + used, position + used + length


def _next_packet(content: Content, position: int) -> int | None:
    """The next place from which three packets follow each other, or fewer up to the file's end."""
    data, size = content.data, content.size
    last = min(size, position + _FAR)
    while (position := data.find(b"\x0a", position, last)) >= 0:
        at, followed = position, 0
        while at < size and followed < 3:
            begin, end = _extent(data[at : at + 11], at)
            if not begin or end > min(size, begin + _MOST_SOUGHT) or not _is_packet(data[begin:end]):
                break
            at, followed = end, followed + 1
        if followed == 3 or (followed and at == size):
            return position
        position += 1
    return None


def _is_packet(data: bytes) -> bool:
    """Whether these bytes are a message with a field that every packet of worth has. Texts are full of line ends."""
    try:
        return any(tag in _TELLING for tag, _ in fields(data))
    except Malformed:
        return False


def looks_like_perfetto(head: bytes) -> bool:
    """Whether a file's first bytes are a packet with fields that packets have."""
    begin, end = _extent(head[:11], 0)
    if not begin or signed(end) > _MOST_PACKET:
        return False
    if end > len(head):
        return b"\0" in head[:4096] or any(byte >= 0x80 for byte in head[:64])
    try:
        return bool(fields(head[begin:end])) and (end == len(head) or head[end] == PACKET)
    except Malformed:
        return b"\0" in head
