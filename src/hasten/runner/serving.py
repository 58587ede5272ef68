"""What every program behind a link does: it ends with its parent, limits itself, and answers request after request.

A program whose parent is gone must end even inside a native call. Between requests it sees the end of its input.
Inside a native call no Python runs, not even in another thread, as timed calls keep the interpreter's lock. So the
parent holds the other end of a pipe that nobody ever writes to, and the kernel is asked to send SIGIO, whose default is
to end the process, when that end is closed: by the parent, or with it. (The pipe of requests will not do: its last
write may still be under way when the request is already being handled. PR_SET_PDEATHSIG would be simpler, but on Linux
"parent" means the *thread* that started the program, which may well end before it.) On a device, that pipe has a name,
its other end is held by the `agent`, and the signal goes to everything that the program has started as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import traceback
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

from hasten.runner.memory import memory_bytes
from hasten.runner.protocol import Message, ProtocolError, decode, encode, whole
from hasten.runner.shared_memory import with_shared_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.failure import Failure

    Answer = Callable[[Message], Message]

LIFELINE: Final = "HASTEN_LIFELINE"
"""The variable that names this end of the pipe to the parent; without it a program notices between requests only."""
LOG_END: Final = "hasten: this request failed"
"""The last line in the log of a request that failed. From a device, answer and log come by two ways."""
START_FAILED: Final = 71
"""The exit status of a program that failed before it looked at its first request."""
_SHARE_OF_MEMORY: Final = 0.75
# The agent's end is open before a program starts. Where it is not, the agent is gone, and this program with it.
_SECONDS_TO_OPEN: Final = 2


def serve(create_answer: Callable[[], Answer], memory_mb: int, lifeline: str = "") -> None:
    """Answer until the other side closes, then leave the process.

    `memory_mb` limits private memory; 0 stands for three quarters of this machine's memory. `lifeline` is the agent's
    pipe on a device; there, output begins with a marker, as what a login prints may come before it.
    """
    die_with_parent(lifeline)
    _limit(memory_mb)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    answers = _keep_standard_output()
    if lifeline:
        os.write(answers, marker("runner"))
    try:
        answer = create_answer()
    except Exception:  # noqa: BLE001 - the first request is not to blame, whatever it was
        traceback.print_exc()
        os._exit(START_FAILED)
    _serve(sys.stdin.fileno(), answers, answer)
    # Native libraries crash on unloading now and then; everything is answered, so leave without them.
    os._exit(0)


def failed(failure: Failure) -> Message:
    """The answer of a program that failed; the parent has its log, and sees where that ends."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"\n{LOG_END}\n".encode())
    return Message({"ok": False, "failure": {key: value for key, value in asdict(failure).items() if key != "log"}})


def marker(name: str) -> bytes:
    """What a program on a device writes first: which one it is, and its number there."""
    return f"\0hasten {name} {os.getpid()}\0".encode()


def die_with_parent(lifeline: str = "") -> None:
    """From now on, be ended when the other end of the lifeline is closed: a named pipe, or one that was inherited."""
    if lifeline:
        _die_together(lifeline)
        return
    with contextlib.suppress(OSError, ValueError, KeyError, ImportError):  # no lifeline, or not a Unix
        _end_when_closed(int(os.environ[LIFELINE]), os.getpid())


def _die_together(lifeline: str) -> None:
    """Have this process and all that it will start ended with the agent."""
    with contextlib.suppress(OSError):  # it leads a group already
        os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS_TO_OPEN)
    try:
        descriptor = os.open(lifeline, os.O_RDONLY)  # waits for the other end
    except FileNotFoundError:
        os._exit(START_FAILED)
    signal.alarm(0)
    _end_when_closed(descriptor, -os.getpgrp())


def _end_when_closed(lifeline: int, whom: int) -> None:
    """Ask the kernel to send SIGIO to a process, or to the group of a negative number."""
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, whom)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if _has_hung_up(lifeline):
        os._exit(0)


def _has_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # no events but those that cannot be masked: hang-up and error
    return bool(poll.poll(0))


def _serve(requests: int, answers: int, answer: Answer) -> None:
    def read(most: int) -> bytes:
        return os.read(requests, min(most, 1 << 20))

    with contextlib.suppress(EOFError, BrokenPipeError, ProtocolError):
        while True:
            request = with_shared_frames(decode(partial(whole, read)))
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
    """No core files, and a limit of private memory where the system has one and reports its memory."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if wanted := memory_mb * 2**20 or int(memory_bytes() * _SHARE_OF_MEMORY):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or wanted < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))
