"""Collects what is seen, and writes it bit by bit, so that a crash loses only what came after the last flush."""

from __future__ import annotations

import _thread
import array
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from . import rows
from .bytecode import fate_of_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_LONGEST_CHAIN: Final = 40
_EXAMINED_AT_FIRST: Final = 6
_MOST_ROWS: Final = 20_000_000
"""Of one process; 640 MB. Later ones are counted only."""
PATCHED: Final = "_hasten_watched"
NUMBER: Final = "_hasten_number"
"""Attributes of a class that is patched, and of its instances."""


class Place:
    """A call of LiteRT in the program's code."""

    __slots__ = ("code", "fate", "left", "number", "offset", "runs")

    def __init__(self, number: int, code: CodeType, offset: int, fate: str) -> None:
        self.number = number
        self.code = code
        self.offset = offset
        self.fate = fate
        self.left = _EXAMINED_AT_FIRST
        """How many of its next calls are examined closely."""
        self.runs = 0


# Interpreters live on when a watch ends, and may meet the next one: their numbers are never given twice.
_described_objects: dict[int, dict[str, Any]] = {}


class Recorder:
    """What one process has seen and not yet written."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.rows: list[int] = []
        self.places: dict[tuple[int, int], Place] = {}
        self.flush_lock = _thread.allocate_lock()
        self.on_new_place: Callable[[], None] = lambda: None
        self._flushers: set[int] = set()
        """Threads that write, or are about to."""
        self._waiting: list[Callable[[], None]] = []
        self._files: tuple[int, int, int] | None = None
        self._inodes: tuple[int, ...] = ()
        self._definitions: list[dict[str, Any]] = list(_described_objects.values())
        self._lines: list[dict[str, Any]] = list(self._definitions)
        self._written = 0
        self._left_out = 0

    def place(self, frame: FrameType) -> Place:
        """The place of a call, by the frame that calls; described when first seen."""
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        found = self.places.get(key)
        if found is None:
            # The code object is kept, so that its id is not given to another one.
            found = self.places[key] = Place(len(self.places), code, frame.f_lasti, fate_of_result(frame))
            self.define({"kind": "place", "number": found.number, "fate": found.fate, "chain": chain(frame)})
            self.on_new_place()
        return found

    def new_object(self, description: dict[str, Any]) -> int:
        """A number for an interpreter or compiled model."""
        number = min(len(_described_objects) + 1, rows.OBJECT_MASK)
        _described_objects[number] = line = {"kind": "object", "number": number, **description}
        self.define(line)
        return number

    def number_of(self, instance: Any) -> int:
        """The number of an interpreter or compiled model; one made before the watch began gets it now."""
        found = instance.__dict__.get(NUMBER)
        if found is None:
            found = self.new_object({"type": type(instance).__name__, "package": type(instance).__module__})
            setattr(instance, NUMBER, found)
        return int(found)

    def add_call(self, kind: int, number: int, place: int, start: int, end: int) -> None:
        """A row for a call of LiteRT."""
        code = kind | number << rows.OBJECT_SHIFT | place << rows.PLACE_SHIFT
        self.rows.extend((code, _thread.get_ident(), start, end))

    def define(self, line: dict[str, Any]) -> None:
        """A line that the rows refer to: a forked child needs it too."""
        self._definitions.append(line)
        self._lines.append(line)

    def note(self, line: dict[str, Any]) -> None:
        """A line of its own."""
        self._lines.append(line)

    def flush(self) -> None:
        """Write what there is. Never raises: a full disk must not end the program that is watched."""
        thread = _thread.get_ident()
        self._flushers.add(thread)
        try:
            if not self.flush_lock.acquire(timeout=1):
                return  # a signal came in the middle of a flush
            try:
                self._flush()
            except (OSError, ValueError, OverflowError):
                self._left_out += 1
            finally:
                self.flush_lock.release()
        finally:
            self._flushers.discard(thread)
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            step()

    def put_off(self, step: Callable[[], None]) -> bool:
        """Where a signal finds this thread in the middle of a flush: let the step wait for its end."""
        if _thread.get_ident() not in self._flushers:
            return False
        self._waiting.append(step)
        return True

    def begin_again(self) -> None:
        """After a fork: what the parent has not written yet is the parent's; the child has a file of its own."""
        self.flush_lock = _thread.allocate_lock()
        self._flushers.clear()
        self.rows.clear()
        self._lines = list(self._definitions)
        self._written = 0

    def _flush(self) -> None:
        lines_file, rows_file = self._open()
        lines, self._lines = self._lines, []
        if lines:
            text = "".join(json.dumps(line, default=str) + "\n" for line in lines)
            os.write(lines_file, text.encode("utf-8", "replace"))
        count = len(self.rows)
        chunk = self.rows[:count]
        del self.rows[:count]
        if self._written >= _MOST_ROWS:
            self._left_out += count // rows.INTEGERS_A_ROW
            return
        if chunk:
            os.write(rows_file, array.array("q", chunk))
            self._written += count // rows.INTEGERS_A_ROW

    def _open(self) -> tuple[int, int]:
        """The two files of this process, which stay open; a program that closes them all gets them anew."""
        if self._files is not None and self._files[0] == os.getpid() and self._are_ours(self._files[1:]):
            return self._files[1], self._files[2]
        base = os.path.join(self.folder, str(os.getpid()))  # noqa: PTH118 (pathlib is slow to import)
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        lines, binary = (os.open(base + suffix, how, 0o600) for suffix in (rows.LINES_SUFFIX, rows.ROWS_SUFFIX))
        self._files = (os.getpid(), lines, binary)
        self._inodes = (os.fstat(lines).st_ino, os.fstat(binary).st_ino)
        return lines, binary

    def _are_ours(self, files: tuple[int, ...]) -> bool:
        """Whether these numbers still mean our files: a daemon closes all that it did not open itself."""
        try:
            return tuple(os.fstat(number).st_ino for number in files) == self._inodes
        except OSError:
            return False

    @property
    def left_out(self) -> int:
        """Rows that were seen and not kept."""
        return self._left_out


def chain(frame: FrameType | None) -> list[list[Any]]:
    """File, function and line of a frame and of those that called it."""
    found: list[list[Any]] = []
    while frame is not None and len(found) < _LONGEST_CHAIN:
        code = frame.f_code
        found.append([code.co_filename, name_of(code), frame.f_lineno or code.co_firstlineno])
        frame = frame.f_back
    return found


def name_of(code: CodeType) -> str:
    """The function's name, with its class where Python tells it."""
    return str(getattr(code, "co_qualname", code.co_name)) if sys.version_info >= (3, 11) else code.co_name
