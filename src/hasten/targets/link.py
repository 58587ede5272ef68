"""A runner behind a pair of pipes: requests with a time limit, and a clean end whatever state it is in."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.runner.protocol import Message, ProtocolError, decode, encode, whole
from hasten.runner.serving import LIFELINE
from hasten.runner.shared_memory import create_shared_memory
from hasten.targets.diagnosis import diagnosed
from hasten.targets.exit_cause import cause_of_death, memory_kills

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LOG_LINES: Final = 20
_LOG_TAIL_BYTES: Final = 65_536
_SECONDS_TO_CLOSE: Final = 2.0
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """A command of this machine: the runner itself, or one that reaches a runner on a device."""

    command: tuple[str, ...]
    name: str = "runner"
    """What messages call it."""
    is_here: bool = True
    """It runs on this machine: it can share memory, and this kernel's counters show why it died."""
    environment: Mapping[str, str] | None = None
    """In place of this process's own environment."""
    folder: Path | None = None
    """In place of this process's working folder."""

    def start(
        self, log: IO[bytes], *, inherited: tuple[int, ...] = (), more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start it with pipes for input and output; RunnerFailed where that fails.

        It has a session of its own: Ctrl-C in the terminal is for hasten, which then closes its runners itself.
        """
        environment = os.environ if self.environment is None else self.environment
        try:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment, **(more or {})},
                cwd=self.folder,
                start_new_session=True,
                bufsize=0,
                pass_fds=inherited,
            )
        except OSError as error:
            message = f"The {self.name} does not start: {error.strerror or error}: {self.command[0]}."
            raise RunnerFailed(Failure("start", "target", message)) from error


class ProcessLink:
    """A child process that speaks the runner's protocol. Its standard error is kept as its log."""

    def __init__(self, program: Program) -> None:
        self._name = program.name
        self._kills_before = memory_kills() if program.is_here else None
        self._is_closed = False
        self._memory = create_shared_memory() if program.is_here else None
        runners_end, self._lifeline = os.pipe()
        inherited = (runners_end,) if self._memory is None else (runners_end, self._memory.descriptor)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = program.start(self._log, inherited=inherited, more={LIFELINE: str(runners_end)})
        except RunnerFailed:
            self._log.close()
            self._close_memory()
            os.close(self._lifeline)
            raise
        finally:
            os.close(runners_end)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        # A runner that is stopped reads nothing: a write that waited for it would wait for ever.
        os.set_blocking(self._input.fileno(), False)
        for stream in (self._input, self._output):
            _enlarge(stream)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def ask(self, request: Message, *, stage: str, seconds: float) -> Message:
        """Send a request and wait for its answer; RunnerFailed if there is none in time, or if it is a failure."""
        if self._is_closed:
            raise RunnerFailed(Failure(stage, "target", f"This {self._name} is closed."))
        deadline = time.monotonic() + seconds
        try:
            for piece in encode(request if self._memory is None else self._memory.take_over(request)):
                self._write(piece, deadline)
            reply = decode(lambda count: whole(lambda most: self._read(most, deadline), count))
            failure = None if reply.body.pop("ok", False) else Failure(**reply.body["failure"], log=self.log_tail())
        except TimeoutError:
            self.kill()
            raise RunnerFailed(self._hang(stage, seconds)) from None
        except (EOFError, BrokenPipeError):
            raise RunnerFailed(self._died(stage)) from None
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            self.kill()
            raise RunnerFailed(self._stranger(stage, error)) from None
        if failure is not None:
            raise RunnerFailed(diagnosed(failure, self._log_lines()))
        return reply

    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the runner wrote."""
        return self._log_lines()[-_LOG_LINES:]

    def close(self) -> None:
        """End the runner, kindly if it listens. Safe to call more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._has_ended():
            with contextlib.suppress(OSError):
                for piece in encode(Message({"request": "close"})):
                    self._write(piece, time.monotonic())
            self._wait_for_end(_SECONDS_TO_CLOSE)
        self.kill()
        for stream in (self._input, self._output, self._log):
            with contextlib.suppress(OSError):
                stream.close()
        self._close_memory()
        os.close(self._lifeline)

    def kill(self) -> None:
        """End the runner and whatever it started, at once."""
        # Once it is reaped, its number may belong to another process.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _close_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def _write(self, data: bytes | memoryview, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait_until_ready(self._input, selectors.EVENT_WRITE, deadline)
            view = view[os.write(self._input.fileno(), view[:_PIECE_BYTES]) :]

    def _read(self, most: int, deadline: float) -> bytes:
        self._wait_until_ready(self._output, selectors.EVENT_READ, deadline)
        return os.read(self._output.fileno(), min(most, _PIECE_BYTES))

    def _wait_until_ready(self, stream: IO[bytes], event: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError

    def _has_ended(self) -> bool:
        """Whether the child is dead; it is not reaped, so that its process group can still be killed by its number."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _wait_for_end(self, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, 0.0005
        while not self._has_ended():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return True

    def _log_lines(self) -> tuple[str, ...]:
        # The child shares the file's position, so it must not be moved: read from a place, do not seek.
        if self._log.closed:
            return ()
        descriptor = self._log.fileno()
        start = max(0, os.fstat(descriptor).st_size - _LOG_TAIL_BYTES)
        lines = os.pread(descriptor, _LOG_TAIL_BYTES, start).decode(errors="replace").splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())

    def _hang(self, stage: str, seconds: float) -> Failure:
        message = f"The {self._name} did not answer within {seconds:g} s and was stopped."
        return Failure(stage, "hang", message, "Allow more time with --time-limit.", self.log_tail())

    def _died(self, stage: str) -> Failure:
        if not self._wait_for_end(_SECONDS_TO_CLOSE):
            self.kill()
            message = f"The {self._name} closed its output and was stopped."
            return Failure(stage, "crash", message, log=self.log_tail())
        self.kill()
        status = self._process.returncode
        failure = cause_of_death(self._name, stage, status, self.log_tail(), self._kills_before)
        return diagnosed(failure, self._log_lines())

    def _stranger(self, stage: str, error: Exception) -> Failure:
        message = f"The program that was started is not a {self._name} of this version of hasten: {error}."
        return Failure(stage, "target", message, "Install the same hasten on both sides.", self.log_tail())


def _enlarge(pipe: IO[bytes]) -> None:
    """Let a pipe hold a whole tensor where the system can: each 64 kB would cost a change of processes otherwise."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIECE_BYTES)
