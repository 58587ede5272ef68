"""A trial: one variant of a model with one plan, and everything that a search has found out about it.

`hasten quantize` tries variants on one plan, `hasten tune` on many; both keep this record. A name is only shown: what
a variant is made of stands in `recipe`, `float_nodes`, `purpose` and `parent`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import Accuracy, PairedAccuracy
from hasten.core.codec import key, record, sentence, to_data, typed_from_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.costs import size_levels
from hasten.core.floor import FloorState, FloorVerdict
from hasten.core.goal import Amount, Goal
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.core.statistics import Interval

if TYPE_CHECKING:
    from hasten.core.phrases import Phrasebook

ORIGINAL: Final = "original"
REWRITTEN: Final = "rewritten"
# The parts of the data: one is for choosing, the other is reported on.
CHOOSING: Final = "choosing"
REPORTING: Final = "reporting"
# Far beyond the logarithm of any cost that can be measured, and far below what an exponential overflows at.
_LARGEST_LEVEL: Final = 100.0
NOTHING: Final = Remark("")
"""Nothing to say."""


class Status(str, enum.Enum):
    """What became of a trial; the value is its name in JSON."""

    MADE = "made"
    TIMED = "timed"
    DROPPED = "dropped"
    FAILED = "failed"
    BROKEN = "broken"
    KEPT = "kept"
    UNDECIDED = "undecided"
    """Whether it keeps the floor is undecided."""
    CHOSEN = "chosen"


class Stage(str, enum.Enum):
    """Where the trial was when that was found."""

    RACE = "race"
    ACCURACY = "accuracy"
    FINAL = "final"


_STATUS: Final = {
    FloorState.KEPT: Status.KEPT,
    FloorState.BROKEN: Status.BROKEN,
    FloorState.UNDECIDED: Status.UNDECIDED,
    FloorState.FAILED: Status.FAILED,
}


def status_of(floor: FloorState, otherwise: Status = Status.TIMED) -> Status:
    """What the floor makes of a trial; where it is not decided, what the trial is otherwise."""
    return _STATUS.get(floor, otherwise)


class Purpose(str, enum.Enum):
    """Why a variant was made."""

    RECIPE = "recipe"
    SLOW_NODES = "slow-nodes"
    """Nodes that integers slow down stay in float."""
    FLOOR = "floor"
    """Nodes that cost most accuracy for the time they save stay in float."""
    FLOOR_AND_SIZE = "floor-and-size"
    """The same, for the bytes they save."""
    PRUNING = "pruning"
    REWRITE = "rewrite"
    """The same computation in another graph."""
    HEAD = "head"
    """The last layer was fitted again, to what the quantized layers before it give."""


@record
class Trial:
    """One variant with one plan, as far as it is known."""

    variant: str
    """The variant's name: the recipe's own, or `int8+float9`."""
    plan: Plan = Plan()
    recipe: str = key("base_recipe", default="")
    """The recipe that its quantized nodes follow; empty for the original and for a pruned variant."""
    purpose: Purpose = Purpose.RECIPE
    parent: str = ""
    """The variant of which this one keeps further nodes in float."""
    source: str = ""
    """The variant that it was made of; empty for the original."""
    nodes: tuple[int, ...] = ()
    """The nodes that were changed."""
    float_nodes: tuple[int, ...] = ()
    """The nodes that stay in float on purpose."""
    path: str = ""
    sha256: str = ""
    size_bytes: int = key("size", default=0)
    zipped_bytes: int = key("zipped_size", default=0)
    integer_share: float | None = None
    """The share of its weights, by their number, in integers of at most 8 bits."""
    status: Status = Status.TIMED
    stage: Stage = Stage.RACE
    floor: FloorState = FloorState.NOT_JUDGED
    """On the samples of `accuracy`."""
    refused: bool = False
    """Whether the rule of `core.floor` forbids to choose it although it does not break the floor."""
    judged: FloorVerdict | None = None
    """Against the floor, on the part of the data for choosing."""
    reported: FloorVerdict | None = None
    """Against the floor, on the part for reporting."""
    latency: Interval | None = None
    timed_as: str = ""
    """The trial whose times it has, as both run on the same kernels; empty for times of its own."""
    against: Comparison | None = None
    """Its time against the original's."""
    choosing: Accuracy | None = None
    """On the part of the data for choosing; on fewer samples where the floor was decided early."""
    drop: float | None = None
    """What was lost against the original on these samples."""
    reporting: Accuracy | None = None
    """On the part for reporting."""
    change: PairedAccuracy | None = None
    """Against the original, on the part for reporting."""
    optimistic: bool = False
    """Whether the part for reporting had a say in that this trial is the choice, so that its figure flatters it."""
    peak_memory_mb: float | None = None
    init_ms: float | None = None
    why: Remark = sentence(default=NOTHING)
    """Why it dropped out or failed; of the original, why no variant can be judged by this data."""
    doubts: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    elapsed_s: float = 0.0
    levels: Mapping[int, float] = field(default_factory=dict)
    """Round → natural logarithm of its milliseconds there."""
    costs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """The same of other goals that were measured, by the goal's name; sessions of earlier releases have none."""
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    """What these come to next to the original's, in the unit of the goal."""

    def levels_of(self, goal: Goal) -> Mapping[int, float]:
        """Round → logarithm of the goal's cost."""
        if goal is Goal.LATENCY:
            return self.levels
        if goal is Goal.SIZE:
            return size_levels(self.size_bytes)
        return self.costs.get(goal.value, {})

    def amount(self, goal: Goal) -> Amount | None:
        """The goal's figure; None where it is not known."""
        if goal is Goal.LATENCY:
            return (
                None if self.latency is None else Amount(self.latency.estimate, (self.latency.low, self.latency.high))
            )
        if goal is Goal.SIZE:
            return Amount(self.size_bytes, (self.size_bytes, self.size_bytes)) if self.size_bytes else None
        return self.amounts.get(goal.value)

    @property
    def id(self) -> str:
        """Variant and plan, as they are shown."""
        return trial_id(self.variant, self.plan)

    @property
    def median_ms(self) -> float:
        """Its latency; infinite where it has none."""
        return math.inf if self.latency is None else self.latency.estimate

    @property
    def accuracy(self) -> Accuracy | None:
        """The figure on the part for reporting, or else the one that it was judged by."""
        return self.reporting or self.choosing

    @property
    def accuracy_on(self) -> str:
        """The part of the data that the figure is of; empty where there is none."""
        return REPORTING if self.reporting else CHOOSING if self.choosing else ""

    @property
    def lost(self) -> float | None:
        """What is known to be lost against the original, on the samples of `accuracy`."""
        return self.drop if self.change is None else self.change.drop

    @property
    def floor_verdict(self) -> FloorVerdict | None:
        """The verdict on the samples of `accuracy`, with its numbers; sessions of before have none."""
        return self.reported or self.judged

    @property
    def computes_as_original(self) -> bool:
        """Whether it is the original, or has the same numbers in another graph."""
        return self.variant == ORIGINAL or (self.purpose is Purpose.REWRITE and not self.recipe)

    @property
    def rewrites(self) -> tuple[str, ...]:
        """The rewrites and kernels by which its graph was changed."""
        return tuple(name for note in self.notes for name in note.facts.get("rewrites", ()))

    @property
    def is_mix(self) -> bool:
        """Whether some nodes were left in float on purpose."""
        return bool(self.float_nodes)

    @property
    def is_step(self) -> bool:
        """Whether it is one of the mixes that a search for the floor tries, of which only the last is of use."""
        return self.purpose in (Purpose.FLOOR, Purpose.FLOOR_AND_SIZE)

    @property
    def may_be_chosen(self) -> bool:
        """Whether the rule of `core.floor` allows to choose it."""
        return self.floor in (FloorState.KEPT, FloorState.UNDECIDED) and not self.refused

    @property
    def is_refused(self) -> bool:
        """Whether its accuracy forbids to choose it: the floor is broken, or may be."""
        return self.floor is FloorState.BROKEN or self.refused

    @property
    def passed_when_judged(self) -> bool:
        """Whether the part of the data for choosing allowed it, whatever the other part said later."""
        return self.may_be_chosen or (self.is_refused and self.change is not None)


