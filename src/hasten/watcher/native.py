"""LiteRT that a program runs without its Python classes (by ctypes, or inside of another extension), as far as Linux
shows it from outside: the libraries in memory, and the CPU time of threads that Python did not start."""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
from typing import Any, Final

_NAMES: Final = ("tensorflowlite", "tensorflow-lite", "tflite", "litert")
_BEHIND_CLASSES: Final = "pywrap"
"""Part of the names of libraries that belong to LiteRT's Python classes, which are watched themselves."""


class NativeRuntime:
    """What has been seen in this process so far."""

    def __init__(self) -> None:
        self.libraries: list[str] = []
        self._of_python: set[int] = {_thread.get_native_id()}
        self._cpu_ns: dict[int, int] = {}

    def look(self) -> None:
        """Note the libraries in memory; those that were unloaded stay noted."""
        with contextlib.suppress(OSError), open("/proc/self/maps", errors="replace") as maps:  # noqa: PTH123
            found = runtime_libraries({parts[5].strip() for line in maps if len(parts := line.split(maxsplit=5)) == 6})
            self.libraries += [path for path in found if path not in self.libraries]

    def look_at_threads(self) -> None:
        """Note the CPU time of threads that Python did not start: at their end it is gone."""
        if not self.libraries:
            return
        threading: Any = sys.modules.get("threading")
        active = list(threading._active.values()) if threading else []
        ours = {os.getpid(), _thread.get_native_id(), *(getattr(thread, "native_id", None) for thread in active)}
        self._of_python |= {number for number in ours if number}
        with contextlib.suppress(OSError, ValueError):
            for task in set(map(int, os.listdir("/proc/self/task"))) - self._of_python:  # noqa: PTH208
                with open(f"/proc/self/task/{task}/schedstat") as clock:  # noqa: PTH123
                    self._cpu_ns[task] = int(clock.read().split()[0])

    def line(self) -> dict[str, Any]:
        """What there is to write."""
        seen = {task: ns for task, ns in self._cpu_ns.items() if task not in self._of_python}
        return {"kind": "native", "libraries": self.libraries, "threads": len(seen), "cpu_ns": sum(seen.values())}


def runtime_libraries(paths: set[str]) -> list[str]:
    """Those of LiteRT or TensorFlow Lite among files in memory. What LiteRT's Python classes load does not count."""
    named = {path: os.path.basename(path).lower() for path in paths}  # noqa: PTH119 (pathlib is slow to import)
    found = {path: name for path, name in named.items() if ".so" in name and any(part in name for part in _NAMES)}
    classes = {os.path.dirname(path) for path, name in found.items() if _BEHIND_CLASSES in name}  # noqa: PTH120
    return sorted(path for path in found if not any(path.startswith(folder) for folder in classes))
