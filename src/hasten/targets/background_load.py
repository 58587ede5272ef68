"""Synthetic work next to the model: a child process that keeps cores busy for as long as it is open."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Final, Protocol

from hasten.core.failure import Failure, RunnerFailed
from hasten.runner.background_load import READY

if TYPE_CHECKING:
    from hasten.targets.link import Program

NAME: Final = "background load"
_SECONDS_TO_CLOSE: Final = 2.0
_PIECE_BYTES: Final = 4096


class BackgroundLoad(Protocol):
    """Work that goes on next to a model. Use it in a `with`, so that it ends whatever happens."""

    def __enter__(self) -> BackgroundLoad: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """RunnerFailed if it has ended before its time."""

    def close(self) -> None:
        """End the work."""


class ProcessLoad:
    """A program that says "ready", works, and ends when its standard input is closed."""

    def __init__(self, program: Program, ready_seconds: float) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._device = program.device
        try:
            self._process = program.start(self._log)
        except RunnerFailed:
            self._log.close()
            raise
        try:
            self._wait_until_ready(ready_seconds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ProcessLoad:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id, which is its group's as well."""
        return self._process.pid

    def check(self) -> None:
        """RunnerFailed if it has ended before its time."""
        if self._process.poll() is not None:
            raise RunnerFailed(_trouble(f"ended by itself with status {self._process.returncode}", self._last_lines()))

    def close(self) -> None:
        """End the work. Safe to call more than once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_CLOSE)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._device is not None:
            self._device.release()
            self._device = None
        self._process.stdout.close()
        self._log.close()

    def _wait_until_ready(self, seconds: float) -> None:
        assert self._process.stdout is not None
        deadline, seen = time.monotonic() + seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while READY not in seen:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise RunnerFailed(_trouble(f"did not start within {seconds:g} s"))
                piece = os.read(self._process.stdout.fileno(), _PIECE_BYTES)
                if not piece:
                    raise RunnerFailed(_trouble("did not start", self._last_lines()))
                seen = seen[-len(READY) :] + piece

    def _last_lines(self) -> tuple[str, ...]:
        size = os.fstat(self._log.fileno()).st_size
        return tuple(os.pread(self._log.fileno(), size, 0).decode(errors="replace").splitlines()[-6:])


def load_arguments(kind: str, workers: int) -> tuple[str, ...]:
    """What the program must know."""
    return ("--kind", kind, "--workers", str(workers))


def _trouble(what: str, log: tuple[str, ...] = ()) -> Failure:
    return Failure("start", "target", f"The {NAME} {what}.", log=log)