@record
class Step:
    """Gain contributed by one practice."""

    practice: str
    from_ms: float
    to_ms: float
    """The latency before and after, whatever the goal is."""
    ratio: float
    """Of the goal's cost: below 1 is better."""
    ci95: tuple[float, float]
    what: Remark = sentence()
    """What was changed."""
    verdict: Verdict = Verdict.UNDECIDED
    goal: Goal = Goal.LATENCY
    amounts: tuple[float, float] | None = None
    """Before and after in the unit of the goal; None where that is the latency."""

    @property
    def before(self) -> float:
        """The goal's figure before the step."""
        return self.from_ms if self.amounts is None else self.amounts[0]

    @property
    def after(self) -> float:
        """The goal's figure after the step."""
        return self.to_ms if self.amounts is None else self.amounts[1]


def trial_id(variant: str, plan: Plan) -> str:
    """`static_int8@npu, 2 threads`."""
    return f"{variant}@{plan.describe()}"


def trial_data(trial: Trial, book: Phrasebook | None = None) -> dict[str, Any]:
    """A trial for a session or, with a phrasebook, for `--json`: there `why` and `notes` are sentences.

    `recipe` is the variant's name, as it was before variants had names of their own.
    """
    data = to_data(trial, book)
    known = trial.accuracy
    data |= {
        "id": trial.id,
        "recipe": trial.variant,
        "accuracy": None if known is None else known.as_data(),
        "accuracy_on": trial.accuracy_on,
        "verdict": None if trial.against is None else trial.against.verdict.value,
    }
    return data if book is None else {**data, "notes": book.sentences(trial.notes)}


