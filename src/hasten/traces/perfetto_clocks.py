"""Perfetto's clocks: each packet may tell time on another one; all become the trace's own, BOOTTIME."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hasten.traces.wire import bytes_tag, fields, number_tag

BOOTTIME: Final = 6
_FIRST_OF_SEQUENCE, _LAST_OF_SEQUENCE = 64, 127
_CLOCK: Final = bytes_tag(1)
_ID, _TIME, _INCREMENTAL, _UNIT = (number_tag(field) for field in (1, 2, 3, 4))


@dataclass(slots=True)
class _Clock:
    offset_ns: int
    unit_ns: int
    incremental: bool
    last: int


class Clocks:
    """What the snapshots in the trace say of its clocks; a clock that none speaks of is taken as BOOTTIME."""

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], _Clock] = {}

    def add_snapshot(self, sequence: int, data: bytes) -> None:
        """All clocks at one moment."""
        readings = [dict(fields(value)) for tag, value in fields(data) if tag == _CLOCK]
        boot_ns = next((reading.get(_TIME, 0) for reading in readings if reading.get(_ID) == BOOTTIME), None)
        if boot_ns is None:
            return
        for reading in readings:
            clock, last = reading.get(_ID, 0), reading.get(_TIME, 0)
            unit_ns = max(1, reading.get(_UNIT, 1))
            self._clocks[self._key(sequence, clock)] = _Clock(
                boot_ns - last * unit_ns, unit_ns, bool(reading.get(_INCREMENTAL)), last
            )

    def trace_ns(self, sequence: int, clock: int, value: int) -> int:
        """A packet's time on the trace's clock; packets of an incremental clock must come in order."""
        found = self._clocks.get(self._key(sequence, clock or BOOTTIME))
        if found is None or clock in (0, BOOTTIME):
            return value
        if found.incremental:
            found.last += value
            value = found.last
        return found.offset_ns + value * found.unit_ns

    @staticmethod
    def _key(sequence: int, clock: int) -> tuple[int, int]:
        return (sequence if _FIRST_OF_SEQUENCE <= clock <= _LAST_OF_SEQUENCE else 0, clock)
