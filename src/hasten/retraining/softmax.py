"""A linear head on features: softmax for one class a sample, independent sigmoids for several. Only NumPy, and quick.

Features are turned into their principal directions first, which changes no solution: the penalty on weights does not
see rotations. There the curvature of the loss is nearly diagonal and known, which L-BFGS starts from, so that it needs
about ten steps; and fewer samples than features make the problem smaller. Weight decay is chosen by cross-validation,
from strong to weak, each fit starting from the one before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Integers = NDArray[np.int64]

FOLDS: Final = 5
DECAYS: Final = tuple(10.0 ** (-exponent / 2) for exponent in range(2, 15))
"""Weight decay to try, for features whose squared lengths are 1 on average: 0.1 to 1e-7."""
# Further decays are not tried once so many have been worse than the best.
_PATIENCE: Final = 2
# Directions with less variance than this share of the largest are rounding errors of float32.
_FLAT: Final = 1e-6
# Steps that L-BFGS remembers, and at most takes.
_MEMORY: Final = 10
_MOST_STEPS: Final = 300
# What a step may still gain when the fit ends, in nats a sample: for choosing the decay, and at the end.
_ROUGH, _FINE = 1e-5, 1e-7
_ARMIJO: Final = 1e-4
_SHORTEST_STEP: Final = 2.0**-20


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Weights [classes, features] and a bias for each class."""

    weights: Floats
    bias: Floats
    multi_label: bool = False

    def logits(self, features: Singles) -> Floats:
        """The scores before softmax or sigmoid, a row for each sample."""
        found: Floats = features.astype(np.float64) @ self.weights.T + self.bias
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Features of samples, their classes as 0 and 1, and how much each sample counts."""

    features: Singles
    targets: Singles
    """A row for each sample, a column for each class."""
    counts: Floats
    multi_label: bool = False
    offsets: Floats | None = None
    """Logits that a head is added to: what it learns is then the difference from the head that gave them."""

    def part(self, rows: Integers) -> Samples:
        """Some of the samples."""
        offsets = None if self.offsets is None else self.offsets[rows]
        return Samples(self.features[rows], self.targets[rows], self.counts[rows], self.multi_label, offsets)

    def added(self, logits: Floats) -> Floats:
        """Logits of a head with what they are added to."""
        return logits if self.offsets is None else logits + self.offsets


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """What each weight decay lost on samples that the fit had not seen."""

    decays: tuple[float, ...]
    losses: tuple[float, ...]
    """In nats a sample."""
    chosen: float
    logits: Floats
    """Of each sample at the chosen decay, by the fit that had not seen it."""


def probabilities(logits: Floats, *, multi_label: bool) -> Floats:
    """Logits as probabilities: of one class among all, or of each on its own."""
    if multi_label:
        found: Floats = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
        return found
    powers: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def one_hot(numbers: Integers, classes: int) -> Singles:
    """Numbers of classes as rows of 0 with a single 1."""
    found = np.zeros((len(numbers), classes), np.float32)
    found[np.arange(len(numbers)), numbers] = 1
    return found


def fit_head(samples: Samples, decay: float) -> Head:
    """The head with the smallest loss and this weight decay."""
    basis = _Basis(samples.features)
    problem = _Problem(basis.coordinates(samples.features), samples, basis.variances)
    return basis.head(_minimized(problem, problem.start(), decay, _FINE), samples.multi_label)


def fit_by_cross_validation(
    samples: Samples, folds: Integers, progress: Callable[[float], None] = lambda share: None
) -> tuple[Head, CrossValidation]:
    """The head whose weight decay loses least on samples left out; `folds` says with which part each is left out."""
    basis = _Basis(samples.features)
    coordinates = basis.coordinates(samples.features)
    course = list(_course(coordinates, samples, basis.variances, folds, progress))
    best = min(course, key=lambda entry: entry.loss)
    problem = _Problem(coordinates, samples, basis.variances)
    head = basis.head(_minimized(problem, best.start, best.decay, _FINE), samples.multi_label)
    decays, losses = tuple(entry.decay for entry in course), tuple(entry.loss for entry in course)
    return head, CrossValidation(decays, losses, best.decay, best.logits)


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    decay: float
    loss: float
    logits: Floats
    start: Floats
    """The mean of the folds' parameters: near those of a fit to all samples."""


