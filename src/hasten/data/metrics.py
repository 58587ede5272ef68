"""Metrics: the scores of predictions. Each gives statistics of one sample, whose sums over samples give its value, so
that intervals and paired comparisons need not run the model again."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from hasten.core.accuracy_notes import HIGHER_IS_BETTER
from hasten.core.errors import DataError, UsageError
from hasten.core.remark import Remark, remark
from hasten.core.units import several
from hasten.data.functions import is_function_name, load_function, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hasten.data.dataset import Array, Label

    Floats = NDArray[np.float64]

_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """One sample's statistics, and whether the order of equal outputs decided."""

    statistics: Floats
    tied: bool = False


class Metric(Protocol):
    """What every metric offers."""

    name: str
    labels: str
    """What it is compared with: class, mask, values or anything."""
    higher_is_better: bool
    proportion: bool
    """Whether a sample is right or wrong, and the value the share of right ones."""
    span: float | None
    """How far the scores of one sample can be apart; None where they are not means of bounded scores."""

    def score(self, outputs: Sequence[Array], label: Any) -> Scored:
        """The statistics of one sample."""

    def value(self, sums: Floats, count: int) -> float:
        """The metric's value from sums over a number of samples."""

    def reference(self, outputs: Sequence[Array]) -> Label:
        """What another model must answer to agree with these outputs."""


class _Mean:
    """A metric whose value is the mean of one score a sample."""

    labels = "values"
    higher_is_better = True
    proportion = False
    span: float | None = None

    def value(self, sums: Floats, count: int) -> float:
        return float(sums[0] / count)

    def reference(self, outputs: Sequence[Array]) -> Label:
        return np.array(outputs[0])


class TopK(_Mean):
    """Whether the right class is among the k highest outputs. Of equal outputs the one with the lower index is first.

    One output alone is taken as the score of class 1, which stands for it above `threshold`: 0.5 for a probability.
    """

    labels = "class"
    proportion = True
    span: float | None = 1.0

    def __init__(self, k: int, threshold: float = _HALF, notes: tuple[Remark, ...] = ()) -> None:
        self.k, self.name = k, f"top-{k}"
        self.threshold, self.notes = threshold, notes

    def score(self, outputs: Sequence[Array], label: int) -> Scored:
        """Right or wrong."""
        scores = self._scores(outputs[0])
        if self.k == 1:  # what most evaluations ask, in half the passes
            best = int(scores.argmax())
            tied = len(scores) > 1 and bool(np.count_nonzero(scores == scores[best]) > 1)
            return Scored(np.array([float(best == label)]), tied)
        own = scores[label]
        rank = np.count_nonzero(scores > own) + np.count_nonzero(scores[:label] == own)
        return Scored(np.array([float(rank < self.k)]), self._tied(scores))

    def reference(self, outputs: Sequence[Array]) -> Label:
        """The class of the highest output."""
        return int(self._scores(outputs[0]).argmax())

    def _scores(self, output: Array) -> Array:
        """An output as a score for each class. Of one value alone, both are equal at the threshold."""
        scores = output.reshape(-1)
        if scores.size > 1:
            return scores
        return np.array([2 * self.threshold - float(scores[0]), float(scores[0])])

    def _tied(self, scores: Array) -> bool:
        if len(scores) <= self.k:
            return False
        last = np.partition(scores, -self.k)[-self.k]
        return bool(np.count_nonzero(scores >= last) > self.k)


class MeanAbsoluteError(_Mean):
    """How far the output is from the label, in the mean over its values. Lower is better."""

    name = "mae"
    higher_is_better = False

    def __init__(self, notes: tuple[Remark, ...] = ()) -> None:
        self.notes = notes

    def score(self, outputs: Sequence[Array], label: Array) -> Scored:
        """The sample's mean error."""
        found, wanted = _alike(outputs[0], label)
        return Scored(np.array([float(np.abs(found - wanted).mean())]))


