"""Time budget of a measurement in rounds, with a clock that tests can set.

Another round begins as long as one like the longest finished round still fits; a few are run in any case, as without
them there is nothing to say.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Clock = Callable[[], float]
    """Seconds, from whatever beginning; never backwards."""


def now() -> float:
    """The time on the clock by which all measuring is scheduled: the one place where a test sets another."""
    return time.monotonic()


class Schedule:
    """Time budget, counted from construction."""

    def __init__(self, seconds: float, *, fewest: int = 1, most: int | None = None, clock: Clock | None = None) -> None:
        self.seconds, self.fewest = seconds, fewest
        self.rounds = 0
        self.longest_s = 0.0
        """What the longest round took."""
        self._most, self._clock = most, clock or now
        self._begin = self._clock()

    @property
    def elapsed_s(self) -> float:
        """The time since the beginning."""
        return self._clock() - self._begin

    @property
    def left_s(self) -> float:
        """The time until the end; below 0 after it."""
        return self.seconds - self.elapsed_s

    @property
    def share(self) -> float:
        """How much of the time is spent, for a progress bar."""
        return min(self.elapsed_s / self.seconds, 1.0) if self.seconds > 0 else 1.0

    def fits(self, seconds: float) -> bool:
        """Whether work of this length still ends in time."""
        return seconds <= self.left_s

    def has_round(self) -> bool:
        """Whether to begin another round."""
        if self._most is not None and self.rounds >= self._most:
            return False
        return self.rounds < self.fewest or self.fits(self.longest_s)

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """Time a round; one that ends in an exception does not count."""
        begin = self._clock()
        yield
        self.rounds += 1
        self.longest_s = max(self.longest_s, self._clock() - begin)
