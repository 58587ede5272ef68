"""Memory that a parent and a runner on the same machine share: large tensors need not go through the pipe.

The parent makes a file that lives in memory only and hands it down when it starts the runner. A request's frames are
laid into it one after the other, and the message says where: {"shared": {"descriptor", "bytes", "sizes"}}. Answers come
as ever. Where the system has no such files, and for small requests, everything goes through the pipe.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from functools import lru_cache
from typing import Final

from hasten.runner.protocol import Message

# Below this a copy more costs less than what it takes to say where the frames are.
_FEWEST_BYTES: Final = 32 * 1024
_SMALLEST_MEMORY: Final = 1 << 20


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
        start = 0
        for view in views:
            memory[start : start + len(view)] = view
            start += len(view)
        shared = {"descriptor": self.descriptor, "bytes": len(memory), "sizes": [len(view) for view in views]}
        return Message({**message.body, "shared": shared})

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
    frames, start = [], 0
    for size in shared["sizes"]:
        frames.append(memory[start : start + size])
        start += size
    return Message(message.body, tuple(frames))


@lru_cache(maxsize=1)
def _mapped(descriptor: int, byte_count: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, byte_count, access=mmap.ACCESS_READ))
