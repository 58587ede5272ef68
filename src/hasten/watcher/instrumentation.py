"""The instrumentation of one process: patches, sampler and recorder, from its start to its end, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from typing import Any, Final

from .c_calls import CCalls
from .event_loops import loops_are_loaded
from .import_hook import Finder, patch_loaded
from .recorder import Recorder
from .sampler import Sampler
from .termination import Termination, is_ended_by_signal
from .tracebacks import hide_our_frames, hide_our_frames_in_threads

_LOOKED_AT_AGAIN: Final = 2
_CALIBRATION_CALLS: Final = 400


class Instrumentation:
    """Patches, sampler and recorder in the process that it is made in."""

    def __init__(self, folder: str, began_ns: int) -> None:
        self.recorder = Recorder(folder)
        self.calls = CCalls(self.recorder)
        self.outputs: dict[int, list[Any]] = {}
        """Outputs that were looked at, by the interpreter that they came from, until its next run."""
        self._sampler = Sampler(self)
        self._began_ns = began_ns
        self._replaced: list[tuple[Any, str, Any]] = []
        self._finder = Finder(self)
        self.main_thread = _main_thread()
        self.has_loops = False
        """Whether the program may run an event loop: only then each run has to be asked where it comes from."""
        self.recorder.on_new_place = self.look_for_loops
        self._active = False
        self._forked = False
        self._termination: Termination | None = None

    def start(self) -> None:
        """Patch what is there, be ready for what will be imported, begin to sample."""
        self._active = True
        self._introduce("start")
        sys.meta_path.insert(0, self._finder)
        patch_loaded(self)
        self.replace(os, "_exit", self._exit_at_once(os._exit))
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._in_child
            )
        hide_our_frames(self)
        self.recorder.flush()
        self._sampler.start()
        self._outlive_termination()

    def stop(self) -> None:
        """Take all patches back, and write the rest."""
        if self._active:
            self._active = False
            self._sampler.stop()
            for owner, name, original in reversed(self._replaced):
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            self._replaced.clear()
            sys.meta_path.remove(self._finder)
            self.finish("stopped")
            atexit.unregister(self._at_exit)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module for as long as the watch lasts."""
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, value)

    def ready_for_litert(self) -> None:
        """What a wrapped call costs beyond the plain one, measured on a class that does nothing.

        Called when LiteRT is patched: it has loaded NumPy by then, and that has loaded `threading`.
        """
        hide_our_frames_in_threads(self)
        from .calibration import cost_of_a_call_ns

        self.recorder.define({"kind": "cost", "call_ns": cost_of_a_call_ns(_CALIBRATION_CALLS)})

    def wait_for_sampler(self) -> None:
        """Wait until the sampler has let go of the frames that it looks at."""
        with self._sampler.frames_lock:
            pass

    def look_for_loops(self) -> None:
        """See whether the program has loaded anything that runs an event loop."""
        self.has_loops = self.has_loops or loops_are_loaded()

    def look_again(self) -> None:
        """From time to time a few more calls of each place are examined."""
        self.look_for_loops()
        for place in list(self.recorder.places.values()):
            place.left = max(place.left, _LOOKED_AT_AGAIN)

    def finish(self, how: str) -> None:
        """Write all that there is, and how it came to an end."""
        self._sampler.note_queues()
        self.recorder.note(
            {
                "kind": "end",
                "how": how,
                "at_ns": time.perf_counter_ns(),
                "samples": self._sampler.samples,
                "sampler_cpu_ns": self._sampler.cpu_ns,
                "left_out": self.recorder.left_out,
            }
        )
        self.recorder.flush()

    def _introduce(self, how: str) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.recorder.note(
            {
                "kind": "process",
                "how": how,
                "pid": os.getpid(),
                "parent": os.getppid(),
                "began_ns": self._began_ns,
                "ready_ns": time.perf_counter_ns(),
                "main_thread": self.main_thread,
                "cores": cores,
                "python": sys.version.split()[0],
                "executable": sys.executable,
                "arguments": list(getattr(sys, "orig_argv", [])),
            }
        )

    def _at_exit(self) -> None:
        if self._active:
            self._sampler.stop()
            self.finish("exit")

    def _exit_at_once(self, original: Any) -> Any:
        def _exit(status: Any) -> Any:
            if self._active:
                self.finish("os._exit")
            return original(status)

        return _exit

    def insist_on_the_end(self) -> None:
        """Make sure that a terminated worker exits."""
        if self._termination is not None:
            self._termination.insist()

    def _outlive_termination(self) -> None:
        if is_ended_by_signal(forked=self._forked):
            with contextlib.suppress(ValueError):  # not in the main thread
                self._termination = Termination(self.recorder, self.finish)

    def _before_fork(self) -> None:
        if self._active:
            self._sampler.stop()
            self.recorder.flush_lock.acquire()

    def _after_fork(self) -> None:
        if self._active:
            self.recorder.flush_lock.release()
            self._sampler.start()

    def _in_child(self) -> None:
        if self._active:
            self._forked = True
            self.main_thread = _main_thread()
            self.recorder.begin_again()
            self._began_ns = time.perf_counter_ns()
            self._sampler.forget_thread()
            if self._termination is not None:
                self._termination.undo()
                self._termination = None
            self._introduce("fork")
            self.recorder.flush()
            self._sampler.start()
            self._outlive_termination()


def begin(folder: str, began_ns: int) -> Instrumentation:
    """Watch this process to its end."""
    watch = Instrumentation(folder, began_ns)
    watch.start()
    return watch


def _main_thread() -> int:
    threading: Any = sys.modules.get("threading")
    import _thread

    return int(threading.main_thread().ident) if threading else _thread.get_ident()
