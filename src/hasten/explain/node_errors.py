"""How far a node's numbers are off: signal over error in decibels, and the nodes where error enters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# Float32 itself is no better than about 140 dB: what lies above is rounding, and drops up there mean nothing.
ROUNDING_DB: Final = 120.0
DROP_DB: Final = 6.0
"""A drop to tell of: the error's power grows four times in one node."""
HARMLESS_DB: Final = 40.0
"""An error of a hundredth of the signal, which eight bits always cost."""
CUT_OFF_DB: Final = 30.0
"""An error of a thirtieth of the signal."""
LARGE_ERROR_DB: Final = 20.0
"""An error of a tenth of the signal."""


@dataclass(slots=True)
class ErrorMeter:
    """Sums up signal and error of one tensor over samples."""

    signal: float = 0.0
    error: float = 0.0
    broken: bool = False
    """Whether a number that was finite before is infinite or no number now."""

    def add(self, expected: NDArray[Any], got: NDArray[Any]) -> None:
        """Count one sample. Numbers that are not finite in the original say nothing."""
        if expected.size != got.size:
            self.broken = True
            return
        reference, found = (values.astype(np.float64).reshape(-1) for values in (expected, got))
        known = np.isfinite(reference)
        reference, found = reference[known], found[known]
        if not np.isfinite(found).all():
            self.broken = True
            return
        self.signal += float(np.square(reference).sum())
        self.error += float(np.square(reference - found).sum())

    @property
    def snr_db(self) -> float:
        """Infinite without any error, minus infinity where numbers broke or where there was no signal to be wrong."""
        if self.broken:
            return -math.inf
        if self.error == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.error) if self.signal > 0 else -math.inf


@dataclass(slots=True)
class CutOffMeter:
    """Sums up over samples which values of a tensor lie beyond the range that another one can hold."""

    low: float
    high: float
    step: float
    """Between neighbours in that range: what lies within half of it beyond an end is rounded, not cut off."""
    smallest: float = math.inf
    largest: float = -math.inf
    values: int = 0
    beyond: int = 0
    signal: float = 0.0
    error: float = 0.0

    def add(self, values: NDArray[Any]) -> None:
        """Count one sample. Numbers that are not finite say nothing."""
        known = values[np.isfinite(values)].astype(np.float64)
        if not known.size:
            return
        excess = known - np.clip(known, self.low, self.high)
        self.smallest, self.largest = min(self.smallest, float(known.min())), max(self.largest, float(known.max()))
        self.values += known.size
        self.beyond += int(np.count_nonzero(np.abs(excess) > self.step / 2))
        self.signal += float(np.square(known).sum())
        self.error += float(np.square(excess).sum())

    @property
    def share(self) -> float:
        """Of the values, those beyond."""
        return self.beyond / self.values if self.values else 0.0

    @property
    def snr_db(self) -> float:
        """Signal over what is cut off."""
        return 10 * math.log10(self.signal / self.error) if self.error else math.inf

    @property
    def is_notable(self) -> bool:
        """Whether cutting off alone costs clearly more than rounding to eight bits does."""
        return self.beyond > 0 and self.snr_db < CUT_OFF_DB


def drops(snr_db: Mapping[int, float], inputs_of: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """For each node, how much lower its SNR is than the worst of its inputs'; a node fed by nothing known has a clean
    one."""
    found = {}
    for node, snr in snr_db.items():
        worst = min((_limited(value) for value in inputs_of.get(node, ())), default=ROUNDING_DB)
        found[node] = worst - _limited(snr)
    return found


def is_lossy(snr_db: float) -> bool:
    """Whether there is an error at all, beyond rounding."""
    return snr_db <= ROUNDING_DB - DROP_DB


def first_drop(drop_db: Mapping[int, float]) -> int | None:
    """The first node in the order of execution where the SNR drops."""
    return next((node for node in sorted(drop_db) if drop_db[node] >= DROP_DB), None)


def largest_drop(snr_db: Mapping[int, float], drop_db: Mapping[int, float]) -> int | None:
    """The node that does most harm: errors that are small even after the drop count only where there are no others."""
    limited = {node: _limited(snr) for node, snr in snr_db.items()}
    harm = {
        node: min(limited[node] + drop, HARMLESS_DB) - min(limited[node], HARMLESS_DB) for node, drop in drop_db.items()
    }
    for measure in (harm, drop_db):
        node = max(sorted(measure), key=lambda one: measure[one], default=None)
        if node is not None and measure[node] >= DROP_DB:
            return node
    return None


def first_below(snr_db: Mapping[int, float], limit_db: float = LARGE_ERROR_DB) -> int | None:
    """The first node whose error is large."""
    return next((node for node in sorted(snr_db) if snr_db[node] < limit_db), None)


def _limited(snr_db: float) -> float:
    return max(-ROUNDING_DB, min(ROUNDING_DB, snr_db))
