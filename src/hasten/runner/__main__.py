"""`python -m hasten.runner`: the program that runs on the device, speaking `protocol` on standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import sys

from hasten.core.errors import HastenError
from hasten.core.plan import Plan
from hasten.engine.accelerators import process_environment
from hasten.runner.protocol import Message, ProtocolError, decode, encode

_PREPARED = "HASTEN_RUNNER_PREPARED"
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve until the other side closes."""
    parser = argparse.ArgumentParser(prog="python -m hasten.runner")
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--memory-mb", type=int, default=0, help="limit of private memory, 0 for none")
    arguments = parser.parse_args()
    _prepare_environment(Plan(accelerator=arguments.accelerator))
    _limit(arguments.memory_mb)
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    answers = _keep_standard_output()
    _serve(sys.stdin.fileno(), answers)
    # Native libraries crash on unloading now and then; everything is answered, so leave without them.
    os._exit(0)


def _serve(requests: int, answers: int) -> None:
    from hasten.runner.server import Server

    server = Server()

    def read_exactly(count: int) -> bytes:
        pieces, left = [], count
        while left:
            piece = os.read(requests, min(left, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    with contextlib.suppress(EOFError, BrokenPipeError, ProtocolError):
        while True:
            request = decode(read_exactly)
            if request.body.get("request") == "close":
                return
            _write(answers, server.answer(request))


def _write(descriptor: int, message: Message) -> None:
    for piece in encode(message):
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]


def _keep_standard_output() -> int:
    """Answers go to a private copy of standard output; what native libraries print goes to the log instead."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _prepare_environment(plan: Plan) -> None:
    """Start over with the variables that the accelerator's libraries read at a process's start."""
    if os.environ.get(_PREPARED):
        return
    with contextlib.suppress(HastenError):  # what is missing is said when the model is loaded
        needed = process_environment(plan)
        if needed:
            command = [sys.executable, "-m", "hasten.runner", *sys.argv[1:]]
            os.execve(sys.executable, command, {**os.environ, **needed, _PREPARED: "1"})


def _limit(memory_mb: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mb > 0:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * 2**20, memory_mb * 2**20))


def _die_with_parent() -> None:
    """A runner in the middle of a long native call would not notice that its parent was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
