"""The end that a system asks for: SIGTERM and SIGHUP end a command as Ctrl-C does, so that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED: Final = 130
_SIGNAL_BASE: Final = 128
# Windows has no SIGHUP.
_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ending:
    """Whether the system has asked for the end, and by which signal."""

    def __init__(self) -> None:
        self._signal = 0

    @property
    def is_asked_for(self) -> bool:
        """Whether such a signal has come."""
        return self._signal != 0

    def code(self, code: int) -> int:
        """An exit code that tells which signal it was that interrupted."""
        return _SIGNAL_BASE + self._signal if code == INTERRUPTED and self._signal else code

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Let both signals interrupt as Ctrl-C does. One that is ignored (`nohup`) stays so."""
        self._signal = 0
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's
            return
        taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
        for number in taken:
            signal.signal(number, self._interrupt)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, signal.SIG_DFL)

    def _interrupt(self, number: int, frame: object) -> None:
        if self._signal:  # `timeout` and shells send it twice, which must not cut short what the first has begun
            return
        self._signal = number
        pressed = signal.getsignal(signal.SIGINT)
        if callable(pressed):
            pressed(signal.SIGINT, frame)  # type: ignore[arg-type]
        else:  # a background job, which ignores Ctrl-C
            raise KeyboardInterrupt


ENDING: Final = Ending()
