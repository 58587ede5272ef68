"""The sampling profiler: a thread that notes every few milliseconds what all others are doing."""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from . import rows
from .native import NativeRuntime
from .recorder import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from .patches import Patches

_SECONDS_APART: Final = 0.005
_SECONDS_APART_LATER: Final = 0.01
_QUICK_SAMPLES: Final = 200
_IMPORTLIB: Final = "<frozen importlib"
_DEAREST_SHARE: Final = 0.01
"""Of the time; a sampler that costs more looks less often."""
_DEAR_SAMPLE_NS: Final = 200_000
"""Stacks that were never seen before take long to describe; they must not make the sampler blind for the next ones."""
_FLUSH_NS: Final = 250_000_000
_DEEPEST: Final = 100
_MOST_STACKS: Final = 50_000
_REARM_SECONDS: Final = 1.0

# A thread that wants the interpreter lock waits for this long before it asks for it. With Python's own 5 ms, short
# stretches of Python code between two runs would never be seen; more threads of the program's own get longer turns.
_SWITCH_SECONDS: Final = 0.0001
_SWITCH_SECONDS_WITH_THREADS: Final = 0.001


class Sampler:
    """One thread, outside of `threading`, so that the program does not see it there."""

    def __init__(self, patches: Patches, insist_on_end: Callable[[], None]) -> None:
        self._patches, self._insist_on_end = patches, insist_on_end
        self.main_thread = _main_thread()
        self.native = NativeRuntime()
        self._stacks: dict[tuple[int, ...], int] = {}
        self._codes: dict[int, CodeType] = {}
        self._entries: dict[tuple[int, int], list[Any]] = {}
        self._clocks: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._queued: dict[int, int] = {}
        self._wake = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._running = False
        self.samples = 0
        self.cpu_ns = 0
        self._recent_ns = 0.0
        self._switch_seconds = 0.0

    def start(self) -> None:
        """Begin to sample."""
        self._running = True
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        self._close_clocks()
        self._switch_seconds = sys.getswitchinterval()
        _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """End, and wait for the end. Also before a fork: a child has no such thread, and warns of the parent's."""
        if self._running:
            self._running = False
            self._wake.release()
            self._ended.acquire(timeout=2)
            sys.setswitchinterval(self._switch_seconds)

    def forget_thread(self) -> None:
        """In a forked child, where the thread does not exist."""
        self._running = False
        self._patches.frames_lock = _thread.allocate_lock()
        self.main_thread = _main_thread()

    def _run(self) -> None:
        own = _thread.get_ident()
        flushed = rearmed = time.perf_counter_ns()
        before = time.thread_time_ns()
        ended = self._ended
        try:
            while self._running and not self._wake.acquire(timeout=self._seconds_apart()):
                self._insist_on_end()
                now = time.perf_counter_ns()
                # A thread may end while it is looked at, a dictionary change: one sample less, and no trouble.
                with self._patches.frames_lock, contextlib.suppress(Exception):
                    self._sample(own)
                if now - flushed > _FLUSH_NS:
                    flushed = now
                    with contextlib.suppress(Exception):
                        self._note_threads()
                        self.note_queues()
                        self.native.look_at_threads()
                    self._patches.recorder.flush()
                if now - rearmed > _REARM_SECONDS * 1e9:
                    rearmed = now
                    self._patches.look_again()
                    self.native.look()
                after = time.thread_time_ns()
                self.cpu_ns += after - before
                self._recent_ns += (min(after - before, _DEAR_SAMPLE_NS) - self._recent_ns) / 16
                before = after
        finally:
            ended.release()

    def _seconds_apart(self) -> float:
        usual = _SECONDS_APART if self.samples < _QUICK_SAMPLES else _SECONDS_APART_LATER
        return max(usual, self._recent_ns / 1e9 / _DEAREST_SHARE)

    def _sample(self, own: int) -> None:
        extend = self._patches.recorder.rows.extend
        frames = sys._current_frames()
        # Our own frame holds this dictionary: a circle that would keep all frames, and all in them, alive.
        frames.pop(own, None)
        now = time.perf_counter_ns()
        self.samples += 1
        threads = len(frames)
        while frames:
            thread, frame = frames.popitem()
            if thread not in self._names:
                self._note_threads()
            number = self._stack(frame)
            extend((rows.SAMPLE | number << rows.STACK_SHIFT, thread, now, self._busy_ns(thread)))
        wanted = _SWITCH_SECONDS if threads <= 1 else _SWITCH_SECONDS_WITH_THREADS
        if abs(sys.getswitchinterval() - wanted) > 1e-6:
            sys.setswitchinterval(wanted)

    def _stack(self, frame: FrameType | None) -> int:
        parts: list[int] = []
        codes = self._codes
        while frame is not None and len(parts) < 2 * _DEEPEST:
            code = frame.f_code
            codes[id(code)] = code
            parts += (id(code), frame.f_lasti)
            if code.co_filename.startswith(_IMPORTLIB):
                break  # imports have a new stack at every sample; this much tells that it is one
            frame = frame.f_back
        key = tuple(parts)
        number = self._stacks.get(key)
        if number is None:
            if len(self._stacks) >= _MOST_STACKS:
                return 0
            number = self._stacks[key] = len(self._stacks) + 1
            self._patches.recorder.define({"kind": "stack", "number": number, "frames": self._described(key)})
        return number

    def _described(self, key: tuple[int, ...]) -> list[list[Any]]:
        found = []
        for pair in zip(key[::2], key[1::2], strict=True):
            entry = self._entries.get(pair)
            if entry is None:
                entry = self._entries[pair] = _described(self._codes[pair[0]], pair[1])
            found.append(entry)
        return found

    def _busy_ns(self, thread: int) -> int:
        """The time that the thread ran, or stood ready and waited for a core; -1 where the system does not tell."""
        clock = self._clocks.get(thread)
        if clock is None:
            clock = _open_clock(thread, self.main_thread)
            if clock is None:
                return -1
            self._clocks[thread] = clock
        try:
            ran, queued, _ = os.pread(clock, 80, 0).split()
            self._queued[thread] = int(queued)
            return int(ran) + int(queued)
        except (OSError, ValueError):
            self._clocks.pop(thread, None)  # the thread has ended, and another has its identity
            os.close(clock)
            return -1

    def _close_clocks(self) -> None:
        for clock in self._clocks.values():
            os.close(clock)
        self._clocks.clear()

    def note_native(self) -> None:
        """LiteRT without its Python classes, where there is any."""
        self.native.look()
        self.native.look_at_threads()
        if self.native.libraries:
            self._patches.recorder.note(self.native.line())

    def note_queues(self) -> None:
        """For how long each thread has stood ready and got no core."""
        for thread, queued in list(self._queued.items()):
            self._patches.recorder.note({"kind": "queued", "thread": thread, "ns": queued})

    def _note_threads(self) -> None:
        threading: Any = sys.modules.get("threading")
        known = dict(threading._active) if threading else {}
        for ident, thread in known.items():
            if self._names.get(ident) != thread.name:
                self._names[ident] = thread.name
                self._patches.recorder.define({"kind": "thread", "ident": ident, "name": thread.name})


def _main_thread() -> int:
    threading: Any = sys.modules.get("threading")
    return int(threading.main_thread().ident) if threading else _thread.get_ident()


def _open_clock(thread: int, main_thread: int) -> int | None:
    """Linux's account of a thread, as a file that stays open; None if there is none, or `threading` is not loaded."""
    threading: Any = sys.modules.get("threading")
    known = threading._active.get(thread) if threading else None
    number = os.getpid() if thread == main_thread else getattr(known, "native_id", None)
    try:
        return os.open(f"/proc/self/task/{number}/schedstat", os.O_RDONLY | os.O_CLOEXEC) if number else None
    except OSError:
        return None


def _described(code: CodeType, offset: int) -> list[Any]:
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number:
            line = number
            break
    return [code.co_filename, name_of(code), line]
