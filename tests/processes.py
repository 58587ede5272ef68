"""What tests ask of processes that are not their children."""

from __future__ import annotations

import os
import select
from typing import Final

_PATIENCE_S: Final = 30.0


def has_ended(pid: int) -> bool:
    """Wait for a process to end; False if it is still there after half a minute."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], _PATIENCE_S)[0])
    finally:
        os.close(descriptor)
