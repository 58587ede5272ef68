"""The floor: how much of a model's accuracy a change may lose. One record for every command that decides by it."""

from __future__ import annotations

from typing import Final

from hasten.core.codec import record

POINTS: Final = "points"
RELATIVE: Final = "relative"
SHARE: Final = "share"
VALUE: Final = "value"
_ROUNDING: Final = 1e-9


@record
class Floor:
    """What may be lost against an original, on one set of data.

    Of a metric whose scores are shares (top-1, miou, cosine), `max_drop` is a number of points; of any other, whose
    unit is unknown, it is a part of the original's own value.
    """

    max_drop: float
    kind: str = POINTS
    unit: str = SHARE
    """What a loss is counted in: share, or value where the metric has a scale of its own."""
    metric: str = ""
    original: float | None = None
    """The original's value of the metric."""
    relative_to: float | None = None
    """What a relative drop is a part of; 0 where there is nothing to relate it to."""
    allowed: float | None = None
    """The most that the metric's value may lose; None where nothing says how much that is."""

    def keeps(self, drop: float) -> bool:
        """Whether a drop is within what is allowed."""
        scale = 1.0 if self.relative_to is None else self.relative_to
        return self.allowed is not None and drop <= self.allowed + _ROUNDING * scale