class Cosine(_Mean):
    """The cosine of the angle between output and label: 1 where they differ by a factor only."""

    name = "cosine"
    span: float | None = 2.0

    def score(self, outputs: Sequence[Array], label: Array) -> Scored:
        """The sample's cosine; two outputs of nothing but zeros are alike."""
        found, wanted = _alike(outputs[0], label)
        norms = float(np.linalg.norm(found)), float(np.linalg.norm(wanted))
        if 0 in norms:
            return Scored(np.array([float(norms == (0.0, 0.0))]))
        return Scored(np.array([float(np.clip(found @ wanted / (norms[0] * norms[1]), -1, 1))]))


class FunctionMetric(_Mean):
    """The mean of a function of (outputs, label) that the user wrote. One call at a time, as it may not expect more.

    Higher is better, unless the function has an attribute `higher_is_better` that says otherwise.
    """

    labels = "anything"

    def __init__(self, name: str, function: Callable[[Sequence[Array], Any], float]) -> None:
        self.name, self._function, self._lock = name, function, threading.Lock()
        said = getattr(function, "higher_is_better", None)
        self.higher_is_better = said is None or bool(said)
        function_name = name.partition(":")[2]
        self.notes: tuple[Remark, ...] = (
            () if said is not None else (remark(HIGHER_IS_BETTER, metric=name, function=function_name),)
        )

    def score(self, outputs: Sequence[Array], label: Any) -> Scored:
        """What the function returns."""
        try:
            with self._lock:
                score = float(self._function(outputs, label))
        except (Exception, SystemExit) as error:
            raise DataError(f"The metric {self.name} failed: {words_of(error)}.") from error
        if not np.isfinite(score):
            raise DataError(f"The metric {self.name} returned {score}.")
        return Scored(np.array([score]))


class MeanIoU:
    """Semantic segmentation: how much predicted and true areas of a class overlap, over their union, in the mean over
    the classes that occur in the masks. Pixels of 255 in a mask do not count."""

    name = "miou"
    labels = "mask"
    higher_is_better = True
    proportion = False
    span: float | None = None

    def score(self, outputs: Sequence[Array], label: Array) -> Scored:
        """Pixels of each class: shared, predicted, true."""
        label = flat_mask(label)
        found = class_map(outputs[0], label.shape)
        wanted = nearest_resized(label, found.shape)
        counted = wanted != _IGNORED
        found, wanted = found[counted].astype(np.int64), wanted[counted].astype(np.int64)
        for what, values in (("mask", wanted), ("output", found)):
            if values.size and not 0 <= values.min() <= values.max() < _MOST_CLASSES:
                raise DataError(f"The {what} has classes beyond 0 to {_MOST_CLASSES - 1}.")
        counts = [np.bincount(classes, minlength=_MOST_CLASSES) for classes in (found[found == wanted], found, wanted)]
        return Scored(np.concatenate(counts).astype(np.float64))

    def value(self, sums: Floats, count: int) -> float:
        """The mean over classes."""
        classes = self.by_class(sums)
        return float(np.mean(list(classes.values()))) if classes else 0.0

    def by_class(self, sums: Floats) -> dict[int, float]:
        """The overlap of each class that occurs in the masks."""
        shared, found, wanted = np.split(sums, 3)
        union = found + wanted - shared
        return {int(c): float(shared[c] / union[c]) for c in np.flatnonzero(wanted)}

    def reference(self, outputs: Sequence[Array]) -> Label:
        """The classes that were predicted."""
        return class_map(outputs[0]).astype(np.uint8)


_IGNORED: Final = 255
_MOST_CLASSES: Final = 255
# Probabilities of a quantized output may end a little beyond 0 and 1.
_ROUNDING: Final = 0.02
_METRICS: Final[dict[str, Callable[[], Metric]]] = {
    "top-1": lambda: TopK(1),
    "top-5": lambda: TopK(5),
    "miou": MeanIoU,
    "mae": MeanAbsoluteError,
    "cosine": Cosine,
}
_OTHER_NAMES: Final = {"top1": "top-1", "accuracy": "top-1", "top5": "top-5", "mean-iou": "miou", "iou": "miou"}


