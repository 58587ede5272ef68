"""Detection of calls that block an event loop or a user interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from . import rows

if TYPE_CHECKING:
    from types import FrameType

    from .recorder import Place

_QT: Final = ("PySide6.QtCore", "PyQt6.QtCore", "PySide2.QtCore", "PyQt5.QtCore")
_TK_FILE: Final = "tkinter"
_TK_LOOPS: Final = frozenset({"mainloop", "wait_window", "wait_variable"})
_modules: Final = sys.modules


def loops_are_loaded() -> bool:
    """Whether the program has loaded anything that runs an event loop."""
    return any(name in _modules for name in ("asyncio.events", "tkinter", *_QT))


def in_event_loop(place: Place, frame: FrameType) -> int:
    """The flag of a run that keeps a loop from going on, or 0."""
    if _keeps_tasks_waiting():
        return rows.ON_LOOP
    if place.left and (_in_tk(frame) or _in_qt()):
        return rows.ON_LOOP
    return 0


def _keeps_tasks_waiting() -> bool:
    """Whether this thread runs a loop of asyncio that has more to do than the task that calls."""
    events: Any = _modules.get("asyncio.events")
    loop = events._get_running_loop() if events is not None else None
    if loop is None:
        return False
    return len(_modules["asyncio.tasks"].all_tasks(loop)) > 1


def _in_tk(frame: FrameType | None) -> bool:
    if "tkinter" not in _modules:
        return False
    while frame is not None:
        code = frame.f_code
        if code.co_name in _TK_LOOPS and _TK_FILE in code.co_filename:
            return True
        frame = frame.f_back
    return False


def _in_qt() -> bool:
    """Qt's loop is native code; the thread itself tells how many loops run in it."""
    for name in _QT:
        module: Any = _modules.get(name)
        if module is not None:
            try:
                return int(module.QThread.currentThread().loopLevel()) > 0
            except (AttributeError, TypeError, RuntimeError):
                return False
    return False
