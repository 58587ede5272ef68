"""Files of strangers, opened only where they are files: a pipe would block its reader, and a device may never end."""

from __future__ import annotations

import errno
import stat
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def open_regular(path: Path) -> IO[bytes]:
    """The file for reading; an OSError for a folder, a pipe or a device."""
    if not stat.S_ISREG(path.stat().st_mode):  # before it is opened, as even that can block
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.open("rb")
