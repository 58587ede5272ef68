"""Probe of a few calls of each place: the cost of copies, next to that of passing data without them.

An input that LiteRT has to convert or copy first is handed over a second time in the form that fits, and that is timed;
an output is also fetched as a view, and a weak reference tells whether the copy outlived the next run. Both leave the
program as it was. Nothing here may fail: it is not the program's business.
"""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from .bytecode import is_read_between
from .c_calls import cost_of_freeing_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches
    from .recorder import Place

_SMALL_BYTES: Final = 4096
_ONLY_ITS_NAME: Final = 3
"""References to an array that one local name holds: the name, the variable here, the argument of getrefcount."""


def look_at_input(hand_over: Callable[[Any], object], value: Any, place: Place, patches: Patches) -> None:
    """Time the same input in the form that fits. The tensor gets the same numbers once more."""
    place.left -= 1
    numpy: Any = sys.modules.get("numpy")
    with contextlib.suppress(Exception):
        fit = numpy.ascontiguousarray(value)
        times = []
        for _ in range(2):
            start = time.perf_counter_ns()
            hand_over(fit)
            times.append(time.perf_counter_ns() - start)
        what = "non-contiguous" if isinstance(value, numpy.ndarray) else type(value).__name__
        patches.recorder.note(
            {"kind": "input", "place": place.number, "what": what, "fit_ns": min(times), "bytes": int(fit.nbytes)}
        )


def look_at_output(interpreter: Any, index: Any, result: Any, place: Place, patches: Patches) -> None:
    """Time a view of the same output, and keep an eye on the copy."""
    place.left -= 1
    with contextlib.suppress(Exception):
        if result.nbytes < _SMALL_BYTES:
            return
        start = time.perf_counter_ns()
        interpreter.tensor(index)()
        view_ns = time.perf_counter_ns() - start
        note = {"kind": "output", "place": place.number, "view_ns": view_ns, "bytes": int(result.nbytes)}
        note["free_ns"] = cost_of_freeing_ns(int(result.nbytes))
        patches.outputs.setdefault(id(interpreter), []).append((weakref.ref(result), place, note))


def note_run(interpreter: Any, place: Place, patches: Patches) -> int:
    """Before a run: which of the outputs that were fetched before are still in use? Returns the flags of the run."""
    if patches.outputs:
        with contextlib.suppress(Exception):
            for reference, read, note in patches.outputs.pop(id(interpreter), ()):
                patches.recorder.note({**note, "view_would_do": _is_over(reference, read, place)})
    return patches.calls.before_run() if patches.calls.looking else 0


def _is_over(reference: weakref.ref[Any], read: Place, run: Place) -> bool:
    """Whether the copy is gone, or waits only in a local name to be replaced, unread."""
    array = reference()
    if array is None:
        return True
    if sys.getrefcount(array) != _ONLY_ITS_NAME or run.code is not read.code:
        return False
    how, _, name = read.fate.partition(":")
    return how == "local" and not is_read_between(read.code, name, run.offset, read.offset)
