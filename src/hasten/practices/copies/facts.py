"""The ways to feed and read a model, what each costs beside one inference, and which to use."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.doubts import doubts_data
from hasten.core.finding import Finding, Standing, told_finding
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.statistics import Interval
    from hasten.runner.copy_ways import Way

PRACTICE: Final = "copies"
MATTERS: Final = 0.01
"""From this share of one inference on, a cost is worth somebody's work."""


# Without a copy of their own, from the plainest on: one further down must surely save something to be preferred.
LEAN: Final = ("views", "locked", "host")
# What applications do, unless somebody told them otherwise.
USUAL: Final = ("copying", "buffers")
NAMES: Final = {
    "copying": "set_tensor and get_tensor",
    "buffers": "TensorBuffer.write and read",
    "views": "tensor() views",
    "host": "hasten.Runner (host memory)",
    "locked": "hasten.Runner (locked device memory)",
}


@dataclass(frozen=True, slots=True)
class CopyRow:
    """What one way costs in one direction (in, out, both); or why this model or engine cannot do it."""

    key: str
    way: str
    direction: str
    us: float | None = None
    ci95_us: tuple[float, float] | None = None
    share: float | None = None
    """Of one inference."""
    reason: str = ""
    fault: bool = False

    def as_data(self) -> dict[str, Any]:
        """The row as JSON can hold it."""
        return {**asdict(self), "ci95_us": None if self.ci95_us is None else _ends(self.ci95_us)}


@dataclass(frozen=True, slots=True)
class CopyStudy:
    """The costs of feeding and reading one model."""

    model: Model
    plan: Plan
    input_bytes: int
    output_bytes: int
    inference_us: float
    inference_ci95_us: tuple[float, float]
    rows: tuple[CopyRow, ...]
    recommended: str
    """The key of a way."""
    finding: Finding
    snippet: str = ""
    language: str = ""
    processes: int = 0
    doubts: tuple[Remark, ...] = ()

    def row(self, key: str, direction: str) -> CopyRow | None:
        """The row of a way in a direction."""
        return next((row for row in self.rows if (row.key, row.direction) == (key, direction)), None)

    def as_data(self) -> dict[str, Any]:
        """The study as JSON can hold it."""
        return {
            "model": asdict(self.model),
            "plan": asdict(self.plan),
            "rows": [row.as_data() for row in self.rows],
            "recommended": NAMES.get(self.recommended, ""),
            "snippet": self.snippet,
            "language": self.language,
            "inference_us": self.inference_us,
            "inference_ci95_us": _ends(self.inference_ci95_us),
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "processes": self.processes,
            "finding": self.finding.as_data(),
            "doubts": doubts_data(self.doubts),
        }


def measured_row(way: Way, direction: str, cost_us: Interval, inference_us: float) -> CopyRow:
    """A row from a cost that was measured."""
    name = {"in": way.feeding, "out": way.reading}.get(direction, way.pair or way.feeding)
    share = cost_us.estimate / inference_us if inference_us else None
    return CopyRow(way.key, name, direction, cost_us.estimate, (cost_us.low, cost_us.high), share, fault=way.fault)


def refused_row(way: Way, reason: str) -> CopyRow:
    """A row for a way that cannot be gone."""
    direction = "both" if way.reading or way.key == "signature" else "in"
    return CopyRow(way.key, way.pair or way.feeding, direction, reason=reason, fault=way.fault)


def choose(rows: Sequence[CopyRow], inference_us: float) -> str:
    """The plainest way without a copy of its own than which no other surely saves as much as matters; or none."""
    costs = _costs(rows)
    chosen = ""
    for key in LEAN:
        if key in costs and (not chosen or _saves(costs[chosen], costs[key], inference_us)):
            chosen = key
    return chosen


def finding_of(rows: Sequence[CopyRow], recommended: str, inference_us: float) -> Finding:
    """What the costs come to for whoever wrote the usual set_tensor, invoke, get_tensor."""
    costs = _costs(rows)
    if recommended not in costs:
        return told_finding(
            PRACTICE, Standing.NOT_EXAMINED, "no way to feed and read this model in place could be timed"
        )
    best = costs[recommended]
    usual = next((costs[key] for key in USUAL if key in costs), best)
    if not _saves(usual, best, inference_us):
        evidence = f"feeding and reading by {NAMES[usual.key]} costs {_cost(usual)}"
        if usual is not best:
            evidence += f"; the leanest way surely saves no {percent(MATTERS)} of an inference"
        return told_finding(PRACTICE, Standing.GOOD, evidence)
    saved_us = (usual.us or 0.0) - (best.us or 0.0)
    evidence = f"feeding and reading by {NAMES[usual.key]} costs {_cost(usual)}, by {NAMES[best.key]} {_cost(best)}"
    todo = (
        f"Use {NAMES[best.key]} where the application can write its input in place: saves up to "
        f"{milliseconds(saved_us / 1e3)} an inference ({percent(saved_us / inference_us)})."
    )
    return told_finding(PRACTICE, Standing.TO_DO, evidence, todo)


def _ends(interval: tuple[float, float]) -> list[float | None]:
    """The ends of an interval as JSON can hold them: one block is too little for any."""
    return [end if math.isfinite(end) else None for end in interval]


def _costs(rows: Sequence[CopyRow]) -> dict[str, CopyRow]:
    return {row.key: row for row in rows if row.direction == "both" and row.us is not None}


def _saves(now: CopyRow, other: CopyRow, inference_us: float) -> bool:
    """Whether the other surely costs less, by as much as matters."""
    if now.us is None or other.us is None or now.ci95_us is None or other.ci95_us is None:
        return False
    return other.ci95_us[1] < now.ci95_us[0] and now.us - other.us >= MATTERS * inference_us


def _cost(row: CopyRow) -> str:
    if row.us is None or row.us <= 0:
        return "nothing that could be measured"
    share = "" if row.share is None else f" ({percent(row.share)} of an inference)"
    return f"{milliseconds(row.us / 1e3)}{share}"
