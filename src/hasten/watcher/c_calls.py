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
_ROUNDS: Final = frozenset({3, 5, 8, 13, 21, 34, 55, 89})
_MOST_IN_A_ROUND: Final = 200


class CCalls:
    """Looks at the C calls of one thread at a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.looking: set[int] = set()
        """Threads whose calls are being looked at."""
        self._seen = 0
        self._begun = 0

    def after_run(self, place: Place) -> None:
        """A run has ended: look at the calls up to the next one, if it is time to."""
        place.runs += 1
        if place.runs in _ROUNDS and not self.looking and sys.getprofile() is None:
            self.looking.add(get_ident())
            self._seen = 0
            sys.setprofile(self._event)

    def before_run(self) -> int:
        """A run begins: end the look of this thread. Returns the flag for the run."""
        if get_ident() not in self.looking:
            return 0
        sys.setprofile(None)
        self.looking.discard(get_ident())
        return rows.LOOKED_AT

    def _event(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            if function.__name__ in _CONVERSIONS:
                self._begun = time.perf_counter_ns()
        elif event == "c_return" and function.__name__ in _CONVERSIONS:
            elapsed_ns = time.perf_counter_ns() - self._begun
            self._seen += 1
            if self._seen <= _MOST_IN_A_ROUND:
                self._note(frame, function, elapsed_ns)

    def _note(self, frame: FrameType, function: Any, elapsed_ns: int) -> None:
        array = function.__self__
        code = frame.f_code
        self._recorder.note(
            {
                "kind": "conversion", "name": function.__name__, "from": str(getattr(array, "dtype", "")),
                "elements": int(getattr(array, "size", 0)), "ns": elapsed_ns, "thread": get_ident(),
                "where": [code.co_filename, code.co_name, frame.f_lineno],
            }
        )  # fmt: skip
