"""How far the outputs of two runs are apart, and from where on that is wrong and no rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.explanation.tensor_errors import CLIPPING_DB, HARMLESS_DB, LARGE_ERROR_DB, ErrorMeter

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

# Sound 8-bit networks differ by this many steps between XNNPACK and the reference kernels, on noise at most.
_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class Output:
    """An output as numbers from zero on, and the step that its type counts in; 0 for floats."""

    values: Array
    step: float = 0.0


def worst_snr_db(expected: Sequence[Output], got: Sequence[Output]) -> float:
    """The signal-to-noise ratio of the worst output; infinite where they are equal, up to a few steps of integers."""
    if len(expected) != len(got):
        return -math.inf
    worst = math.inf
    for one, other in zip(expected, got, strict=True):
        meter = ErrorMeter()
        meter.add(one.values, _without_steps(one, other))
        worst = min(worst, meter.snr_db)
    return worst


def wrong_below_db(outputs: Sequence[Output], *, on_cpu: bool) -> float:
    """What is off by more than this is wrong: integers round at each layer, and accelerators may use half precision."""
    if any(output.step for output in outputs):
        return LARGE_ERROR_DB
    return HARMLESS_DB if on_cpu else CLIPPING_DB


def _without_steps(one: Output, other: Output) -> Array:
    if not one.step or one.values.shape != other.values.shape:
        return other.values
    first, second = one.values.astype(np.float64), other.values.astype(np.float64)
    return np.where(np.abs(first - second) <= (_STEPS + 0.5) * one.step, first, second)
