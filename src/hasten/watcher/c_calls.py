"""The C calls between two runs, looked at in a few rounds of a loop: where are arrays converted, and how long it takes.

Python's profiling hook is on for these rounds only, and never where the program uses it itself.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final

from . import rows

if TYPE_CHECKING:
    from types import FrameType

    from .recorder import Place, Recorder

_CONVERSIONS: Final = frozenset({"astype"})
LOOKED_AT_ROUNDS: Final = frozenset({3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181})
_BYTES_OF_FLOAT: Final = 4
_MOST_EVENTS: Final = 3000
"""A round with more calls than this is left alone: looking at them all would take long."""


class CCalls:
    """Looks at the C calls of one thread at a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.looking: set[int] = set()
        """Threads whose calls are being looked at."""
        self._events = 0
        self._begun = 0
        self._place = 0
        self._notes: list[dict[str, Any]] = []

    def after_run(self, place: Place) -> None:
        """A run has ended after which it is time to look: at the calls up to the next one."""
        if not self.looking and sys.getprofile() is None:
            self.looking.add(get_ident())
            self._events = 0
            self._notes = []
            self._place = place.number
            sys.setprofile(self._event)

    def before_run(self) -> int:
        """A run begins: end the look of this thread. Returns the flag for the run."""
        if get_ident() not in self.looking:
            return 0
        sys.setprofile(None)
        self.looking.discard(get_ident())
        for note in self._notes:
            self._recorder.note({**note, "free_ns": cost_of_freeing_ns(_BYTES_OF_FLOAT * note["elements"])})
        return rows.LOOKED_AT

    def _event(self, frame: FrameType, event: str, function: Any) -> None:
        self._events += 1
        if self._events > _MOST_EVENTS:
            sys.setprofile(None)
            self.looking.discard(get_ident())
        elif event == "c_call":
            if function.__name__ in _CONVERSIONS:
                self._begun = time.perf_counter_ns()
        elif event == "c_return" and function.__name__ in _CONVERSIONS:
            self._note(frame, function, time.perf_counter_ns() - self._begun)

    def _note(self, frame: FrameType, function: Any, elapsed_ns: int) -> None:
        array = function.__self__
        code = frame.f_code
        self._notes.append(
            {
                "kind": "conversion",
                "name": function.__name__,
                "from": str(getattr(array, "dtype", "")),
                "elements": int(getattr(array, "size", 0)),
                "ns": elapsed_ns,
                "run": self._place,
                "where": [code.co_filename, code.co_name, frame.f_lineno],
            }
        )


def cost_of_freeing_ns(nbytes: int) -> int:
    """What giving back an array's memory takes: a part of a copy's cost that its own call does not show."""
    numpy: Any = sys.modules["numpy"]
    spare = numpy.ones(nbytes, numpy.uint8)
    start = time.perf_counter_ns()
    del spare
    return time.perf_counter_ns() - start