def _course(
    coordinates: Singles, samples: Samples, variances: Floats, folds: Integers, progress: Callable[[float], None]
) -> Iterator[_Tried]:
    """Each decay from the strongest on, all folds side by side, until it gets worse."""
    numbers = np.unique(folds)
    parts = [(np.flatnonzero(folds != number), np.flatnonzero(folds == number)) for number in numbers]
    problems = [_Problem(coordinates[inside], samples.part(inside), variances) for inside, _ in parts]
    found = [problem.start() for problem in problems]
    best, worse = np.inf, 0
    for place, decay in enumerate(DECAYS):
        logits = np.zeros((len(folds), samples.targets.shape[1]))
        for number, (problem, (_, outside)) in enumerate(zip(problems, parts, strict=True)):
            found[number] = _minimized(problem, found[number], decay, _ROUGH)
            logits[outside] = samples.part(outside).added(_scores(coordinates[outside], found[number]))
            progress((place + (number + 1) / len(parts)) / len(DECAYS))
        loss = _mean_loss(logits, samples)
        yield _Tried(decay, loss, logits, np.mean(found, axis=0))
        worse = worse + 1 if loss > best else 0
        best = min(best, loss)
        if worse == _PATIENCE:
            return


class _Basis:
    """The principal directions of features, whose squared lengths about their mean are made 1 on average."""

    def __init__(self, features: Singles) -> None:
        self._mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        centered = features - self._mean
        self._scale = float(np.sqrt((centered.astype(np.float64) ** 2).sum(axis=1).mean())) or 1.0
        centered /= np.float32(self._scale)
        count, width = features.shape
        is_tall = count > width
        squares = (centered.T @ centered if is_tall else centered @ centered.T).astype(np.float64) / count
        values, vectors = np.linalg.eigh(squares)
        kept = values > _FLAT * max(values.max(), np.finfo(np.float64).tiny)
        self.variances: Floats = values[kept]
        directions = vectors[:, kept]
        if not is_tall:
            directions = centered.T.astype(np.float64) @ directions / np.sqrt(count * self.variances)
        self._directions: Floats = directions

    def coordinates(self, features: Singles) -> Singles:
        """Features in these directions, and a column of 1 for the bias."""
        turned = (features - self._mean) / np.float32(self._scale) @ self._directions.astype(np.float32)
        return np.concatenate([turned, np.ones((len(turned), 1), np.float32)], axis=1)

    def head(self, parameters: Floats, multi_label: bool) -> Head:
        """Parameters [directions + 1, classes] as the head of the features themselves."""
        weights = parameters[:-1].T @ self._directions.T / self._scale
        bias = parameters[-1] - weights @ self._mean.astype(np.float64)
        if not multi_label:
            bias = bias - bias.mean()  # softmax does not see what all classes share, and a quantized range does
        return Head(weights, bias, multi_label)


