"""Tracebacks without the watch's own frames: a program prints what it would print unwatched."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

    from .instrumentation import Instrumentation

_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


def hide_our_frames(watch: Instrumentation) -> None:
    """Let the hooks that print exceptions see tracebacks without our wrappers."""
    printed = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        return printed(kind, error.with_traceback(without_ours(trace)), error.__traceback__)

    watch.replace(sys, "excepthook", excepthook)


def hide_our_frames_in_threads(watch: Instrumentation) -> None:
    """The same for threads, once the program has loaded `threading`."""
    threading: Any = sys.modules.get("threading")
    if threading is None or getattr(threading.excepthook, "hasten", False):
        return
    in_thread = threading.excepthook

    def thread_excepthook(arguments: Any) -> Any:
        if arguments.exc_value is not None:
            arguments.exc_value.with_traceback(without_ours(arguments.exc_traceback))
        return in_thread(arguments)

    thread_excepthook.hasten = True  # type: ignore[attr-defined]
    watch.replace(threading, "excepthook", thread_excepthook)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the entries of files in this folder."""
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    entry = trace
    while entry is not None:
        while entry.tb_next is not None and _is_ours(entry.tb_next):
            entry.tb_next = entry.tb_next.tb_next
        entry = entry.tb_next
    return trace


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_FOLDER)
