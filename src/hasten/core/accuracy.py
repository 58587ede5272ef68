"""The accuracy of a model, with an interval, and the difference of two models, sample by sample on the same data."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy_notes import NOTES
from hasten.core.codec import bounds_from_data, convert, finite
from hasten.core.remark import Remark, remark_from_data
from hasten.core.statistics import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of the samples that changed, this many are named in JSON; all of them are counted.
_MOST_NAMES: Final = 100
_COUNTS: Final = ("both_right", "lost", "won", "both_wrong", "p_value")


class Kind(enum.Enum):
    """What a figure says; the value is its name in JSON."""

    ACCURACY = "accuracy"
    """Measured against labels."""
    AGREEMENT = "agreement"
    """Measured against the original model's answers: both may be wrong."""
    UNKNOWN = "unknown"
    """Agreement on inputs made up at random, which says nothing about accuracy."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A metric's value on some data, with its 95 % interval."""

    metric: str
    value: float
    low: float
    high: float
    samples: int
    data: str
    kind: Kind = Kind.ACCURACY
    notes: tuple[Remark, ...] = ()
    higher_is_better: bool = True

    def as_data(self) -> dict[str, Any]:
        """The accuracy as JSON can hold it."""
        return {
            "metric": self.metric,
            "value": finite(self.value),
            "ci95": [finite(self.low), finite(self.high)],
            "samples": self.samples,
            "data": self.data,
            "kind": self.kind.value,
            "notes": NOTES.sentences(self.notes),
            "remarks": [{"code": note.code, "facts": dict(note.facts)} for note in self.notes],
            "higher_is_better": self.higher_is_better,
        }


def accuracy_from_data(data: Mapping[str, Any]) -> Accuracy:
    """The accuracy back from JSON."""
    low, high = bounds_from_data(data["ci95"])
    return Accuracy(
        metric=data["metric"],
        value=math.nan if data["value"] is None else data["value"],
        low=low,
        high=high,
        samples=data["samples"],
        data=data["data"],
        kind=Kind(data["kind"]),
        # Earlier releases wrote sentences only.
        notes=tuple(remark_from_data(note) for note in data.get("remarks", data["notes"])),
        # Sessions from before it was recorded.
        higher_is_better=data.get("higher_is_better", data["metric"] != "mae"),
    )


def is_share(metric: str) -> bool:
    """Whether a metric is known to be a share of something."""
    return metric.startswith("top-") or metric in ("miou", "map")


def value_text(metric: str, value: float) -> str:
    """A value of a metric: a share in percent, or three digits."""
    if not math.isfinite(value):
        return "unknown"
    return f"{value * 100:.1f} %" if is_share(metric) else f"{value:.3g}"


class Change(enum.Enum):
    """Whether the second model is more or less right than the first; the value is its name in JSON."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class PairedAccuracy:
    """The second model against the first on the same samples. Counts and p value are there where a sample is right or
    wrong, and nothing between."""

    metric: str
    samples: int
    difference: float
    """The second's value less the first's."""
    low: float
    high: float
    higher_is_better: bool = True
    both_right: int | None = None
    lost: int | None = None
    won: int | None = None
    both_wrong: int | None = None
    p_value: float | None = None
    lost_samples: tuple[str, ...] = ()
    won_samples: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """Better or worse if the interval leaves out zero."""
        sign = 1 if self.higher_is_better else -1
        low, high = sorted((sign * self.low, sign * self.high))
        return Change.BETTER if low > 0 else Change.WORSE if high < 0 else Change.UNDECIDED

    @property
    def drop(self) -> float:
        """How much was lost; negative if something was gained."""
        return -self.difference if self.higher_is_better else self.difference

    @property
    def drop_interval(self) -> Interval:
        """The drop with its 95 % interval; a drop of nothing has no sign."""
        low, high = (-self.high, -self.low) if self.higher_is_better else (self.low, self.high)
        return Interval(self.drop + 0.0, low + 0.0, high + 0.0)

    def as_data(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {
            "metric": self.metric,
            "samples": self.samples,
            "difference": self.difference,
            "ci95": [finite(self.low), finite(self.high)],
            "higher_is_better": self.higher_is_better,
            "change": self.change.value,
            **{name: getattr(self, name) for name in _COUNTS},
            "lost_samples": list(self.lost_samples[:_MOST_NAMES]),
            "won_samples": list(self.won_samples[:_MOST_NAMES]),
        }


def _paired_from_data(data: Mapping[str, Any]) -> PairedAccuracy:
    low, high = bounds_from_data(data["ci95"])
    samples: dict[str, Any] = {name: tuple(data.get(name, ())) for name in ("lost_samples", "won_samples")}
    plain = ("metric", "samples", "difference", "higher_is_better", *_COUNTS)
    return PairedAccuracy(low=low, high=high, **{name: data[name] for name in plain}, **samples)


convert(Accuracy, Accuracy.as_data, accuracy_from_data)
convert(PairedAccuracy, PairedAccuracy.as_data, _paired_from_data)
