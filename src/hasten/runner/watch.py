"""Ends a runner whose parent is gone, even while it is in the middle of a native call.

Between requests the end of its input tells it. Inside a native call no Python runs, not even in another thread, as
timed calls keep the interpreter's lock; so the kernel is asked to send SIGIO, whose default is to end the process, when
anything happens to the pipe. Nothing should: a parent sends its next request after the answer to the last.

PR_SET_PDEATHSIG would be simpler, but on Linux "parent" means the *thread* that started the runner, which may well end
before it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class ParentWatch:
    """Watches the pipe of requests while a request is being handled."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        signal.signal(signal.SIGIO, signal.SIG_DFL)

    @contextlib.contextmanager
    def during_a_request(self) -> Iterator[None]:
        """Be ended with the parent meanwhile. Over before the answer is sent: the next request may follow at once."""
        self._set(is_watching=True)
        if _has_hung_up(self._requests):
            os._exit(0)
        try:
            yield
        finally:
            self._set(is_watching=False)

    def _set(self, *, is_watching: bool) -> None:
        with contextlib.suppress(OSError, ImportError):  # not a Unix, or an input that is no pipe
            import fcntl

            fcntl.fcntl(self._requests, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(self._requests, fcntl.F_GETFL)
            fcntl.fcntl(self._requests, fcntl.F_SETFL, flags | os.O_ASYNC if is_watching else flags & ~os.O_ASYNC)


def _has_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # no events but those that cannot be masked: hang-up and error
    return bool(poll.poll(0))
