"""The ways to feed and read a model, what each costs beside one inference, and which to use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.finding import Finding, Standing
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.doubts import Doubt
    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.statistics import Interval

PRACTICE: Final = "copies"
MATTERS: Final = 0.01
"""From this share of one inference on, a cost is worth somebody's work."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to feed or read, as a runner times it: feed, run, read, again and again."""

    key: str
    feeding: str
    """What the step before a run is called; empty where it is no row of its own."""
    reading: str = ""
    fault: bool = False
    """Whether it is something that applications do by mistake."""
    whole: bool = False
    """Whether its cost is the whole cycle less a plain run: it cannot be told apart, or slows the run itself down."""


WAYS: Final = (
    Way("copying", "set_tensor", "get_tensor"),
    Way("views", "tensor() view", "tensor() view"),
    Way("filled", "tensor() view, filled"),
    Way("signature", "signature runner", whole=True),
    Way("buffers", "TensorBuffer.write", "TensorBuffer.read"),
    Way("host", "host memory, aligned", "host memory, aligned"),
    Way("unaligned", "host memory, not aligned", "host memory, not aligned"),
    Way("wrong type", "wrong type, converted", fault=True),
    Way("strided", "array not contiguous", fault=True),
    Way("list", "list instead of array", fault=True),
    Way("resize", "resize to the same shape", fault=True, whole=True),
    Way("reshape", "resize to another shape", fault=True, whole=True),
)
BY_KEY: Final = {way.key: way for way in WAYS}
# From the plainest on: a way further down must surely save something to be preferred.
CANDIDATES: Final = ("copying", "buffers", "views", "host")
NAMES: Final = {
    "copying": "set_tensor and get_tensor",
    "buffers": "TensorBuffer.write and read",
    "views": "tensor() views",
    "host": "hasten.Runner (host memory)",
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
        return {**asdict(self), "ci95_us": None if self.ci95_us is None else list(self.ci95_us)}


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
    doubts: tuple[Doubt, ...] = ()

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
            "inference_ci95_us": list(self.inference_ci95_us),
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "processes": self.processes,
            "finding": self.finding.as_data(),
            "doubts": [doubt.as_data() for doubt in self.doubts],
        }


def measured_row(way: Way, direction: str, cost_us: Interval, inference_us: float) -> CopyRow:
    """A row from a cost that was measured."""
    name = {"in": way.feeding, "out": way.reading}.get(direction) or way.feeding
    if direction == "both" and way.reading and way.reading != way.feeding:
        name = f"{way.feeding} + {way.reading}"
    share = cost_us.estimate / inference_us if inference_us else None
    return CopyRow(way.key, name, direction, cost_us.estimate, (cost_us.low, cost_us.high), share, fault=way.fault)


def refused_row(way: Way, reason: str) -> CopyRow:
    """A row for a way that cannot be gone."""
    direction = "both" if way.reading or way.key == "signature" else "in"
    name = way.feeding if way.reading in ("", way.feeding) else f"{way.feeding} + {way.reading}"
    return CopyRow(way.key, name, direction, reason=reason, fault=way.fault)


def choose(rows: Sequence[CopyRow], inference_us: float) -> str:
    """The plainest way than which no other surely saves as much as matters; empty if none was measured."""
    costs = {row.key: row for row in rows if row.direction == "both" and row.us is not None and row.ci95_us is not None}
    chosen = ""
    for key in CANDIDATES:
        row = costs.get(key)
        if row is None or row.us is None or row.ci95_us is None:
            continue
        if not chosen:
            chosen = key
            continue
        now = costs[chosen]
        assert now.us is not None and now.ci95_us is not None  # noqa: PT018 - they were asked for above
        surely_less = row.ci95_us[1] < now.ci95_us[0]
        if surely_less and now.us - row.us >= MATTERS * inference_us:
            chosen = key
    return chosen


def finding_of(rows: Sequence[CopyRow], recommended: str) -> Finding:
    """What the costs come to for whoever wrote the usual set_tensor, invoke, get_tensor."""
    costs = {row.key: row for row in rows if row.direction == "both"}
    usual = next((costs[key] for key in CANDIDATES if key in costs and costs[key].us is not None), None)
    best = costs.get(recommended)
    if usual is None or best is None or usual.us is None or best.us is None or usual.share is None:
        return Finding(PRACTICE, Standing.NOT_EXAMINED, "no way to feed and read this model could be timed")
    if best.key == usual.key:
        evidence = f"{NAMES[usual.key]} cost {_cost(usual)}, and no other way surely saves {percent(MATTERS)} of it"
        return Finding(PRACTICE, Standing.GOOD, evidence)
    saved = usual.us - best.us
    evidence = f"{NAMES[usual.key]} cost {_cost(usual)}; {NAMES[best.key]} {_cost(best)}"
    todo = (
        f"Use {NAMES[best.key]}, if the application can write its input in place: saves up to "
        f"{milliseconds(saved / 1e3)} an inference ({percent(saved / usual.us * usual.share)})."
    )
    return Finding(PRACTICE, Standing.TO_DO, evidence, todo)


def _cost(row: CopyRow) -> str:
    assert row.us is not None
    share = "" if row.share is None else f" ({percent(row.share)} of an inference)"
    return f"{milliseconds(row.us / 1e3)}{share}"
