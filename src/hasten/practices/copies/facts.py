"""What a study of copies found: each way to feed and read a model, and what it costs relative to one inference."""

from __future__ import annotations

from hasten.core.codec import record, sentence
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark

IN, OUT, BOTH = "in", "out", "both"


@record
class CopyRow:
    """What one way costs in one direction (in, out, both); or why this model or engine cannot do it."""

    key: str
    way: str
    direction: str
    us: float | None = None
    ci95_us: tuple[float, float] | None = None
    share: float | None = None
    """Of one inference."""
    reason: Remark = sentence(default=Remark(""))
    """Why it has no cost."""
    fault: bool = False
    """Whether it is something that applications do by mistake."""


@record
class Cycles:
    """Cycles of one way (feed, run, read), timed one after the other in one process."""

    way: str
    runner: int
    turn: int
    feed_ns: tuple[int, ...]
    run_ns: tuple[int, ...]
    read_ns: tuple[int, ...]


@record
class CopiesFound:
    """The costs of feeding and reading one model."""

    model: Model
    plan: Plan
    rows: tuple[CopyRow, ...]
    inference_us: float
    inference_ci95_us: tuple[float, float]
    input_bytes: int
    output_bytes: int
    snippet: str = ""
    """Code that feeds and reads the recommended way."""
    language: str = ""
    processes: int = 0
    doubts: tuple[Remark, ...] = ()
    interrupted: bool = False
    blocks: tuple[Cycles, ...] = ()
    """The raw times, for the session file only."""

    def row(self, key: str, direction: str) -> CopyRow | None:
        """The row of a way in a direction."""
        return next((row for row in self.rows if (row.key, row.direction) == (key, direction)), None)
