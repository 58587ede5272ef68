"""How right a head is and where it is wrong: accuracy against simple rivals, a learning curve, confusions. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.data.metrics import TopK
from hasten.evaluate.intervals import compare_scores, wilson_interval
from hasten.retraining.facts import EXACT, TOP_1, Baseline, ClassRow, Confusion, CurvePoint, Scores, WorstSample
from hasten.retraining.softmax import Samples, fit_head, probabilities
from hasten.retraining.split import TEST, TRAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.core.accuracy import PairedAccuracy
    from hasten.retraining.softmax import CrossValidation, Head

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NEIGHBORS: Final = 5
WORST: Final = 10
UNEVEN: Final = 2.0
"""From this ratio of the largest class to the smallest on, each class counts alike."""
_SHARES: Final = (1 / 8, 1 / 4, 1 / 2)
_FEWEST_OF_A_CLASS: Final = 2
_MOST_CONFUSIONS: Final = 100
_HALF: Final = 0.5
# Test samples times training samples at once: about 64 MB of similarities.
_MOST_SIMILARITIES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Samples of one part of the data: features, classes and names."""

    features: Singles
    targets: Singles
    names: tuple[str, ...]
    multi_label: bool = False

    def right(self, predicted: Flags) -> Flags:
        """Which samples are predicted right: by all their classes."""
        found: Flags = (predicted == (self.targets > _HALF)).all(axis=1)
        return found

    def with_rows(self, rows: Sequence[int]) -> Part:
        """Some of the samples, in this order."""
        chosen = list(rows)
        names = tuple(self.names[row] for row in chosen)
        return Part(self.features[chosen], self.targets[chosen], names, self.multi_label)


def predicted_classes(scores: Floats, *, multi_label: bool, least: float = _HALF) -> Flags:
    """Scores as predictions: of equal ones the lowest number wins; of several classes, all above the least."""
    if multi_label:
        found: Flags = scores > least
        return found
    one = np.zeros(scores.shape, bool)
    one[np.arange(len(scores)), scores.argmax(axis=1)] = True
    return one


def head_predictions(head: Head, features: Singles) -> Flags:
    """What a head makes of features."""
    return predicted_classes(head.logits(features), multi_label=head.multi_label, least=0.0)


def scores_of(head: Head, train: Part, test: Part, predicted: Flags, known: CrossValidation) -> Scores:
    """Accuracy on all three parts; `predicted` is what the written file makes of the test part."""
    left_out = train.right(predicted_classes(known.logits, multi_label=head.multi_label, least=0.0))[_validated(train)]
    learned = train.right(head_predictions(head, train.features))
    validation = float(left_out.mean()) if len(left_out) else None
    return scores_on(test, predicted, len(train.names), validation, float(learned.mean()))


def scores_on(
    test: Part, predicted: Flags, train_samples: int, validation: float | None, train: float | None = None
) -> Scores:
    """Accuracy on the test part, beside that on samples kept out of a fit or a training, and on those learned from."""
    tested = test.right(predicted)
    found = wilson_interval(int(tested.sum()), len(tested))
    return Scores(
        train,
        validation,
        test=found.estimate,
        interval=(found.low, found.high),
        test_right=int(tested.sum()),
        test_samples=len(tested),
        train_samples=train_samples,
        metric=EXACT if test.multi_label else TOP_1,
        mean_recall=_mean_recall(tested, test),
    )


def class_counts(targets: Singles) -> tuple[Floats, bool]:
    """How much each sample counts, and whether classes are so uneven that each class counts alike."""
    sizes = targets.sum(axis=0)
    smallest = float(sizes.min())
    if smallest <= 0 or float(sizes.max()) / smallest < UNEVEN:
        return np.ones(len(targets)), False
    return balanced_counts(targets), True


