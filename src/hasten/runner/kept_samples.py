"""Samples that a device keeps for a session: the next model's evaluation then need not send them again.

Each is a file, named by the SHA-256 of its content, with the frames of one sample in the form of `protocol`. Where the
device has little room, a sample is just not kept. The agent removes the folder when its session ends.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Final

from hasten.runner.protocol import Message, ProtocolError, decode, encode, whole

_LEAST_FREE_BYTES: Final = 256 << 20
_LEAST_FREE_SHARE: Final = 0.1


class KeptSamples:
    """The files of one folder. Several runners may write there at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, key: str, frames: tuple[bytes | memoryview, ...]) -> bool:
        """Keep a sample, unless there is no room; whether it is there now."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not self._has_room(sum(memoryview(frame).nbytes for frame in frames)):
                return False
            part = self._folder / f"{os.getpid()}.part"
            with part.open("wb") as file:
                for piece in encode(Message({}, frames)):
                    file.write(piece)
            part.replace(self._path(key))
        except OSError:
            with contextlib.suppress(OSError):
                (self._folder / f"{os.getpid()}.part").unlink()
            return False
        return True

    def read(self, key: str) -> tuple[bytes | memoryview, ...] | None:
        """The frames of a sample; None if it is not there."""
        try:
            with self._path(key).open("rb") as file:
                return decode(partial(whole, file.read)).frames
        except (OSError, EOFError, ProtocolError):
            return None

    def _path(self, key: str) -> Path:
        return self._folder / Path(key).name

    def _has_room(self, needed: int) -> bool:
        status = os.statvfs(self._folder)
        free, whole = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
        return free - needed > max(_LEAST_FREE_BYTES, _LEAST_FREE_SHARE * whole)
