"""What quantising came to: a row for each variant, and which of them to use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy, accuracy_from_data, paired_from_data
from hasten.core.comparison import DEFAULT_MARGIN, Comparison, Verdict, comparison_from_data
from hasten.core.finding import Finding, Standing, told_finding
from hasten.core.json_numbers import latency_data, latency_from_data
from hasten.core.units import percent, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.statistics import Interval

ORIGINAL: Final = "original"
SPEED: Final = "speed"
SIZE: Final = "size"
GOALS: Final = (SPEED, SIZE)
# What became of the floor.
KEPT: Final = "kept"
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"
# The grammar of a mix's name: static_int8_but_12 leaves 12 nodes float for the floor's sake, static_int8_but_slow_12
# leaves those float that integers make slower, and static_int8_size_but_12 is for another goal.
BUT: Final = "_but_"
SLOW: Final = "slow_"
FOR_SIZE: Final = "_size"


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
    """What went wrong with it; of the original, why no variant can be judged by this data, in a sentence."""
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
    integer_share: float | None = None
    """The share of its weights, by their number, in integers of at most 8 bits."""
    notes: tuple[str, ...] = ()

    @property
    def is_mix(self) -> bool:
        """Whether some nodes were left float on purpose."""
        return bool(self.float_nodes)

    @property
    def is_step(self) -> bool:
        """Whether it is one of the mixes that a search for the floor tries, of which only the last is of use."""
        return self.is_mix and not self.recipe.rpartition(BUT)[2].startswith(SLOW)

    @property
    def kept_when_judged(self) -> bool:
        """Whether it kept the floor on the choosing half, whatever the other half said later."""
        return self.floor == KEPT or (self.floor == BROKEN and self.change is not None)

    @property
    def base_recipe(self) -> str:
        """The recipe that its quantised nodes follow."""
        return self.recipe.partition(BUT)[0].removesuffix(FOR_SIZE)

    @property
    def known_accuracy(self) -> Accuracy | None:
        """The figure on the other half, or else the one that it was judged by."""
        return self.accuracy or self.choosing

    def as_data(self) -> dict[str, Any]:
        """The row as JSON can hold it."""
        known = self.known_accuracy
        return {
            "recipe": self.recipe,
            "path": self.path,
            "sha256": self.sha256,
            "size": self.size_bytes,
            "zipped_size": self.zipped_bytes,
            "accuracy": None if known is None else known.as_data(),
            "accuracy_on": "" if known is None else "reporting" if self.accuracy else "choosing",
            "choosing": None if self.choosing is None else self.choosing.as_data(),
            "drop": self.drop,
            "change": None if self.change is None else self.change.as_data(),
            "floor": self.floor,
            "latency": None if self.latency is None else latency_data(self.latency),
            "verdict": None if self.against is None else self.against.verdict.value,
            "against": None if self.against is None else self.against.as_data(),
            "nodes": list(self.nodes),
            "float_nodes": list(self.float_nodes),
            "integer_share": self.integer_share,
            "why": self.why,
            "notes": list(self.notes),
        }


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
        change=None if data["change"] is None else paired_from_data(data["change"]),
        latency=None if data["latency"] is None else latency_from_data(data["latency"]),
        against=None if data["against"] is None else comparison_from_data(data["against"]),
        nodes=tuple(data["nodes"]),
        float_nodes=tuple(data["float_nodes"]),
        integer_share=data.get("integer_share"),
        notes=tuple(data["notes"]),
    )


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
    broken = [row for row in rows if row.floor == BROKEN and not row.is_step and len(row.nodes) > 1]
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
        facts = [f"{best.recipe} keeps the floor", *_size_words(best, original), *_speed_words(best)]
        return f"{', '.join(facts[:-1])} and {facts[-1]}." if len(facts) > 1 else f"{facts[0]}."
    why = _why_none(rows, goal)
    return f"the original stays: {why}" + ("" if why.endswith(".") else ".")


def _size_words(best: VariantRow, original: VariantRow) -> list[str]:
    if not original.size_bytes or not best.size_bytes:
        return []
    saved = 1 - best.size_bytes / original.size_bytes
    return [f"is {percent(abs(saved))} {'smaller' if saved >= 0 else 'larger'}"]


def _speed_words(best: VariantRow) -> list[str]:
    if best.against is None:
        return []
    ratio = best.against.ratio
    words = {
        Verdict.FASTER: f"takes {percent(1 - ratio)} less time",
        Verdict.SLOWER: f"takes {percent(ratio - 1)} more time" if ratio < 2 else f"takes {ratio:.1f} times as long",
        Verdict.SAME: "is as fast",
        Verdict.UNDECIDED: f"may be faster or slower (ratio {ratio:.2f}, undecided)",
    }
    return [words[best.against.verdict]]


def _why_none(rows: Sequence[VariantRow], goal: str) -> str:
    """Why no variant is chosen."""
    original, *variants = rows
    judged = [row for row in variants if row.floor not in ("", FAILED)]
    if not judged:
        failed = next((row for row in variants if row.floor == FAILED), None)
        if failed is None:
            return "no variant has been judged yet"
        return f"no variant could be made and run ({failed.recipe}: {failed.why.splitlines()[0].rstrip('.')})"
    if original.why:
        return f"no variant can be judged. {original.why}"
    if any(row.floor == UNKNOWN for row in judged):
        return "without data nothing shows that a variant keeps its accuracy"
    kept = [row for row in judged if row.floor == KEPT and row.path]
    if not kept:
        return "no variant keeps the floor"
    if goal == SIZE:
        return "no variant that keeps the floor is smaller"
    smallest = min(kept, key=lambda row: row.size_bytes)
    smaller = smallest.size_bytes < original.size_bytes
    also = f"; {smallest.recipe} keeps it in {size(smallest.size_bytes)} (--for size)" if smaller else ""
    return f"no variant that keeps the floor is surely faster{also}"


def finding_of(rows: Sequence[VariantRow], goal: str, already: str = "") -> Finding:
    """The practice in words for a report."""
    if already:
        return told_finding("quantize", Standing.GOOD, already)
    best, why = choose(rows, goal), explain_choice(rows, goal)
    if rows[0].why:
        return told_finding(
            "quantize", Standing.NOT_EXAMINED, why, "Give more labelled data, and see that its labels fit."
        )
    if any(row.floor == UNKNOWN for row in rows):
        return told_finding("quantize", Standing.NOT_EXAMINED, why, "Give labelled data with --data.")
    if all(row.floor in ("", FAILED) for row in rows[1:]):
        return told_finding("quantize", Standing.NOT_EXAMINED, why)
    return told_finding("quantize", Standing.IMPROVED if best is not rows[0] else Standing.GOOD, why)


def floor_of(kind: Kind, kept: bool | None) -> str:
    """What may be said of the floor on data of this kind; None where the data could not decide."""
    return UNKNOWN if kind is Kind.UNKNOWN or kept is None else KEPT if kept else BROKEN
