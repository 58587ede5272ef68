"""Ends a runner whose parent is gone, even while it is in the middle of a native call.

Between requests the end of its input tells it. Inside a native call no Python runs, not even in another thread, as
timed calls keep the interpreter's lock. So the parent holds the other end of a pipe that nobody ever writes to, and the
kernel is asked to send SIGIO, whose default is to end the process, when that end is closed: by the parent, or with it.
(The pipe of requests will not do: its last write may still be under way when the request is already being handled.)

PR_SET_PDEATHSIG would be simpler, but on Linux "parent" means the *thread* that started the runner, which may well end
before it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Final

LIFELINE: Final = "HASTEN_LIFELINE"
"""The variable that names the runner's end of the pipe; without it a runner notices between requests only."""


def die_with_parent() -> None:
    """From now on, be ended when the other end of the lifeline is closed."""
    with contextlib.suppress(OSError, ValueError, KeyError, ImportError):  # no lifeline, or not a Unix
        import fcntl

        lifeline = int(os.environ[LIFELINE])
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
        if _has_hung_up(lifeline):
            os._exit(0)


def _has_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # no events but those that cannot be masked: hang-up and error
    return bool(poll.poll(0))
