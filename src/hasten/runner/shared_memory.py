"""Memory that a parent and a runner on the same machine share: large tensors need not go through the pipe.

The parent makes a file that lives in memory only and hands it down when it starts the runner. A request's frames are
laid into it one after the other, and the message says where: {"shared": {"descriptor", "bytes", "places"}}. Answers
come as ever. Where the system has no such files, and for small requests, everything goes through the pipe. What many
requests need lies in memory that is common to all runners, and is laid there once.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
import weakref
from functools import lru_cache
from typing import Final

from hasten.runner.protocol import Message

# Below this a copy more costs less than what it takes to say where the frames are.
_FEWEST_BYTES: Final = 32 * 1024
_SMALLEST_MEMORY: Final = 1 << 20
# As the engine's own buffers, so that a runner copies from it as fast as it can.
_ALIGNMENT: Final = 64


class SharedMemory:
    """The parent's side. It grows as requests do, and never shrinks: the runner may still look at it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None

    def take_over(self, message: Message) -> Message:
        """The message with its frames laid into the memory, if that pays."""
        views = [memoryview(frame).cast("B") for frame in message.frames if memoryview(frame).nbytes]
        total = sum(len(view) for view in views)
        if total < _FEWEST_BYTES or len(views) != len(message.frames):
            return message
        memory = self._at_least(total)
        places, start = [], 0
        for view in views:
            memory[start : start + len(view)] = view
            places.append((start, len(view)))
            start += len(view)
        return _shared(message, self.descriptor, len(memory), places)

    def close(self) -> None:
        """Let the memory go; safe to call more than once."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor, self._map = -1, None

    def _at_least(self, byte_count: int) -> mmap.mmap:
        if self._map is None or len(self._map) < byte_count:
            size = max(_SMALLEST_MEMORY, 1 << (byte_count - 1).bit_length())
            os.ftruncate(self.descriptor, size)
            self._map = mmap.mmap(self.descriptor, size)
        return self._map


class CommonMemory:
    """Memory that every runner can read that is started while it is there. It is filled once, and freed as a whole when
    nobody holds it any more. Safe to use from several threads."""

    def __init__(self, descriptor: int, byte_count: int) -> None:
        weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor
        os.ftruncate(descriptor, byte_count)  # pages that nothing is written to cost nothing
        self._map = mmap.mmap(descriptor, byte_count)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._used = 0
        self._lock = threading.Lock()
        _COMMON.add(self)

    @property
    def descriptor(self) -> int:
        """What a runner inherits."""
        return self._descriptor

    def take(self, byte_count: int) -> memoryview | None:
        """So many bytes that nobody else has; None where there are no more."""
        with self._lock:
            start, end = self._used, self._used + byte_count
            if end > len(self._map):
                return None
            self._used = end + -end % _ALIGNMENT
        return memoryview(self._map)[start:end]

    def refer(self, message: Message) -> Message | None:
        """The message with places in this memory for its frames; None unless all of them lie here, and that pays."""
        places = [self._place(memoryview(frame)) for frame in message.frames]
        known = [place for place in places if place is not None]
        if len(known) != len(places) or sum(size for _, size in known) < _FEWEST_BYTES:
            return None
        return _shared(message, self._descriptor, len(self._map), known)

    def _place(self, frame: memoryview) -> tuple[int, int] | None:
        if frame.readonly or not frame.nbytes:
            return None
        start = ctypes.addressof(ctypes.c_char.from_buffer(frame)) - self._address
        return (start, frame.nbytes) if 0 <= start <= len(self._map) - frame.nbytes else None


_COMMON: Final[weakref.WeakSet[CommonMemory]] = weakref.WeakSet()


def common_memories() -> tuple[CommonMemory, ...]:
    """Those that a runner should inherit which is started now. Whoever holds them keeps their descriptors from being
    given to another file, which the runner would take for the same."""
    return tuple(_COMMON)


def create_common_memory(byte_count: int) -> CommonMemory | None:
    """None where the system has no files that live in memory only, or none so large."""
    with contextlib.suppress(AttributeError, OSError, OverflowError):
        return CommonMemory(os.memfd_create("hasten samples"), byte_count)
    return None


def create_shared_memory() -> SharedMemory | None:
    """None where the system has no files that live in memory only."""
    with contextlib.suppress(AttributeError, OSError):
        return SharedMemory(os.memfd_create("hasten"))
    return None


def with_shared_frames(message: Message) -> Message:
    """The runner's side: the message as the pipe would have brought it. Its frames are good until it is answered."""
    shared = message.body.pop("shared", None)
    if shared is None:
        return message
    memory = _mapped(int(shared["descriptor"]), int(shared["bytes"]))
    return Message(message.body, tuple(memory[start : start + size] for start, size in shared["places"]))


def _shared(message: Message, descriptor: int, byte_count: int, places: list[tuple[int, int]]) -> Message:
    return Message({**message.body, "shared": {"descriptor": descriptor, "bytes": byte_count, "places": places}})


@lru_cache(maxsize=2)  # a runner's own, and the common one
def _mapped(descriptor: int, byte_count: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, byte_count, access=mmap.ACCESS_READ))
