"""Replaced attributes of classes and modules, and what the replacements share."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any, Final

from .c_calls import CCalls
from .event_loops import loops_are_loaded
from .recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOKED_AT_AGAIN: Final = 2


class Patches:
    """Patches that write to one recorder, until they are undone."""

    def __init__(self, folder: str) -> None:
        self.recorder = Recorder(folder)
        self.calls = CCalls(self.recorder)
        self.outputs: dict[int, list[Any]] = {}
        """Outputs that were looked at, by the interpreter that they came from, until its next run."""
        self.has_loops = False
        """Whether the program may run an event loop: only then each run has to be asked where it comes from."""
        self.frames_lock = _thread.allocate_lock()
        """Held while frames of other threads are held, and with them what is in their variables."""
        self.on_litert: Callable[[], None] = lambda: None
        """Called when LiteRT is patched: it has loaded NumPy by then, and that has loaded `threading`."""
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module for as long as the watch lasts."""
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Give every class and module its own attributes back."""
        for owner, name, original in reversed(self._replaced):
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._replaced.clear()

    def look_for_loops(self) -> None:
        """See whether the program has loaded anything that runs an event loop."""
        self.has_loops = self.has_loops or loops_are_loaded()

    def look_again(self) -> None:
        """From time to time a few more calls of each place are examined."""
        self.look_for_loops()
        for place in list(self.recorder.places.values()):
            place.left = max(place.left, _LOOKED_AT_AGAIN)
