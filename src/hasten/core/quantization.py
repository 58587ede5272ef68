"""What quantising came to: a row for each variant, and which of them to use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy, accuracy_from_data
from hasten.core.comparison import DEFAULT_MARGIN, Comparison, Verdict
from hasten.core.finding import Finding, Standing
from hasten.core.statistics import Interval
from hasten.core.units import percent, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ORIGINAL: Final = "original"
SPEED: Final = "speed"
SIZE: Final = "size"
GOALS: Final = (SPEED, SIZE)
# What became of the floor.
KEPT: Final = "kept"
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant, as far as it is known. `floor` is empty until it was evaluated."""

    recipe: str
    path: str = ""
    sha256: str = ""
    size_bytes: int = 0
    zipped_bytes: int = 0
    floor: str = ""
    why: str = ""
    choosing: Accuracy | None = None
    """On the half of the data by which it is chosen; on a part of it where the floor was decided early."""
    drop: float | None = None
    """What was lost against the original on these samples."""
    accuracy: Accuracy | None = None
    """On the other half, which has no part in the choice."""
    change: PairedAccuracy | None = None
    """Against the original, on the other half."""
    latency: Interval | None = None
    against: Comparison | None = None
    nodes: tuple[int, ...] = ()
    """The nodes that were quantised."""
    float_nodes: tuple[int, ...] = ()
    """The nodes that a mix leaves as they are."""
    notes: tuple[str, ...] = ()

    @property
    def is_mix(self) -> bool:
        """Whether some nodes were left float on purpose."""
        return bool(self.float_nodes)

    @property
    def known_accuracy(self) -> Accuracy | None:
        """The figure on the other half, or else the one that it was judged by."""
        return self.accuracy or self.choosing

    def as_data(self) -> dict[str, Any]:
        """The row as JSON can hold it."""
        known = self.known_accuracy
        return {
            "recipe": self.recipe, "path": self.path, "sha256": self.sha256,
            "size": self.size_bytes, "zipped_size": self.zipped_bytes,
            "accuracy": None if known is None else known.as_data(),
            "accuracy_on": "" if known is None else "reporting" if self.accuracy else "choosing",
            "choosing": None if self.choosing is None else self.choosing.as_data(),
            "drop": self.drop,
            "change": None if self.change is None else _change_data(self.change),
            "floor": self.floor,
            "latency": None if self.latency is None else _latency_data(self.latency),
            "verdict": None if self.against is None else self.against.verdict.value,
            "against": None if self.against is None else self.against.as_data(),
            "nodes": list(self.nodes), "float_nodes": list(self.float_nodes),
            "why": self.why, "notes": list(self.notes),
        }  # fmt: skip


def row_from_data(data: Mapping[str, Any]) -> VariantRow:
    """The row back from JSON."""
    reported = data["accuracy"] if data["accuracy_on"] == "reporting" else None
    return VariantRow(
        recipe=data["recipe"],
        path=data["path"],
        sha256=data["sha256"],
        size_bytes=data["size"],
        zipped_bytes=data["zipped_size"],
        floor=data["floor"],
        why=data["why"],
        choosing=None if data["choosing"] is None else accuracy_from_data(data["choosing"]),
        drop=data.get("drop"),
        accuracy=None if reported is None else accuracy_from_data(reported),
        change=None if data["change"] is None else _change_from_data(data["change"]),
        latency=None if data["latency"] is None else _latency_from_data(data["latency"]),
        against=None if data["against"] is None else _comparison_from_data(data["against"]),
        nodes=tuple(data["nodes"]),
        float_nodes=tuple(data["float_nodes"]),
        notes=tuple(data["notes"]),
    )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What quantising only these nodes does to the output, and what they have to give."""

    recipe: str
    nodes: tuple[int, ...]
    op: str
    location: str
    error: float
    """Root of the mean square of the difference at the output, relative to the output's own."""
    share: float
    """Their part of the weights, or of the time, as `share_of` says."""
    share_of: str = "weights"

    @property
    def cost(self) -> float:
        """Error for each part of the gain: what has most of it goes back to float first."""
        return self.error / max(self.share, 1e-4)

    def as_data(self) -> dict[str, Any]:
        """The sensitivity as JSON can hold it."""
        return {
            "recipe": self.recipe, "nodes": list(self.nodes), "op": self.op, "location": self.location,
            "error": self.error if math.isfinite(self.error) else None, "share": self.share,
            "share_of": self.share_of,
        }  # fmt: skip


def sensitivity_from_data(data: Mapping[str, Any]) -> Sensitivity:
    """The sensitivity back from JSON."""
    error = math.inf if data["error"] is None else data["error"]
    nodes, share_of = tuple(data["nodes"]), data.get("share_of", "")
    return Sensitivity(data["recipe"], nodes, data["op"], data["location"], error, data["share"], share_of)


class Bisection:
    """Finds the fewest steps that suffice, if more never hurt: none is known not to, all of them surely do."""

    def __init__(self, count: int) -> None:
        self.too_few, self.enough = 0, count

    @property
    def next(self) -> int | None:
        """What to try now; None when the answer is known to be `enough`."""
        return (self.too_few + self.enough) // 2 if self.enough - self.too_few > 1 else None

    def tell(self, tried: int, suffices: bool) -> None:
        """Take the outcome in."""
        if suffices:
            self.enough = min(self.enough, tried)
        else:
            self.too_few = max(self.too_few, tried)


