"""`python -m hasten.runner`: the program that runs on the device, speaking `protocol` on standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys

from hasten.core.errors import HastenError
from hasten.core.plan import ACCELERATORS, Plan
from hasten.engine.accelerators import process_environment
from hasten.runner.command import runner_command
from hasten.runner.protocol import Message, ProtocolError, decode, encode
from hasten.runner.shared_memory import with_shared_frames
from hasten.runner.watch import die_with_parent

_PREPARED = "HASTEN_RUNNER_PREPARED"


def main() -> None:
    """Serve until the other side closes."""
    parser = argparse.ArgumentParser(prog="python -m hasten.runner")
    parser.add_argument("--accelerator", default="cpu", choices=ACCELERATORS)
    parser.add_argument("--memory-mb", type=int, default=0, help="limit of private memory, 0 for none")
    arguments = parser.parse_args()
    _prepare_environment(arguments.accelerator, arguments.memory_mb)
    die_with_parent()
    _limit(arguments.memory_mb)
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
            request = with_shared_frames(decode(read_exactly))
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


def _prepare_environment(accelerator: str, memory_mb: int) -> None:
    """Start over with the variables that the accelerator's libraries read at a process's start."""
    if os.environ.pop(_PREPARED, None):
        return
    with contextlib.suppress(HastenError):  # what is missing is said when the model is loaded
        needed = process_environment(Plan(accelerator=accelerator))
        if needed:
            command = runner_command(sys.executable, accelerator, memory_mb)
            os.execve(sys.executable, command, {**os.environ, **needed, _PREPARED: "1"})


def _limit(memory_mb: int) -> None:
    """No core files, and a limit of private memory where the system has one."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mb > 0:
        wanted = memory_mb * 2**20
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or wanted < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))


if __name__ == "__main__":
    main()
