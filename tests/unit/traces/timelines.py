"""An application's life as sections on threads, from which each format's samples are constructed.

The names are those that TFLite's profilers write with debug.tflite.trace on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PID: Final = 4100
MAIN: Final = PID
WORKER: Final = 4123
OTHER: Final = 777
PROCESS: Final = "com.example.camera"


@dataclass(frozen=True)
class Section:
    """A named stretch of time, in microseconds."""

    tid: int
    begin_us: int
    end_us: int
    name: str


@dataclass
class Timeline:
    """All sections, in an order in which outer ones come first, and when a thread had no core."""

    sections: list[Section] = field(default_factory=list)
    off_core: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(tid, from, to, whether it was ready and waited for a core)"""
    names: dict[int, str] = field(default_factory=lambda: {MAIN: "main", WORKER: "inference"})

    def add(self, tid: int, begin_us: int, end_us: int, name: str) -> None:
        """A section."""
        self.sections.append(Section(tid, begin_us, end_us, name))

    def edges(self) -> list[tuple[int, int, str | None]]:
        """(time, tid, name or None at an end) in the order of time, as a tracer sees them."""
        found: list[tuple[int, int, int, int, str | None]] = []
        for order, section in enumerate(self.sections):
            found.append((section.begin_us, 1, order, section.tid, section.name))
            found.append((section.end_us, 0, -order, section.tid, None))
        return [(time, tid, name) for time, _, _, tid, name in sorted(found, key=lambda edge: edge[:3])]


@dataclass(frozen=True)
class Faults:
    """What is planted in the application."""

    reloads: bool = False
    allocates: bool = False
    cold: bool = False
    on_main: bool = False
    slow_pre: bool = False
    no_core: bool = False


NONE: Final = Faults()


def camera(faults: Faults = NONE, frames: int = 20) -> Timeline:
    """Loads a model on its worker, then takes frames: convert, infer, show; 5 ms of waiting between two."""
    life = Timeline()
    tid = MAIN if faults.on_main else WORKER
    clock = 1_000_000
    if faults.on_main:
        life.add(MAIN, clock - 9_000, clock - 1_000, "Choreographer#doFrame")
    clock = _load(life, tid, clock)
    for frame in range(frames):
        begin = clock
        pre_us = 12_000 if faults.slow_pre else 2_000
        life.add(tid, begin, begin, "processFrame")
        at = len(life.sections) - 1
        clock += 10
        life.add(tid, clock, clock + pre_us, "convertToBitmap")
        clock += pre_us + 10
        if faults.reloads and frame:
            clock = _load(life, tid, clock)
        if faults.allocates and frame:
            life.add(tid, clock, clock + 900, "AllocateTensors@0/0")
            clock += 910
        clock = _infer(life, tid, clock, slower_us=60_000 if faults.cold and not frame else 0, no_core=faults.no_core)
        life.add(tid, clock, clock + 500, "updateOverlay")
        clock += 510
        life.sections[at] = Section(tid, begin, clock, "processFrame")
        life.off_core.append((tid, clock + 10, clock + 4_990, False))
        clock += 5_000
    return life


def _load(life: Timeline, tid: int, clock: int) -> int:
    life.add(tid, clock, clock + 30_000, "ModifyGraphWithDelegate@0/0")
    life.add(tid, clock + 28_000, clock + 29_900, "AllocateTensors@0/0")
    life.add(tid, clock + 30_010, clock + 30_110, "AllocateTensors@0/0")
    return clock + 30_200


def _infer(life: Timeline, tid: int, clock: int, *, slower_us: int, no_core: bool) -> int:
    life.add(tid, clock, clock + 8_000 + slower_us, "Invoke@0/0")
    life.add(tid, clock + 20, clock + 5_020 + slower_us, "TfLiteXNNPackDelegate@66/0")
    after = clock + 5_030 + slower_us
    life.add(tid, after, after + 1_500, "RESIZE_BILINEAR@60/0")
    life.add(tid, after + 1_510, after + 2_510, "TfLiteXNNPackDelegate@67/0")
    life.add(tid, after + 2_520, after + 2_820, "CONV_2D@64/0")
    if no_core:
        life.off_core.append((tid, clock + 1_000, clock + 3_000, True))
    return clock + 8_010 + slower_us
