"""The memory that a model takes: the process's peak since loading began, less what the process held before."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")


class MemoryMeter:
    """Peak resident memory from `start` on."""

    def __init__(self) -> None:
        self._before_kb: int | None = None

    def start(self) -> None:
        """Take what is held now as the base, and let the kernel forget the peak so far."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._before_kb = _status_kb("VmRSS")

    def peak_mb(self) -> float | None:
        """The peak since then above the base, or None where the system does not tell."""
        peak = _status_kb("VmHWM")
        if peak is None or self._before_kb is None:
            return None
        return max(0, peak - self._before_kb) / 1024


def _status_kb(name: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return None