def balanced_counts(targets: Singles) -> Floats:
    """Counts with which each class weighs alike; a sample of several counts as its rarest."""
    weights = len(targets) / (targets.shape[1] * np.maximum(targets.sum(axis=0), 1))
    found: Floats = np.where(targets > _HALF, weights, 0.0).max(axis=1)
    return np.where(found > 0, found, 1.0)  # a sample of no class counts once


def rivals(train: Part, test: Part, predicted: Flags) -> tuple[Baseline, ...]:
    """The majority class and the nearest neighbors on the test part, and the new model against each."""
    tested = test.right(predicted)
    commonest = np.zeros((1, train.targets.shape[1]), bool)
    if train.multi_label:
        commonest[0] = train.targets.mean(axis=0) > _HALF
    else:
        commonest[0, int(train.targets.sum(axis=0).argmax())] = True
    majority = test.right(np.repeat(commonest, len(test.names), axis=0))
    near = test.right(nearest_neighbors(train, test.features))
    return tuple(
        _baseline(name, found, tested, test.names) for name, found in (("majority", majority), ("neighbors", near))
    )


def nearest_neighbors(train: Part, features: Singles, count: int = NEIGHBORS) -> Flags:
    """What most of the nearest training samples are, by the angle between features; the nearer ones break a tie."""
    known, asked = _unit(train.features), _unit(features)
    count = min(count, len(known))
    step = max(1, _MOST_SIMILARITIES // len(known))
    votes = np.zeros((len(asked), train.targets.shape[1]))
    for begin in range(0, len(asked), step):
        alike = asked[begin : begin + step] @ known.T
        nearest = np.argpartition(-alike, count - 1, axis=1)[:, :count]
        weights = 1 + 1e-3 * np.take_along_axis(alike, nearest, axis=1)
        votes[begin : begin + step] = np.einsum("sn,snc->sc", weights, train.targets[nearest])
    return predicted_classes(votes / count, multi_label=train.multi_label)


def class_rows(train: Part, test: Part, predicted: Flags, classes: Sequence[str]) -> tuple[ClassRow, ...]:
    """Each class with its samples and how it fares."""
    actual = test.targets > _HALF
    right = predicted & actual
    return tuple(
        ClassRow(
            name=name,
            train=int(train.targets[:, number].sum()),
            test=int(actual[:, number].sum()),
            right=int(right[:, number].sum()),
            predicted=int(predicted[:, number].sum()),
        )
        for number, name in enumerate(classes)
    )


def confusions(test: Part, predicted: Flags, classes: Sequence[str]) -> tuple[Confusion, ...]:
    """Which classes are taken for which, the most frequent first; none where a sample may have several."""
    if test.multi_label:
        return ()
    pairs = Counter(zip(test.targets.argmax(axis=1).tolist(), predicted.argmax(axis=1).tolist(), strict=True))
    wrong = [(count, *pair) for pair, count in pairs.items() if pair[0] != pair[1]]
    return tuple(
        Confusion(classes[actual], classes[found], count)
        for count, actual, found in sorted(wrong, key=lambda entry: (-entry[0], *entry[1:]))[:_MOST_CONFUSIONS]
    )


def worst_samples(
    train: Part, test: Part, shares: Floats, known: CrossValidation, classes: Sequence[str]
) -> tuple[WorstSample, ...]:
    """The samples whose own classes are found least likely: those of the test part by the written file (`shares` are
    its probabilities), those that were learned from by a fit that had not seen them."""
    rows = np.flatnonzero(_validated(train))
    left_out = probabilities(known.logits[rows], multi_label=train.multi_label)
    others = train.with_rows(rows.tolist())
    found = [*_worst_of(test, shares, TEST, classes), *_worst_of(others, left_out, TRAIN, classes)]
    return tuple(sorted(found, key=lambda sample: sample.probability)[:WORST])


def worst_tested(test: Part, shares: Floats, classes: Sequence[str]) -> tuple[WorstSample, ...]:
    """The same of the test part alone."""
    return tuple(_worst_of(test, shares, TEST, classes))


def _validated(part: Part) -> Flags:
    """Which samples cross-validation judges by a fit that knew their class: those whose class has others as well."""
    if part.multi_label:
        return np.ones(len(part.names), bool)
    found: Flags = part.targets.sum(axis=0)[part.targets.argmax(axis=1)] >= _FEWEST_OF_A_CLASS
    return found


def _worst_of(part: Part, shares: Floats, name: str, classes: Sequence[str]) -> list[WorstSample]:
    # Of several classes, the one that is told with the greatest error.
    of_all = 1 - shares if part.multi_label else np.ones_like(shares)
    of_own = np.where(part.targets > _HALF, shares, of_all)
    likely = of_own.min(axis=1)
    rows = np.argsort(likely, kind="stable")[:WORST].tolist()
    predicted = predicted_classes(shares, multi_label=part.multi_label)
    return [
        WorstSample(
            part.names[row],
            _told(part.targets[row] > _HALF, classes),
            _told(predicted[row], classes),
            float(likely[row]),
            name,
        )
        for row in rows
    ]


def learning_curve(
    train: Part, test: Part, predicted: Flags, decay: float, *, balanced: bool, seed: int
) -> tuple[tuple[CurvePoint, ...], PairedAccuracy | None]:
    """The test accuracy of heads that learn from an eighth, a quarter and half of the samples, and of the new model,
    which learned from all; and what the last doubling brought.

    Smaller parts are inside of larger ones. Fewer samples need more decay, so that the prior stays the same.
    """
    points: list[CurvePoint] = []
    rights: dict[float, Flags] = {}
    order = _even_order(train.targets, seed)
    for share in (*_SHARES, 1.0):
        rows = order[: round(share * len(order))]
        part = train.targets[rows]
        if not _can_be_learned(part):
            continue
        counts = balanced_counts(part) if balanced else np.ones(len(rows))
        samples = Samples(train.features[rows], part, counts, train.multi_label)
        told = predicted if share == 1 else head_predictions(fit_head(samples, decay / share), test.features)
        rights[share] = test.right(told)
        found = wilson_interval(int(rights[share].sum()), len(test.names))
        points.append(CurvePoint(len(rows), found.estimate, (found.low, found.high)))
    if not {_HALF, 1.0} <= rights.keys():
        return tuple(points), None
    return tuple(points), paired(rights[_HALF], rights[1.0], test.names)


def paired(first: Flags, second: Flags, names: Sequence[str]) -> PairedAccuracy:
    """The second against the first, on the same samples, right or wrong."""
    one, other = (flags.astype(np.float64)[:, np.newaxis] for flags in (first, second))
    return compare_scores(TopK(1), names, one, other)


def _even_order(targets: Singles, seed: int) -> Integers:
    """An order whose every beginning has a fair share of each class."""
    random = np.random.default_rng(seed)
    keys = np.empty(len(targets))
    numbers = targets.argmax(axis=1)
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        keys[random.permutation(rows)] = (np.arange(len(rows)) + random.random(len(rows))) / len(rows)
    return np.asarray(np.argsort(keys, kind="stable"), np.int64)


def _can_be_learned(targets: Singles) -> bool:
    sizes = targets.sum(axis=0)
    return bool(sizes.min() >= _FEWEST_OF_A_CLASS and sizes.max() <= len(targets) - 1)


def _baseline(name: str, found: Flags, head: Flags, names: Sequence[str]) -> Baseline:
    interval = wilson_interval(int(found.sum()), len(found))
    return Baseline(name, interval.estimate, (interval.low, interval.high), paired(found, head, names))


def _mean_recall(tested: Flags, test: Part) -> float | None:
    if test.multi_label:
        return None
    numbers = test.targets.argmax(axis=1)
    return float(np.mean([tested[numbers == number].mean() for number in np.unique(numbers)]))


def _unit(features: Singles) -> Singles:
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)


def _told(flags: Flags, classes: Sequence[str]) -> str:
    return ", ".join(classes[number] for number in np.flatnonzero(flags).tolist())
