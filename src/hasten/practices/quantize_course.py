"""How far a search for variants has come, as a bar shows it: it moves with each step, though nobody knows how many the
search for a mix will take."""

from __future__ import annotations

from typing import Final

import numpy as np

# Where the parts of a search begin and end, as its steps name them: making and judging the recipes, timing, looking for
# mixes, the other half of the data.
_PARTS: Final = (0.0, 0.5, 0.7, 0.9, 1.0)
# The same on the bar. Where mixes are looked for, that may take longer than all the rest.
_WITH_MIXES: Final = (0.0, 0.3, 0.5, 0.9, 1.0)
_WITHOUT: Final = (0.0, 0.5, 0.85, 0.9, 1.0)
# A step whose part has an unknown number of them covers this share of what is left of the part: none ever fills it.
_OF_THE_REST: Final = 0.04
_TIMING_OF_THE_REST: Final = 0.5


class Course:
    """Where the bar stands. It never goes back, and is full at the end only."""

    def __init__(self, *, mixes: bool) -> None:
        self._ends = _WITH_MIXES if mixes else _WITHOUT
        self._place = 0.0

    def step(self, share: float) -> float:
        """A further step, of which is known that it lies there or later."""
        place = float(np.interp(share, _PARTS, self._ends))
        self._place = place if place > self._place else self._place + _OF_THE_REST * (self._end() - self._place)
        return self._place

    def timing(self, begin: float, spent: float) -> float:
        """So large a part of the time that a race has at most is spent; it began at this place."""
        end = next((end for end in self._ends if end > begin), 1.0)
        self._place = max(self._place, begin + _TIMING_OF_THE_REST * (end - begin) * min(spent, 1.0))
        return self._place

    def _end(self) -> float:
        return next((end for end in self._ends if end > self._place), 1.0)
