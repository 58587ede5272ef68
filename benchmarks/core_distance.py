"""How far apart the first two cores are just now: the round trip of a line of cache, in nanoseconds.

A host moves the virtual cores of a machine between physical ones. Where these share no cache, two threads of a small
model take up to 1.8 times as long, and one thread takes as long as ever: a choice that was right an hour ago is then
wrong, and a result should tell. `None` where that cannot be measured: one core, or no compiler.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_suffix(".c")
_SECONDS: Final = 20.0


def round_trip_ns() -> int | None:
    """The median of nine times 20,000 trips; about 0.2 s."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        program = f"{folder}/core_distance"
        commands = ["cc", "-O2", "-pthread", "-o", program, str(_SOURCE)], [program, *map(str, cores[:2])]
        try:
            _, answer = (
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
                for command in commands
            )
        except (OSError, subprocess.SubprocessError):
            return None
    return int(answer.stdout)
