"""Loaded by Python itself at the start of a watched program, as its folder comes first in PYTHONPATH.

Starts the watch, takes the folder out of the module path, and lets the environment's own sitecustomize run.
"""

import os
import sys
import time


def _start() -> None:
    """Whatever goes wrong here is noted for hasten and is not the program's business."""
    began_ns = time.perf_counter_ns()
    folder = os.environ.get("HASTEN_APP_FOLDER", "")
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    if not os.path.isdir(folder):  # noqa: PTH112
        return
    try:
        import importlib.util

        room = os.path.dirname(here)  # noqa: PTH120
        path = os.path.join(room, "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location("_hasten_watcher", path, submodule_search_locations=[room])
        if spec is not None:
            sys.modules["_hasten_watcher"] = importlib.util.module_from_spec(spec)
            importlib.import_module("_hasten_watcher.instrumentation").begin(folder, began_ns)
    except Exception as error:  # noqa: BLE001 (whatever it is: the program must run)
        with open(os.path.join(folder, f"trouble-{os.getpid()}"), "w") as stream:  # noqa: PTH118, PTH123
            stream.write(f"{type(error).__name__}: {error}")


def _run_the_next() -> None:
    """This module has taken the name of the environment's own sitecustomize, if it has one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


_start()
_run_the_next()