def metric_from_text(text: str) -> Metric:
    """The metric that the user names."""
    name = text.strip().lower()
    name = _OTHER_NAMES.get(name, name)
    if name in _METRICS:
        return _METRICS[name]()
    if not is_function_name(text):
        raise UsageError(f"There is no metric {text!r}.", f"Use {', '.join(_METRICS)}, or module:function of your own.")
    found = load_function(text)
    if isinstance(found, type):
        found = found()
    if all(hasattr(found, name) for name in ("score", "value", "reference", "proportion", "span")):
        return found  # type: ignore[no-any-return]
    if not callable(found):
        raise UsageError(f"{text} is not a function.", "A metric takes (outputs, label) and returns a number.")
    return FunctionMetric(text, found)


def _alike(output: Array, label: Array) -> tuple[Floats, Floats]:
    found, wanted = output.reshape(-1).astype(np.float64), np.asarray(label).reshape(-1).astype(np.float64)
    if found.size != wanted.size:
        raise DataError(
            f"The output has {several(found.size, 'value')}, but the label has {wanted.size}.",
            "Choose a metric that takes such labels: --metric top-1 for classes, or module:function of your own.",
        )
    return found, wanted


def class_map(output: Array, mask_shape: tuple[int, ...] | None = None) -> Array:
    """The classes that an output tells: a score for each class, one probability a pixel, or classes themselves.

    Scores may have their classes last or first; the mask's shape tells where the output's own does not.
    """
    values = output[0] if output.ndim > 2 and output.shape[0] == 1 else output
    if values.ndim == 3 and 1 in (values.shape[0], values.shape[-1]):
        values = values[..., 0] if values.shape[-1] == 1 else values[0]
    if values.ndim == 3:
        return np.asarray(values.argmax(axis=0 if _classes_come_first(values.shape, mask_shape) else -1))
    if values.ndim != 2 or 1 in values.shape:
        raise DataError(
            f"An output of shape {list(output.shape)} is not a class map.", "Choose another metric, or another output."
        )
    return _classes(values)


def nearest_resized(mask: Array, shape: tuple[int, ...]) -> Array:
    """A mask at another size: each pixel takes the class of the nearest one."""
    flat = flat_mask(mask)
    rows, columns = (
        (2 * np.arange(wanted) + 1) * found // (2 * wanted)  # whole numbers: a pixel's centre may fall on an edge
        for found, wanted in zip(flat.shape, shape, strict=True)
    )
    return np.asarray(flat[rows[:, None], columns])


def flat_mask(mask: Array) -> Array:
    """A mask with height and width alone."""
    flat = mask[..., 0] if mask.ndim == 3 and mask.shape[-1] == 1 else mask
    if flat.ndim != 2:
        raise DataError(f"A mask must have height and width; this one has the shape {list(mask.shape)}.")
    return flat


def _classes_come_first(shape: tuple[int, ...], mask_shape: tuple[int, ...] | None) -> bool:
    """Whether scores have their classes in the first dimension, by the first test that only one of both ways passes."""
    height, width = mask_shape or (0, 0)
    tests: tuple[Callable[[int, int, int], bool], ...] = (
        lambda rows, columns, _: (rows, columns) == (height, width),
        # The mask at another size, but for rounding.
        lambda rows, columns, _: mask_shape is not None and abs(rows * width - columns * height) < max(height, width),
        # Images are square more often than they have as many rows as there are classes, and most have more rows.
        lambda rows, columns, _: rows == columns,
        lambda rows, columns, classes: 2 * classes < min(rows, columns),
    )
    for passes in tests:
        first, last = passes(shape[1], shape[2], shape[0]), passes(shape[0], shape[1], shape[2])
        if first != last:
            return first
    if mask_shape is not None and len(set(shape)) > 1:
        raise DataError(
            f"The output's shape {list(shape)} and a mask of {height} x {width} pixels do not show which dimension "
            "holds the classes.",
            "Give masks with the proportions of the output, or a metric of your own: --metric module:function.",
        )
    return False


def _classes(values: Array) -> Array:
    """One value a pixel: a class, or the probability of class 1."""
    if values.dtype.kind != "f" or np.array_equal(values, np.rint(values)):
        return values
    if values.min() < -_ROUNDING or values.max() > 1 + _ROUNDING:
        raise DataError(
            "The output has one score per pixel that is neither a class nor a probability.",
            "Set the threshold in a metric of your own: --metric module:function.",
        )
    return np.asarray(values > _HALF)
