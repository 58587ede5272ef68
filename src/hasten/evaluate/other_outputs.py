"""The error of the outputs of a variant that no metric looks at, relative to the original's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.data.metrics import Scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.data.dataset import Array, Label

    Floats = NDArray[np.float64]

# An error of half of what the values vary by leaves little of what an output told.
RUINED: Final = 0.5
# The number of samples to look at.
SAMPLES: Final = 8
# Channels that vary by less than this part of the output's size are constant but for rounding.
_CONSTANT: Final = 1e-6
_NO_NUMBER: Final = 1e9
_ROWS: Final = 5


class OtherOutputs:
    """A metric: the error of the worst output but the first, relative to what the original's values vary by.

    By channels (the last axis), as a range that one of them needs can leave nothing of the others: the error of the
    median channel or that of all, whichever is worse. In an output of values from 0 to 1, such as probabilities, small
    channels are of no account, and only the error of all counts.
    """

    name = "other outputs"
    labels = "anything"
    higher_is_better = False
    proportion = False
    span: float | None = None

    def __init__(self, count: int) -> None:
        self._channels: list[int] = [0] * count
        """By output; 0 as long as nothing was seen of it."""

    def reference(self, outputs: Sequence[Array]) -> Label:
        """All outputs but the first."""
        for place, values in enumerate(outputs[1:]):
            self._channels[place] = self._channels[place] or _by_channel(values).shape[1]
        return tuple(np.array(values) for values in outputs[1:])  # type: ignore[return-value]

    def score(self, outputs: Sequence[Array], label: Any) -> Scored:
        """Sums over each channel of each output."""
        parts = [
            _sums(found, wanted, channels)
            for found, wanted, channels in zip(outputs[1:], label, self._channels, strict=True)
        ]
        return Scored(np.concatenate([part.ravel() for part in parts]))

    def value(self, sums: Floats, count: int) -> float:
        """The error of the worst output."""
        return max(self.errors(sums))

    def errors(self, sums: Floats) -> list[float]:
        """The error of each output."""
        ends = np.cumsum([_ROWS * channels for channels in self._channels])[:-1]
        return [_error(part.reshape(_ROWS, -1)) for part in np.split(sums, ends)]


def _sums(found: Array, wanted: Array, channels: int) -> Floats:
    """Number, squared error, sum, sum of squares and values beyond 0 to 1, by channel. Nothing where the shapes differ,
    as those of dynamic outputs may."""
    if found.shape != wanted.shape or _by_channel(wanted).shape[1] != channels:
        return np.zeros((_ROWS, channels))
    a, b = _by_channel(found), _by_channel(wanted)
    counted = np.isfinite(b)
    b = np.where(counted, b, 0.0)
    error = np.where(counted, np.where(np.isfinite(a), a, _NO_NUMBER) - b, 0.0)
    rows = (counted, error**2, b, b**2, counted & ((b < 0) | (b > 1)))
    return np.stack([row.sum(axis=0, dtype=np.float64) for row in rows])


def _error(sums: Floats) -> float:
    count, error, total, squares, beyond = sums
    seen = count > 0
    if not seen.any():
        return 0.0
    varying = squares[seen] - total[seen] ** 2 / count[seen]
    live = varying > _CONSTANT**2 * squares[seen].sum()
    if not live.any():  # the original's output is constant, and so its size is what there is to compare with
        return _ratio(float(error.sum()), float(squares.sum()))
    whole = _ratio(float(error.sum()), float(varying[live].sum()))
    if not beyond.any():
        return whole
    return max(whole, float(np.sqrt(np.median(error[seen][live] / varying[live]))))


def _ratio(error: float, size: float) -> float:
    return math.sqrt(error / size) if size > 0 else 0.0 if error == 0 else _NO_NUMBER


def _by_channel(values: Array) -> Floats:
    """Values with a column for each channel."""
    flat = np.asarray(values, dtype=np.float64)
    return flat.reshape(-1, flat.shape[-1] if flat.ndim and flat.size else 1)