def trial_from_data(data: Mapping[str, Any]) -> Trial:
    """A trial from a session of any age: its lines of the kinds `variant` and `trial`."""
    trial = typed_from_data(Trial, data if "base_recipe" in data else _from_older(data))
    for levels in (trial.levels, *trial.costs.values()):
        for number, level in levels.items():
            if not abs(level) <= _LARGEST_LEVEL:
                raise ValueError(f"the logarithm of a cost in round {number} is {level}")
    if trial.against is not None and not trial.against.ratio > 0:
        raise ValueError(f"a ratio of latencies is {trial.against.ratio}")
    return trial


def _from_older(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a release that told a variant's nature by its name only, and a trial's accuracy by one figure."""
    name = data.get("variant") or data["recipe"]
    on = data.get("accuracy_on", "")
    return {
        **data,
        "variant": name,
        **_origin_of_older_name(name),
        CHOOSING: data.get(CHOOSING) or (data["accuracy"] if on == CHOOSING else None),
        REPORTING: data["accuracy"] if on == REPORTING else None,
        "against": data.get("against", data.get("against_original")),
        "status": data.get("status") or _STATUS.get(data["floor"], Status.MADE),
        "why": data["why"] or {"code": "", "facts": {}},
    }


def _origin_of_older_name(name: str) -> dict[str, Any]:
    """`static_int8_but_12` left 12 nodes of static_int8 in float for the floor, `static_int8_but_slow_12` those that
    integers slow down, and `static_int8_size_but_12` was for size. Only sessions of older releases have such names."""
    parent, mixed, count = name.rpartition("_but_")
    if not mixed:
        return {"base_recipe": "" if name == ORIGINAL or name.startswith("pruned_") else name}
    purpose = Purpose.SLOW_NODES if count.startswith("slow_") else Purpose.FLOOR
    if parent.endswith("_size"):
        parent, purpose = parent.removesuffix("_size"), Purpose.FLOOR_AND_SIZE
    return {"base_recipe": parent.partition("_but_")[0], "purpose": purpose, "parent": parent}