class _Problem:
    """The loss of a head on some samples, and how it is curved."""

    def __init__(self, coordinates: Singles, samples: Samples, variances: Floats) -> None:
        self._coordinates, self._samples = coordinates, samples
        self._shares = (samples.counts / samples.counts.sum())[:, np.newaxis]
        classes = samples.targets.shape[1]
        # What softmax and sigmoid add to the curvature while nothing is known yet.
        self._curvature = 0.25 if samples.multi_label else (classes - 1) / classes**2
        self._variances = np.append(variances, 1.0)

    def start(self) -> Floats:
        """A head that knows only how common each class is; or that changes nothing in the logits that are given."""
        found = np.zeros((self._coordinates.shape[1], self._samples.targets.shape[1]))
        if self._samples.offsets is not None:
            return found
        common = np.clip((self._shares * self._samples.targets).sum(axis=0), 1e-6, 1 - 1e-6)
        found[-1] = np.log(common / (1 - common)) if self._samples.multi_label else np.log(common)
        return found

    def inverse_curvature(self, decay: float) -> Floats:
        """About how far a gradient of 1 is from the minimum, in each direction."""
        penalty = np.full(len(self._variances), decay)
        penalty[-1] = 0.0
        found: Floats = 1 / (self._curvature * self._variances + penalty)
        return found[:, np.newaxis]

    def loss_and_gradient(self, parameters: Floats, decay: float) -> tuple[float, Floats]:
        """The mean loss with the penalty, and its gradient."""
        logits = self._samples.added(_scores(self._coordinates, parameters))
        loss = float((self._shares[:, 0] * _losses(logits, self._samples)).sum())
        errors = probabilities(logits, multi_label=self._samples.multi_label) - self._samples.targets
        weighted = (self._shares * errors).astype(np.float32)
        gradient = (self._coordinates.T @ weighted).astype(np.float64)
        gradient[:-1] += decay * parameters[:-1]
        return loss + decay / 2 * float((parameters[:-1] ** 2).sum()), gradient


def _scores(coordinates: Singles, parameters: Floats) -> Floats:
    found: Floats = (coordinates @ parameters.astype(np.float32)).astype(np.float64)
    return found


def _losses(logits: Floats, samples: Samples) -> Floats:
    """The loss of each sample, in nats."""
    told = (samples.targets * logits).sum(axis=1)
    if samples.multi_label:
        found: Floats = np.logaddexp(0, logits).sum(axis=1) - told
        return found
    highest = logits.max(axis=1)
    one: Floats = highest + np.log(np.exp(logits - highest[:, np.newaxis]).sum(axis=1)) - told
    return one


def _mean_loss(logits: Floats, samples: Samples) -> float:
    return float((samples.counts * _losses(logits, samples)).sum() / samples.counts.sum())


def _minimized(problem: _Problem, start: Floats, decay: float, precision: float) -> Floats:
    """The parameters with the smallest loss: L-BFGS (Nocedal & Wright, algorithm 7.4) from the known curvature."""
    scale, point = problem.inverse_curvature(decay), start
    loss, gradient = problem.loss_and_gradient(point, decay)
    steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    for _ in range(_MOST_STEPS):
        direction = -_preconditioned(gradient, steps, scale)
        slope = float((gradient * direction).sum())
        if -slope / 2 <= precision:  # what a step by the estimated curvature would gain
            break
        length = 1.0
        while True:
            ahead = point + length * direction
            loss_ahead, gradient_ahead = problem.loss_and_gradient(ahead, decay)
            if loss_ahead <= loss + _ARMIJO * length * slope or length <= _SHORTEST_STEP:
                break
            length /= 2
        if loss_ahead > loss:  # as low as float32 can tell
            break
        moved, turned = ahead - point, gradient_ahead - gradient
        if float((moved * turned).sum()) > 0:
            steps.append((moved, turned))
        point, loss, gradient = ahead, loss_ahead, gradient_ahead
    return point


def _preconditioned(gradient: Floats, steps: deque[tuple[Floats, Floats]], scale: Floats) -> Floats:
    """The gradient times the inverse curvature, as far as it is known and the steps have taught it."""
    found: Floats = gradient.copy()
    factors = []
    for moved, turned in reversed(steps):
        factor = float((moved * found).sum() / (moved * turned).sum())
        found -= factor * turned
        factors.append(factor)
    found *= scale
    if steps:
        moved, turned = steps[-1]
        found *= float((moved * turned).sum() / (turned * scale * turned).sum())
    for (moved, turned), factor in zip(steps, reversed(factors), strict=True):
        found += moved * (factor - float((turned * found).sum() / (moved * turned).sum()))
    return found
