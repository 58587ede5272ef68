"""The floor: how much of a model's accuracy a change may lose, whether a model keeps it, and what may be chosen.

The verdict follows from the 95 % interval of the drop, of the same samples for both models: *kept* if the whole
interval lies within the floor, *broken* if all of it lies beyond, else *undecided*. So each wrong verdict has a chance
of about 2.5 %, and of less than 5 % where an evaluation ends early.

The rule for what is chosen is the same wherever a search chooses:

1. On the part of the data that is for choosing, a variant may be chosen if it keeps the floor, or if it is undecided
   and its estimated drop is within the floor. With `strict`, only if it keeps the floor.
2. The choice is then evaluated on the part that is for reporting. It gives way to the next if it breaks the floor
   there; with `strict`, if it does not keep it. After `most_looks` that gave way, only what computes as the original
   does is left.

With `strict`, all that is not proven gives way, so each look adds its whole chance to be wrong: two are tried. Without,
only what is proven to break the floor gives way; what breaks it that clearly is next to never called kept by luck, and
more looks cost time, hardly truth.

The figure of the first choice is of samples that had no say in it, and shown whatever it says: it is unbiased. (Of the
first choices that stand, by less than a fifth of a standard error, as one that is proven broken gives way.) The figure
of a choice that others gave way to, and any with `strict`, is optimistic by more, and marked so: `Trial.optimistic`.
`benchmarks/accuracy_verdicts.py` measures all of this.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

from hasten.core.codec import key, record
from hasten.core.paired import paired_difference_interval

if TYPE_CHECKING:
    from hasten.core.accuracy import PairedAccuracy
    from hasten.core.statistics import Interval

POINTS: Final = "points"
RELATIVE: Final = "relative"
SHARE: Final = "share"
VALUE: Final = "value"
_ROUNDING: Final = 1e-9
MOST_LOOKS: Final = 8
"""So many choices may be tried on the part for reporting: a bound on the time that it takes."""
MOST_STRICT_LOOKS: Final = 2
"""The same with `strict`: each is a chance of 2.5 % to be wrong."""
# More samples than anybody has decide nothing in practice.
_MOST_SAMPLES: Final = 10_000_000


def most_looks(*, strict: bool) -> int:
    """How many choices a search may try on the part of the data for reporting."""
    return MOST_STRICT_LOOKS if strict else MOST_LOOKS


class FloorState(str, enum.Enum):
    """Whether a model keeps the accuracy floor; the value is its name in JSON."""

    NOT_JUDGED = ""
    KEPT = "kept"
    BROKEN = "broken"
    UNDECIDED = "undecided"
    """The interval of the drop contains the floor."""
    UNKNOWN = "unknown"
    """The data cannot tell, however many samples there are."""
    FAILED = "failed"
    """It could not be made, or does not run."""


@record
class FloorVerdict:
    """How a model stands against a floor, by samples that both models were evaluated on."""

    state: FloorState
    drop: float
    """The estimate; negative if something was gained."""
    ci95: tuple[float, float]
    samples: int
    smallest_detectable: float = key(null=math.inf)
    """The smallest drop that these samples could tell from none."""
    samples_needed: int | None = None
    """About how many samples would decide if the drop is as estimated; None where it is decided, or none would."""
    smallest_beyond: float = key(null=math.inf, default=math.inf)
    """The smallest drop that these samples could prove to be beyond the floor."""

    def may_be_chosen(self, floor: Floor, *, strict: bool) -> bool:
        """The first half of the rule: what the part of the data for choosing allows."""
        if self.state is FloorState.UNDECIDED:
            return not strict and floor.keeps(self.drop)
        return self.state is FloorState.KEPT

    def gives_way(self, *, strict: bool) -> bool:
        """The second half of the rule: what the part of the data for reporting forbids."""
        return self.state not in ((FloorState.KEPT,) if strict else (FloorState.KEPT, FloorState.UNDECIDED))


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

    def judge(self, change: PairedAccuracy) -> FloorVerdict:
        """Whether a model keeps the floor, by its paired difference from the original."""
        drop = change.drop_interval
        state = FloorState.UNDECIDED
        if self.allowed is None:
            state = FloorState.UNKNOWN
        elif self.keeps(drop.high):
            state = FloorState.KEPT
        elif not self.keeps(drop.low):
            state = FloorState.BROKEN
        undecided = state is FloorState.UNDECIDED
        return FloorVerdict(
            state,
            drop.estimate,
            (drop.low, drop.high),
            change.samples,
            drop.estimate - drop.low,
            _enough(change, self) if undecided else None,
            math.inf if self.allowed is None else self.allowed + drop.estimate - drop.low,
        )


def _enough(change: PairedAccuracy, floor: Floor) -> int | None:
    """About how many samples would decide. Where samples are right or wrong, as many more would be won and lost."""
    if change.won is None or change.lost is None or floor.allowed is None:
        return samples_to_decide(change.drop_interval, floor.allowed or 0.0, change.samples)
    few, many = change.samples, _MOST_SAMPLES
    if not _decides(change, many, floor):
        return None
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        if _decides(change, middle, floor):
            many = middle
        else:
            few = middle
    return _two_digits(many)


def _decides(change: PairedAccuracy, samples: int, floor: Floor) -> bool:
    times = samples / change.samples
    found = paired_difference_interval((change.won or 0) * times, (change.lost or 0) * times, samples)
    return floor.keeps(-found.low) or not floor.keeps(-found.high)


def samples_to_decide(found: Interval, limit: float, samples: int) -> int | None:
    """About how many samples move the limit out of the interval, if the estimate stays and widths shrink with the root
    of the number of samples; None where no number does that anybody has."""
    distance = abs(limit - found.estimate)
    width = found.high - found.estimate if limit > found.estimate else found.estimate - found.low
    if not math.isfinite(width) or distance <= width * math.sqrt(samples / _MOST_SAMPLES):
        return None
    return _two_digits(samples * (width / distance) ** 2)


def _two_digits(count: float) -> int:
    """Rounded up to two digits: more would claim to know better."""
    step = int(10 ** max(0, math.floor(math.log10(max(count, 1))) - 1))
    return math.ceil(count / step) * step
