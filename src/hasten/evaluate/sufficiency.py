"""Data sufficiency: an original that is right by chance, or a handful of samples, cannot decide anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hasten.core.accuracy import Kind
from hasten.core.remark import Remark, remark
from hasten.data.classes import is_class_number, is_one_hot
from hasten.data.metrics import Cosine, MeanIoU, TopK
from hasten.evaluate import words
from hasten.evaluate.intervals import wilson_interval
from hasten.evaluate.split import FEW_SAMPLES, FEWEST_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.floor import Floor
    from hasten.data.dataset import Dataset
    from hasten.evaluate.evaluation import Evaluation
    from hasten.evaluate.floor import Baseline


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """Whether data can decide about variants."""

    against: Remark | None = None
    """Why nothing can be chosen by it; None where something can."""
    doubts: tuple[Remark, ...] = ()


def data_sufficiency(baseline: Baseline, outputs: int, commonest: float = 0.0) -> Sufficiency:
    """What an original's evaluation tells about the data; `outputs` is how many values its judged output has,
    `commonest` the share of the commonest label."""
    original, floor = baseline.original, baseline.floor
    metric, count = original.metric.name, len(original.positions)
    if original.accuracy.kind is Kind.UNKNOWN:
        return Sufficiency()  # random inputs decide nothing anyway, which is said elsewhere
    if doubt := doubt_by_chance([original], outputs):
        return Sufficiency(remark(words.BY_CHANCE), (doubt,))
    if doubt := _blind(original, outputs):
        return Sufficiency(remark(words.BLIND, metric=metric), (doubt,))
    if floor.allowed is None:
        doubt = remark(words.NOTHING_ALLOWED, metric=metric, max_drop=floor.max_drop)
        return Sufficiency(remark(words.NO_FLOOR, metric=metric), (doubt,))
    if count < FEWEST_SAMPLES:
        doubt = remark(words.FEWER_THAN_NEEDED, samples=count, needed=FEWEST_SAMPLES)
        return Sufficiency(remark(words.TOO_FEW, samples=count), (doubt,))
    doubts = (_one_label(original, commonest), _coarse(original, floor, count))
    return Sufficiency(doubts=tuple(doubt for doubt in doubts if doubt is not None))


def doubt_by_chance(originals: Sequence[Evaluation], outputs: int) -> Remark | None:
    """A doubt where the share of right answers, on these parts of the data together, may be that of guessing; None
    where it is significantly better, or where nothing is right or wrong."""
    first = originals[0]
    metric = first.metric
    if first.accuracy.kind is not Kind.ACCURACY or not isinstance(metric, TopK):
        return None
    classes = max(2, outputs)  # one value alone stands for two classes
    count = sum(entry.accuracy.samples for entry in originals)
    right = sum(round(entry.accuracy.value * entry.accuracy.samples) for entry in originals)
    chance = metric.k / classes
    if wilson_interval(right, count).low > chance:
        return None
    above = right / count > chance
    return remark(words.GUESSING, right=right, samples=count, k=metric.k, classes=classes, above_chance=above)


def commonest_label(dataset: Dataset) -> float:
    """The share of samples that have the commonest label; 0 where they are no classes, or not known before the work."""
    if not dataset.labelled or callable(dataset.samples):
        return 0.0
    labels = [sample.label for sample in dataset.samples if sample.label is not None]
    if not labels or not all(isinstance(label, str) or is_class_number(label) or is_one_hot(label) for label in labels):
        return 0.0
    counts = Counter(label if isinstance(label, str) else tuple(np.asarray(label).ravel().tolist()) for label in labels)
    return max(counts.values()) / len(labels)


def _blind(original: Evaluation, outputs: int) -> Remark | None:
    """Why the metric cannot see a change; None where it can."""
    if isinstance(original.metric, Cosine) and outputs == 1:
        return remark(words.COSINE_OF_ONE)
    if isinstance(original.metric, MeanIoU) and len(original.metric.by_class(original.statistics.sum(axis=0))) == 1:
        return remark(words.ONE_CLASS)
    answers = [answer for answer in original.references.values() if answer is not None]
    if isinstance(original.metric, TopK) and len(answers) >= FEWEST_SAMPLES and len(set(answers)) == 1:
        return remark(words.ONE_ANSWER, output=answers[0], samples=len(answers))
    return None


def _one_label(original: Evaluation, commonest: float) -> Remark | None:
    """A doubt where always answering the commonest label may be as good."""
    metric, count = original.metric, original.accuracy.samples
    if original.accuracy.kind is not Kind.ACCURACY or not isinstance(metric, TopK) or metric.k > 1:
        return None
    if wilson_interval(round(original.accuracy.value * count), count).low > commonest:
        return None
    return remark(words.ONE_LABEL, share=commonest, value=original.accuracy.value)


def _coarse(original: Evaluation, floor: Floor, count: int) -> Remark | None:
    """A doubt where one sample weighs more than all that may be lost, or where there are few of them."""
    if original.metric.proportion and 1 / count > floor.max_drop > 0:
        return remark(words.COARSE, samples=count, miss=1 / count, max_drop=floor.max_drop)
    return remark(words.FEW, samples=count) if count < FEW_SAMPLES else None
