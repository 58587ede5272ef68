"""The instrumentation of one process: patches, sampler and recorder, from its start to its end, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from .import_hook import Finder, patch_loaded
from .patches import Patches
from .sampler import Sampler
from .termination import Termination, is_ended_by_signal

if TYPE_CHECKING:
    from types import TracebackType

_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


class Instrumentation:
    """Patches, sampler and recorder in the process that it is made in."""

    def __init__(self, folder: str, began_ns: int) -> None:
        self._patches = Patches(folder)
        self._patches.on_litert = self._ready_for_litert
        self._recorder = self._patches.recorder
        self._recorder.on_new_place = self._patches.look_for_loops
        self._sampler = Sampler(self._patches, self._insist_on_end)
        self._began_ns = began_ns
        self._finder = Finder(self._patches)
        self._active = False
        self._forked = False
        self._termination: Termination | None = None

    def start(self) -> None:
        """Patch what is there, be ready for what will be imported, begin to sample."""
        self._active = True
        self._introduce("start")
        sys.meta_path.insert(0, self._finder)
        patch_loaded(self._patches)
        self._patches.replace(os, "_exit", self._exit_at_once(os._exit))
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._in_child
            )
        _hide_our_frames(self._patches)
        self._recorder.flush()
        self._sampler.start()
        self._outlive_termination()

    def stop(self) -> None:
        """Take all patches back, and write the rest."""
        if self._active:
            self._active = False
            self._sampler.stop()
            self._patches.undo()
            sys.meta_path.remove(self._finder)
            self._finish("stopped")
            atexit.unregister(self._at_exit)

    def _ready_for_litert(self) -> None:
        from .interpreter import cost_of_a_call_ns

        _hide_our_frames_in_threads(self._patches)
        self._recorder.define({"kind": "cost", "call_ns": cost_of_a_call_ns()})

    def _finish(self, how: str) -> None:
        """Write all that there is, and how it came to an end."""
        self._sampler.note_queues()
        self._sampler.note_native()
        self._recorder.note(
            {
                "kind": "end",
                "how": how,
                "at_ns": time.perf_counter_ns(),
                "samples": self._sampler.samples,
                "sampler_cpu_ns": self._sampler.cpu_ns,
                "left_out": self._recorder.left_out,
            }
        )
        self._recorder.flush()

    def _introduce(self, how: str) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._recorder.note(
            {
                "kind": "process",
                "how": how,
                "pid": os.getpid(),
                "parent": os.getppid(),
                "began_ns": self._began_ns,
                "ready_ns": time.perf_counter_ns(),
                "main_thread": self._sampler.main_thread,
                "cores": cores,
                "python": sys.version.split()[0],
                "executable": sys.executable,
                "arguments": list(getattr(sys, "orig_argv", [])),
            }
        )

    def _at_exit(self) -> None:
        if self._active:
            self._sampler.stop()
            self._finish("exit")

    def _exit_at_once(self, original: Any) -> Any:
        def _exit(status: Any) -> Any:
            if self._active:
                self._finish("os._exit")
            return original(status)

        return _exit

    def _insist_on_end(self) -> None:
        """Make sure that a terminated worker exits."""
        if self._termination is not None:
            self._termination.insist()

    def _outlive_termination(self) -> None:
        if is_ended_by_signal(forked=self._forked):
            with contextlib.suppress(ValueError):  # not in the main thread
                self._termination = Termination(self._recorder, self._finish)

    def _before_fork(self) -> None:
        if self._active:
            self._sampler.stop()
            self._recorder.flush_lock.acquire()

    def _after_fork(self) -> None:
        if self._active:
            self._recorder.flush_lock.release()
            self._sampler.start()

    def _in_child(self) -> None:
        if self._active:
            self._forked = True
            self._recorder.begin_again()
            self._began_ns = time.perf_counter_ns()
            self._sampler.forget_thread()
            if self._termination is not None:
                self._termination.undo()
                self._termination = None
            self._introduce("fork")
            self._recorder.flush()
            self._sampler.start()
            self._outlive_termination()


def begin(folder: str, began_ns: int) -> Instrumentation:
    """Watch this process to its end."""
    watch = Instrumentation(folder, began_ns)
    watch.start()
    return watch


def _hide_our_frames(patches: Patches) -> None:
    """Let the hooks that print exceptions see tracebacks without our wrappers."""
    printed = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        return printed(kind, error.with_traceback(without_ours(trace)), error.__traceback__)

    patches.replace(sys, "excepthook", excepthook)


def _hide_our_frames_in_threads(patches: Patches) -> None:
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
    patches.replace(threading, "excepthook", thread_excepthook)


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
