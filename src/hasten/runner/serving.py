"""What every program behind a link does: it ends with its parent, limits itself, and answers request after request."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from hasten.runner.protocol import Message, ProtocolError, decode, encode
from hasten.runner.shared_memory import with_shared_frames
from hasten.runner.watch import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[[Message], Message]


def serve(create_answer: Callable[[], Answer], memory_mb: int) -> None:
    """Answer until the other side closes, then leave the process. `memory_mb` limits private memory, 0 is no limit."""
    die_with_parent()
    _limit(memory_mb)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    answers = _keep_standard_output()
    _serve(sys.stdin.fileno(), answers, create_answer())
    # Native libraries crash on unloading now and then; everything is answered, so leave without them.
    os._exit(0)


def _serve(requests: int, answers: int, answer: Answer) -> None:
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
            _write(answers, answer(request))


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