def is_better(row: VariantRow, best: VariantRow, goal: str) -> bool:
    """Whether a variant serves the goal better, whatever its accuracy."""
    if goal == SIZE:
        return 0 < row.size_bytes < best.size_bytes
    if row.against is None or row.against.verdict is not Verdict.FASTER:
        return False
    # Less than the margin is no news: then the earlier one, which is the simpler recipe, stays.
    return best.against is None or row.against.ratio < best.against.ratio * (1 - DEFAULT_MARGIN)


def choose(rows: Iterable[VariantRow], goal: str) -> VariantRow:
    """The best row that keeps the floor; the original, the first of them, where no other does better."""
    best, *others = rows
    for row in others:
        if row.floor == KEPT and row.path and is_better(row, best, goal):
            best = row
    return best


def worth_mixing(rows: Sequence[VariantRow], goal: str) -> list[VariantRow]:
    """Recipes that would be better than the choice if they kept the floor, the best first."""
    best = choose(rows, goal)
    broken = [row for row in rows if row.floor == BROKEN and not row.is_mix and len(row.nodes) > 1]
    promising = [row for row in broken if is_better(row, best, goal)]
    return sorted(promising, key=lambda row: _promise(row, best, goal))


def _promise(row: VariantRow, best: VariantRow, goal: str) -> tuple[float, float]:
    """The gain in steps of a tenth, then what was lost: among equals, the one nearest to the floor."""
    gain = row.size_bytes / max(1, best.size_bytes) if goal == SIZE else row.against.ratio if row.against else math.inf
    return round(gain, 1), math.inf if row.drop is None else row.drop


def explain_choice(rows: Sequence[VariantRow], goal: str) -> str:
    """Why this one, in a sentence."""
    best = choose(rows, goal)
    original = rows[0]
    if best is not original:
        gains = [f"{percent(1 - best.size_bytes / original.size_bytes)} smaller"] if original.size_bytes else []
        if best.against is not None:
            gains.append(f"{best.against.verdict.value} (ratio {best.against.ratio:.2f})")
        doubt = "" if not best.why else f"; but {best.why}: more data would tell"
        return f"{best.recipe} keeps the floor and is {', '.join(gains)}{doubt}."
    if any(row.floor == UNKNOWN for row in rows[1:]):
        return "the original stays: without data nothing shows that a variant keeps its accuracy."
    kept = [row for row in rows[1:] if row.floor == KEPT and row.path]
    if not kept:
        return "the original stays: no variant keeps the floor."
    if goal == SIZE:
        return "the original stays: no variant that keeps the floor is smaller."
    smallest = min(kept, key=lambda row: row.size_bytes)
    also = f"; {smallest.recipe} keeps it in {size(smallest.size_bytes)} (--for size)" if smallest.size_bytes else ""
    return f"the original stays: no variant that keeps the floor is surely faster{also}."


def finding_of(rows: Sequence[VariantRow], goal: str, already: str = "") -> Finding:
    """The practice in words for a report."""
    if already:
        return Finding("quantize", Standing.GOOD, already)
    best, why = choose(rows, goal), explain_choice(rows, goal)
    if any(row.floor == UNKNOWN for row in rows):
        return Finding("quantize", Standing.NOT_EXAMINED, why, "Give labelled data with --data.")
    return Finding("quantize", Standing.IMPROVED if best is not rows[0] else Standing.GOOD, why)


def floor_of(kind: Kind, kept: bool) -> str:
    """What may be said of the floor on data of this kind."""
    return UNKNOWN if kind is Kind.UNKNOWN else KEPT if kept else BROKEN


def _change_data(change: PairedAccuracy) -> dict[str, Any]:
    data = {**change.as_data(), "higher_is_better": change.higher_is_better}
    return {key: value for key, value in data.items() if key not in ("lost_samples", "won_samples")}


def _change_from_data(data: Mapping[str, Any]) -> PairedAccuracy:
    low, high = _bounds(data["ci95"])
    return PairedAccuracy(
        data["metric"], data["samples"], data["difference"], low, high, data["higher_is_better"],
        data["both_right"], data["lost"], data["won"], data["both_wrong"], data["p_value"],
    )  # fmt: skip


def _latency_data(latency: Interval) -> dict[str, Any]:
    bounds = [bound if math.isfinite(bound) else None for bound in (latency.low, latency.high)]
    return {"median_ms": latency.estimate, "ci95_ms": bounds}


def _latency_from_data(data: Mapping[str, Any]) -> Interval:
    return Interval(data["median_ms"], *_bounds(data["ci95_ms"]))


def _comparison_from_data(data: Mapping[str, Any]) -> Comparison:
    smallest = data["smallest_detectable"]
    return Comparison(
        Verdict(data["verdict"]), data["ratio"], _bounds(data["ci95"]), math.inf if smallest is None else smallest,
        data["rounds"],
    )  # fmt: skip


def _bounds(pair: Sequence[float | None]) -> tuple[float, float]:
    low, high = pair
    return (-math.inf if low is None else low, math.inf if high is None else high)
