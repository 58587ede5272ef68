"""A runner behind a pair of pipes: requests with a time limit, and the cause of death when there is no answer."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.runner.protocol import Message, ProtocolError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG_LINES: Final = 20
_LOG_TAIL_BYTES: Final = 16_384
_SECONDS_TO_CLOSE: Final = 2.0
# What native code writes when an allocation fails, seen in the logs of LiteRT, XNNPACK and the C++ runtime.
_OUT_OF_MEMORY_WORDS: Final = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror", "failed to allocate")


class ProcessLink:
    """A child process that speaks the runner's protocol. Its standard error is kept as its log."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            # A session of its own: Ctrl-C in the terminal is for hasten, which then closes its runners itself.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
                env=None if environment is None else {**os.environ, **environment}, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise RunnerFailed(Failure("start", "target", f"the runner cannot be started: {error}")) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def ask(self, request: Message, *, stage: str, seconds: float) -> Message:
        """Send a request and wait for its answer; RunnerFailed if there is none in time, or if it is a failure."""
        deadline = time.monotonic() + seconds
        try:
            for piece in encode(request):
                self._input.write(piece)
            reply = decode(lambda count: self._read_exactly(count, deadline))
        except TimeoutError:
            self.kill()
            raise RunnerFailed(self._hang(stage, seconds)) from None
        except (EOFError, BrokenPipeError, ProtocolError):
            raise RunnerFailed(self._cause_of_death(stage)) from None
        if not reply.body.pop("ok", False):
            raise RunnerFailed(Failure(**reply.body["failure"], log=self.log_tail()))
        return reply

    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the runner wrote."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())[-_LOG_LINES:]

    def close(self) -> None:
        """End the runner, kindly if it listens. Safe to call more than once."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                for piece in encode(Message({"request": "close"})):
                    self._input.write(piece)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_CLOSE)
        self.kill()
        self._selector.close()
        for stream in (self._input, self._output, self._log):
            with contextlib.suppress(OSError):
                stream.close()

    def kill(self) -> None:
        """End the runner and whatever it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read_exactly(self, count: int, deadline: float) -> bytes:
        pieces, left = [], count
        while left:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            piece = self._output.read(min(left, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _hang(self, stage: str, seconds: float) -> Failure:
        message = f"the runner gave no answer within {seconds:.0f} s and was stopped"
        return Failure(stage, "hang", message, "Allow more time with --time-limit.", self.log_tail())

    def _cause_of_death(self, stage: str) -> Failure:
        """What the exit status and the log say about a runner that went away without an answer."""
        try:
            status = self._process.wait(_SECONDS_TO_CLOSE)
        except subprocess.TimeoutExpired:
            self.kill()
            return Failure(stage, "crash", "the runner closed its output and was stopped", log=self.log_tail())
        log = self.log_tail()
        text = "\n".join(log).lower()
        if status == -signal.SIGKILL or any(word in text for word in _OUT_OF_MEMORY_WORDS):
            hint = "Close other programs, raise --memory-limit, or use a smaller model."
            if status == -signal.SIGKILL:
                return Failure(stage, "out of memory", "the runner was killed, most likely for want of memory", hint, log)
            return Failure(stage, "out of memory", "the runner ran out of memory", hint, log)
        if status < 0:
            name = signal.Signals(-status).name
            return Failure(stage, "crash", f"native code crashed with {name} in {_STAGE_WORDS[stage]}", log=log)
        return Failure(stage, "crash", f"the runner ended with status {status} in {_STAGE_WORDS[stage]}", log=log)


_STAGE_WORDS: Final = {
    "start": "starting", "load": "loading the model", "run": "running the model",
    "profile": "profiling the model", "evaluate": "running the model on data",
}  # fmt: skip
