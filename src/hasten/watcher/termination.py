"""SIGTERM to a multiprocessing worker, often right after its work: the recording is written before the worker ends.

Python runs the handler in the main thread, once that thread looks for signals. It may be waiting in a system call that
no signal ends: another thread may have received it, or it came just before the call. Then the worker would live on, and
its pool wait for it without end. So the sampler, which never waits long, sends it to the main thread until it is heard.
"""

from __future__ import annotations

import _thread
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorder import Recorder


class Termination:
    """Writes before the process ends by SIGTERM. To be made in the main thread: others may not ask for signals."""

    def __init__(self, recorder: Recorder, finish: Callable[[str], None]) -> None:
        import signal

        self._signal = signal
        self._recorder, self._main_thread, self._finish = recorder, _thread.get_ident(), finish
        self._has_come = False
        signal.signal(signal.SIGTERM, self._handle)
        self._told, self._teller = os.pipe()
        os.set_blocking(self._told, False)
        os.set_blocking(self._teller, False)
        before = signal.set_wakeup_fd(self._teller, warn_on_full_buffer=False)
        if before != -1:  # Keep an existing wakeup fd, for example of an event loop.
            signal.set_wakeup_fd(before)

    def undo(self) -> None:
        """In a forked child, which shares the pipe with its parent."""
        before = self._signal.set_wakeup_fd(-1)
        if before != self._teller:
            self._signal.set_wakeup_fd(before)
        os.close(self._told)
        os.close(self._teller)
        if self._signal.getsignal(self._signal.SIGTERM) == self._handle:
            self._signal.signal(self._signal.SIGTERM, self._signal.SIG_DFL)

    def insist(self) -> None:
        """Where the signal has come, and the process is still there: send it to the main thread."""
        try:
            self._has_come = self._has_come or self._signal.SIGTERM in os.read(self._told, 64)
        except OSError:
            return  # nothing has come
        if self._has_come:
            self._signal.pthread_kill(self._main_thread, self._signal.SIGTERM)

    def _handle(self, _number: int, _frame: object) -> None:
        # The worker may be about to write by itself, at its own end: ended in the middle of it, all that would be lost.
        if not self._recorder.put_off(self._end):
            self._end()

    def _end(self) -> None:
        self._finish("terminated")
        self._signal.signal(self._signal.SIGTERM, self._signal.SIG_DFL)
        os.kill(os.getpid(), self._signal.SIGTERM)


def is_ended_by_signal(*, forked: bool) -> bool:
    """Whether this process is a worker of multiprocessing that leaves SIGTERM as it is."""
    spawned = "--multiprocessing-fork" in getattr(sys, "orig_argv", ())
    if not spawned and not (forked and "multiprocessing.process" in sys.modules):
        return False
    import signal

    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
