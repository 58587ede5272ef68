"""A runner behind a pair of pipes: requests with a time limit, and a clean end whatever state it is in."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Protocol

from hasten.core.codec import typed_from_data
from hasten.core.failure import Failure, RunnerFailed
from hasten.runner.agent import memory_kills
from hasten.runner.protocol import UNLOAD, Message, ProtocolError, decode, encode, whole
from hasten.runner.serving import LIFELINE, LOG_END
from hasten.runner.shared_memory import common_memories, create_shared_memory
from hasten.targets.diagnosis import diagnosed
from hasten.targets.exit_cause import cause_of_death

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_LOG_LINES: Final = 20
_LOG_TAIL_BYTES: Final = 65_536
_SECONDS_FOR_LOG: Final = 1.0
_SECONDS_TO_CLOSE: Final = 2.0
_PIECE_BYTES: Final = 1 << 20
# A program on a device writes this first: what a login prints may come before it.
_MARKER: Final = re.compile(rb"\0hasten \w+ (\d+)\0")
_MOST_NOISE_BYTES: Final = 1 << 20


class Device(Protocol):
    """What only a device knows about a program that runs there."""

    def cause_of_death(self, name: str, stage: str, status: int, log: tuple[str, ...]) -> Failure:
        """Why a program of this name ended, by the exit status of the command that reached it."""

    def end(self, pid: int) -> None:
        """Kill a process there, with all that it started."""

    def release(self) -> None:
        """The program has ended, and nothing more is asked of it."""


_WAIT_SECONDS: Final = 0.5


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
    device: Device | None = None
    """Where it runs, if that is to be asked; such a program writes a marker first."""
    preamble: bytes = b""
    """What it reads before the first request."""

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
        self._name, self._device, self._preamble = program.name, program.device, program.preamble
        self._pid_there: int | None = None
        self._unread = b""
        self._log_start = 0
        self._kills_before = memory_kills() if program.is_here else None
        self._is_closed = False
        self._memory = create_shared_memory() if program.is_here else None
        runners_end, self._lifeline = os.pipe()
        self._common = common_memories() if self._memory is not None else ()
        own = () if self._memory is None else (self._memory.descriptor,)
        inherited = (runners_end, *own, *(memory.descriptor for memory in self._common))
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

    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        """Send a request and wait for its answer; RunnerFailed if there is none in time, or if it is a failure.

        An answer with more than `most_bytes` of tensors is none: a device must not fill this machine's memory.
        """
        if self._is_closed:
            raise RunnerFailed(Failure(stage, "target", f"This {self._name} is closed."))
        patience, logged = _Patience(seconds), os.fstat(self._log.fileno()).st_size
        try:
            self._send(request, patience)
            reply = decode(lambda count: whole(lambda most: self._read(most, patience), count), most_bytes)
            failure = None
            if not reply.body.pop("ok", False):
                self._wait_for_log(logged)
                failure = typed_from_data(Failure, {**reply.body["failure"], "log": self.log_tail()})
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
        if request.body.get("request") == UNLOAD:
            self._log_start = os.fstat(self._log.fileno()).st_size
        return reply

    def tell(self, request: Message, seconds: float) -> bool:
        """Send a request that wants no answer; whether it is on its way."""
        try:
            self._send(request, _Patience(seconds))
        except (OSError, RunnerFailed):  # the next one that wants an answer reports why
            return False
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the child is dead."""
        return self._is_closed or self._has_ended()

    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the runner wrote."""
        return self._log_lines()[-_LOG_LINES:]

    def _send(self, request: Message, patience: _Patience) -> None:
        if self._preamble:
            self._write(self._preamble, patience)
            self._preamble = b""
        for piece in encode(self._with_shared_frames(request)):
            self._write(piece, patience)

    def _with_shared_frames(self, request: Message) -> Message:
        """The request, its frames in memory that the runner has, too, where there is such memory."""
        if self._memory is None or not request.frames:
            return request
        found = next(filter(None, (memory.refer(request) for memory in self._common)), None)
        return found or self._memory.take_over(request)

    def close(self) -> None:
        """End the runner, kindly if it listens. Safe to call more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._has_ended():
            with contextlib.suppress(OSError):
                for piece in encode(Message({"request": "close"})):
                    self._write(piece, _Patience(0.0))
            self._wait_for_end(_SECONDS_TO_CLOSE)
        self.kill()
        if self._device is not None:
            self._device.release()
        for stream in (self._input, self._output, self._log):
            with contextlib.suppress(OSError):
                stream.close()
        self._close_memory()
        os.close(self._lifeline)

    def kill(self) -> None:
        """End the runner and whatever it started, at once."""
        # What runs elsewhere would not notice the end of the command that reached it.
        if self._device is not None and self._pid_there is not None and not self._has_ended():
            self._device.end(self._pid_there)
        # Once it is reaped, its number may belong to another process.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _close_memory(self) -> None:
        self._common = ()
        if self._memory is not None:
            self._memory.close()

    def _write(self, data: bytes | memoryview, patience: _Patience) -> None:
        view = memoryview(data)
        while view:
            patience.wait(self._input, select.POLLOUT)
            view = view[os.write(self._input.fileno(), view[:_PIECE_BYTES]) :]

    def _read(self, most: int, patience: _Patience) -> bytes:
        if self._device is not None and self._pid_there is None:
            self._skip_noise(patience)
        if self._unread:
            data, self._unread = self._unread[:most], self._unread[most:]
            return data
        return self._receive(most, patience)

    def _receive(self, most: int, patience: _Patience) -> bytes:
        patience.wait(self._output, select.POLLIN)
        return os.read(self._output.fileno(), min(most, _PIECE_BYTES))

    def _skip_noise(self, patience: _Patience) -> None:
        """Read up to the marker, which tells the program's number on its device."""
        while (found := _MARKER.search(self._unread)) is None:
            piece = self._receive(_PIECE_BYTES, patience)
            if not piece:
                raise EOFError
            self._unread += piece
            if len(self._unread) > _MOST_NOISE_BYTES:
                raise ProtocolError("its output is not that of hasten")
        self._pid_there, self._unread = int(found[1]), self._unread[found.end() :]

    def _read_rest(self) -> None:
        """What a login printed in place of the program that was to be started, for the log."""
        if self._device is None or self._pid_there is not None:
            return
        with contextlib.suppress(OSError, TimeoutError):
            while (piece := self._receive(_PIECE_BYTES, _Patience(0.0))) and len(self._unread) < _MOST_NOISE_BYTES:
                self._unread += piece
        if found := _MARKER.search(self._unread):  # it did start
            self._pid_there = int(found[1])

    def _has_ended(self) -> bool:
        """Whether the child is dead; it is not reaped, so that its process group can still be killed by its number."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # another thread has just reaped it
            return True

    def _wait_for_end(self, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, 0.0005
        while not self._has_ended():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return True

    def _wait_for_log(self, start: int) -> None:
        """Wait until the log of a failed request is here, from a place on: ssh may bring the answer before it."""
        deadline = time.monotonic() + _SECONDS_FOR_LOG
        while LOG_END.encode() not in os.pread(self._log.fileno(), _LOG_TAIL_BYTES, self._tail_start(start)):
            if time.monotonic() >= deadline:
                return
            time.sleep(0.005)

    def _tail_start(self, start: int = 0) -> int:
        return max(start, os.fstat(self._log.fileno()).st_size - _LOG_TAIL_BYTES)

    def _log_lines(self) -> tuple[str, ...]:
        # The child shares the file's position, so it must not be moved: read from a place, do not seek.
        if self._log.closed:
            return ()
        tail = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, self._tail_start(self._log_start))
        lines = [line for line in tail.decode(errors="replace").splitlines() if line != LOG_END]
        if self._device is not None and self._pid_there is None:  # what came in place of the program's own output
            lines += self._unread[-_LOG_TAIL_BYTES:].decode(errors="replace").splitlines()
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
        self._read_rest()
        status, log = self._process.returncode, self.log_tail()
        if self._device is not None:
            failure = self._device.cause_of_death(self._name, stage, status, log)
        else:
            failure = cause_of_death(self._name, stage, status, log, self._kills_before)
        return diagnosed(failure, self._log_lines())

    def _stranger(self, stage: str, error: Exception) -> Failure:
        message = f"The program that was started is not a {self._name} of this version of hasten: {error}."
        return Failure(stage, "target", message, "Install the same hasten on both sides.", self.log_tail())


@contextlib.contextmanager
def understood(stage: str) -> Iterator[None]:
    """Read an answer in this; RunnerFailed where it lacks something, or has something else in its place."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"The device answered something that hasten cannot read: {type(error).__name__}: {error}."
        raise RunnerFailed(Failure(stage, "target", message, "Install the same hasten on both sides.")) from error


class _Patience:
    """The time that a request may take, counted in short waits.

    A machine that is suspended, or a clock that jumps, costs one of them: it says nothing about the runner.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def wait(self, stream: IO[bytes], event: int) -> None:
        """Wait until the stream can be used; TimeoutError once the time is spent."""
        ready = select.poll()
        ready.register(stream, event)
        while True:
            piece = min(max(self._left, 0.0), _WAIT_SECONDS)
            begin = time.monotonic()
            found = ready.poll(math.ceil(piece * 1000))
            # Time that was slept through counts as what was asked for.
            self._left -= min(max(time.monotonic() - begin, 0.0), piece) if found else piece
            if found:
                return
            if self._left <= 0:
                raise TimeoutError


def _enlarge(pipe: IO[bytes]) -> None:
    """Let a pipe hold a whole tensor where the system can: each 64 kB would cost a change of processes otherwise."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIECE_BYTES)
