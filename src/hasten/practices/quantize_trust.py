"""Whether data can decide anything: an original that is right by chance, or a handful of samples, proves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.accuracy import Kind
from hasten.core.units import percent
from hasten.data.metrics import TopK

if TYPE_CHECKING:
    from hasten.measure.evaluation import Evaluation
    from hasten.measure.floor_guard import Floor

# With fewer nothing is chosen; with fewer than the second, what is chosen comes with a doubt.
FEWEST_SAMPLES: Final = 10
_FEW_SAMPLES: Final = 30


@dataclass(frozen=True, slots=True)
class Trust:
    """What speaks against a choice by this data."""

    against: str = ""
    """Why nothing can be chosen by it, in a clause; empty where something can."""
    doubts: tuple[str, ...] = ()
    """Sentences for whoever reads the result."""


def trust_in(floor: Floor, outputs: int) -> Trust:
    """What an original's evaluation tells of the data; `outputs` is how many values its judged output has."""
    original = floor.original
    if original.accuracy.kind is Kind.UNKNOWN:
        return Trust()  # made up inputs decide nothing anyway, which is said elsewhere
    if doubt := _by_chance(original, outputs):
        return Trust("by this data the original itself is no better than chance", (doubt,))
    if floor.allowed is None:
        doubt = f"no floor can be set: {floor.describe().removeprefix('none: ')}; --max-drop 0 allows no loss at all"
        return Trust(f"the original's {original.metric.name} is 0, so that nothing says how much may be lost", (doubt,))
    told = (_about_the_floor(floor),) if floor.is_relative else ()
    count = len(original.positions)
    if count < FEWEST_SAMPLES:
        doubt = f"{_samples(count)} to choose by: nothing is chosen by fewer than {FEWEST_SAMPLES} (half of the data)"
        return Trust(f"{_only(count)} to choose by", (*told, doubt))
    return Trust(doubts=(*told, *_coarse(floor, count)))


def _by_chance(original: Evaluation, outputs: int) -> str:
    """A sentence where the share of right answers may be that of a model that guesses."""
    found, metric = original.accuracy, original.metric
    if found.kind is not Kind.ACCURACY or not isinstance(metric, TopK):
        return ""
    classes = max(2, outputs)  # one value alone stands for two classes
    if metric.k >= classes:
        return f"{metric.name} of {classes} classes is always right, and tells nothing: choose another --metric"
    if found.low > metric.k / classes:
        return ""
    right = round(found.value * found.samples)
    return (
        f"the original is right in {right} of {_samples(found.samples)}, no better than chance ({metric.k} in "
        f"{classes} classes): labels, --label-offset or --preprocess are probably wrong"
    )


def _coarse(floor: Floor, count: int) -> list[str]:
    """A sentence where one sample weighs more than all that may be lost, or where there are few of them."""
    more = "More data would help"
    if floor.original.metric.proportion and 1 / count > floor.max_drop > 0:
        return [
            f"with {_samples(count)} to choose by, one miss is {percent(1 / count)}: nothing that loses one more than "
            f"it gains can keep {percent(floor.max_drop)}, and a kept floor says little. {more}"
        ]
    if count < _FEW_SAMPLES:
        return [f"{_only(count)} to choose by, so that a kept floor says little. {more}"]
    return []


def _about_the_floor(floor: Floor) -> str:
    return f"the floor is relative, as the scores of {floor.original.metric.name} are no shares: {floor.describe()}"


def _only(count: int) -> str:
    return f"there {'is' if count == 1 else 'are'} only {_samples(count)}"


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"
