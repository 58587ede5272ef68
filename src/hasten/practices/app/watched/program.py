"""The user's own program, started with the watch inside, up to its end, however it ends.

The one place outside of `targets` that starts a process: this one is the user's, with the user's terminal.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hasten.watcher
from hasten.core.errors import UsageError
from hasten.watcher.rows import FOLDER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_INJECTED: Final = Path(hasten.watcher.__file__).parent / "inject"
_FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP)
_SIGNAL_BASE: Final = 128


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    code: int
    """As a shell reports it: 128 plus the signal's number if a signal ended the program."""
    began_ns: int
    ended_ns: int

    @property
    def wall_ms(self) -> float:
        """From its start to its end."""
        return (self.ended_ns - self.began_ns) / 1e6


def run_program(command: Sequence[str], folder: Path, *, output: int | None = None) -> Ended:
    """Run a program to its end. `output` is where its standard output goes, if not where ours does."""
    environment = {**os.environ, FOLDER_VARIABLE: str(folder), "PYTHONPATH": _python_path()}
    if shutil.which(command[0]) is None:
        raise UsageError(f"There is no program {command[0]!r}.", "Example: hasten app -- python app.py")
    began_ns = time.perf_counter_ns()
    try:
        process = subprocess.Popen(list(command), env=environment, stdout=output)
    except OSError as error:
        raise UsageError(
            f"{command[0]} cannot be started: {error.strerror}.", "Check that it is an executable file."
        ) from error
    code = _wait(process)
    return Ended(code if code >= 0 else _SIGNAL_BASE - code, began_ns, time.perf_counter_ns())


def _python_path() -> str:
    before = os.environ.get("PYTHONPATH", "")
    return f"{_INJECTED}{os.pathsep}{before}" if before else str(_INJECTED)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end. The terminal sends Ctrl-C to the program as well; other signals are forwarded to it."""
    if threading.current_thread() is not threading.main_thread():
        return process.wait()

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before: dict[int, Any] = {number: signal.signal(number, forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
