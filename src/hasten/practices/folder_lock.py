"""One run at a time in a folder that results go to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """Keeps a second run out of a folder: the system takes it back when its process ends, however that happens."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        try:
            import fcntl
        except ImportError:  # Windows: two runs at once are the user's to avoid
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(
                f"another run is at work in {folder}", "Wait for it to end, or choose another folder with -o."
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others in. Safe to call more than once."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
