"""Synthetic work beside the model: a child process that keeps cores busy for as long as it is open."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Final, Protocol

from hasten.core.failure import Failure, RunnerFailed
from hasten.runner.load import READY

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS_TO_CLOSE: Final = 2.0


class Load(Protocol):
    """Work that goes on beside a model. Use it in a `with`, so that it ends whatever happens."""

    def __enter__(self) -> Load: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """RunnerFailed if it has ended before its time."""
        ...

    def close(self) -> None:
        """End the work."""
        ...


class ProcessLoad:
    """A program that says "ready", works, and ends when its standard input is closed."""

    def __init__(self, command: Sequence[str], ready_seconds: float) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise RunnerFailed(_trouble(f"cannot be started: {error.strerror or error}")) from error
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
            raise RunnerFailed(_trouble(f"ended by itself with status {self._process.returncode}", self._last_words()))

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
        self._process.stdout.close()
        self._log.close()

    def _wait_until_ready(self, seconds: float) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise RunnerFailed(_trouble(f"did not begin within {seconds:g} s"))
        if os.read(self._process.stdout.fileno(), len(READY)) != READY:
            raise RunnerFailed(_trouble("did not begin", self._last_words()))

    def _last_words(self) -> tuple[str, ...]:
        size = os.fstat(self._log.fileno()).st_size
        return tuple(os.pread(self._log.fileno(), size, 0).decode(errors="replace").splitlines()[-6:])


def _trouble(what: str, log: tuple[str, ...] = ()) -> Failure:
    return Failure("start", "target", f"the work beside the model {what}", log=log)
