"""Whether data can decide anything: an original that is right by chance, or a handful of samples, proves nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy import Kind
from hasten.core.units import percent, several
from hasten.data.classes import is_class_number, is_one_hot
from hasten.data.metrics import Cosine, MeanIoU, TopK
from hasten.evaluate.intervals import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Dataset
    from hasten.evaluate.evaluation import Evaluation
    from hasten.evaluate.floor import Floor

# With fewer nothing is chosen; with fewer than the second, what is chosen comes with a doubt.
FEWEST_SAMPLES: Final = 10
_FEW_SAMPLES: Final = 30
BY_CHANCE: Final = "by this data the original itself is not surely better than chance"


@dataclass(frozen=True, slots=True)
class Trust:
    """What speaks against a choice by this data."""

    against: str = ""
    """Why nothing can be chosen by it, in a clause; empty where something can."""
    doubts: tuple[str, ...] = ()
    """Sentences for whoever reads the result."""


def trust_in(floor: Floor, outputs: int, commonest: float = 0.0) -> Trust:
    """What an original's evaluation tells of the data; `outputs` is how many values its judged output has, `commonest`
    the share of the commonest label."""
    original = floor.original
    if original.accuracy.kind is Kind.UNKNOWN:
        return Trust()  # made up inputs decide nothing anyway, which is said elsewhere
    if doubt := doubt_by_chance([original], outputs):
        return Trust(BY_CHANCE, (doubt,))
    if doubt := _blind(original, outputs):
        return Trust(f"{original.metric.name} tells nothing here", (f"{doubt}: choose another --metric",))
    if floor.allowed is None:
        doubt = f"no floor can be set: {floor.describe().removeprefix('none: ')}; --max-drop 0 allows no loss at all"
        return Trust(f"the original's {original.metric.name} is 0, so that nothing says how much may be lost", (doubt,))
    count = len(original.positions)
    if count < FEWEST_SAMPLES:
        samples = several(count, "sample")
        doubt = f"{samples} to choose by: nothing is chosen by fewer than {FEWEST_SAMPLES} (half of the data)"
        return Trust(f"{_only(count)} to choose by", (doubt,))
    return Trust(doubts=(*_lopsided(original, commonest), *_coarse(floor, count)))


def doubt_by_chance(originals: Sequence[Evaluation], outputs: int) -> str:
    """A sentence where the share of right answers, on these parts of the data together, may be that of one who guesses;
    empty where it surely is not, or where nothing is right or wrong."""
    first = originals[0]
    metric = first.metric
    if first.accuracy.kind is not Kind.ACCURACY or not isinstance(metric, TopK):
        return ""
    classes = max(2, outputs)  # one value alone stands for two classes
    if metric.k >= classes:
        return f"{metric.name} of {classes} classes is always right, and tells nothing: choose another --metric"
    count = sum(entry.accuracy.samples for entry in originals)
    right = sum(round(entry.accuracy.value * entry.accuracy.samples) for entry in originals)
    chance = metric.k / classes
    if wilson_interval(right, count).low > chance:
        return ""
    said, what = "no better", "are probably wrong"
    if right / count > chance:
        said, what = "not surely better", "may be wrong, or there is too little data"
    return (
        f"the original is right in {right} of {several(count, 'sample')}, {said} than chance "
        f"({metric.k} in {classes} classes): labels, --label-offset or --preprocess {what}"
    )


def commonest_label(dataset: Dataset) -> float:
    """The share of samples that have the commonest label; 0 where they are no classes, or not known before the work."""
    if not dataset.labelled or callable(dataset.samples):
        return 0.0
    labels = [sample.label for sample in dataset.samples if sample.label is not None]
    if not labels or not all(isinstance(label, str) or is_class_number(label) or is_one_hot(label) for label in labels):
        return 0.0
    counts = Counter(label if isinstance(label, str) else tuple(np.asarray(label).ravel().tolist()) for label in labels)
    return max(counts.values()) / len(labels)


def _blind(original: Evaluation, outputs: int) -> str:
    """Why the metric cannot see a change, in a clause; empty where it can."""
    if isinstance(original.metric, Cosine) and outputs == 1:
        return "the cosine of one value is 1 whatever it is"
    if isinstance(original.metric, MeanIoU) and len(original.metric.by_class(original.statistics.sum(axis=0))) == 1:
        return "the masks hold a single class beside 255, whose pixels do not count (write 1 where 255 is a class)"
    answers = [answer for answer in original.references.values() if answer is not None]
    if isinstance(original.metric, TopK) and len(answers) >= FEWEST_SAMPLES and len(set(answers)) == 1:
        samples = several(len(answers), "sample")
        return f"the highest output is number {answers[0]} for all of {samples}, as a ruined variant's may be"
    return ""


def _lopsided(original: Evaluation, commonest: float) -> list[str]:
    """A sentence where whoever always gives the commonest label may be as good."""
    metric, count = original.metric, original.accuracy.samples
    if original.accuracy.kind is not Kind.ACCURACY or not isinstance(metric, TopK) or metric.k > 1:
        return []
    if wilson_interval(round(original.accuracy.value * count), count).low > commonest:
        return []
    return [
        f"{percent(commonest)} of the samples have the same label: always giving it would not surely be worse than the "
        f"original ({percent(original.accuracy.value)}), and such data cannot show whether pre-processing is right"
    ]


def _coarse(floor: Floor, count: int) -> list[str]:
    """A sentence where one sample weighs more than all that may be lost, or where there are few of them."""
    more = "More data would help"
    if floor.original.metric.proportion and 1 / count > floor.max_drop > 0:
        return [
            f"with {several(count, 'sample')} to choose by, one miss is {percent(1 / count)}: nothing that loses one "
            f"more than it gains can keep {percent(floor.max_drop)}, and a kept floor says little. {more}"
        ]
    if count < _FEW_SAMPLES:
        return [f"{_only(count)} to choose by, so that a kept floor says little. {more}"]
    return []


def _only(count: int) -> str:
    return f"there {'is' if count == 1 else 'are'} only {several(count, 'sample')}"
