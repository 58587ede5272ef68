"""How far a tensor's numbers are off: signal-to-noise ratio in decibels, clipping, and the nodes where error enters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.explanation.facts import Clipping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.data.tensor_forms import TensorForm
    from hasten.model.graph import Subgraph, Tensor

    Reals = list[NDArray[Any]]
    """Real values of a tensor, for each sample."""

# Float32 itself is no better than about 140 dB: what lies above is rounding, and drops up there mean nothing.
ROUNDING_DB: Final = 120.0
DROP_DB: Final = 6.0
"""A drop worth a word: the error's power grows four times in one node."""
HARMLESS_DB: Final = 40.0
"""An error of a hundredth of the signal, which eight bits always cost."""
CLIPPING_DB: Final = 30.0
"""An error of a thirtieth of the signal."""
LARGE_ERROR_DB: Final = 20.0
"""An error of a tenth of the signal."""


@dataclass(slots=True)
class ErrorMeter:
    """Sums up signal and error of one tensor over samples."""

    signal: float = 0.0
    error: float = 0.0
    worst: float = 0.0
    """The largest absolute error."""
    values: int = 0
    differing: int = 0
    """How many of the values are not exactly the original's."""
    not_finite: int = 0
    """How many numbers that were finite before are infinite or no numbers now."""
    broken: bool = False
    """Whether there are such numbers, or another number of values."""

    def add(self, expected: NDArray[Any], got: NDArray[Any]) -> None:
        """Count one sample. Numbers that are not finite in the original say nothing."""
        if expected.size != got.size:
            self.broken = True
            return
        reference, found = (values.astype(np.float64).reshape(-1) for values in (expected, got))
        with np.errstate(invalid="ignore"):  # infinities on both sides
            difference = reference - found
        if not np.isfinite(difference).all():
            known = np.isfinite(reference)
            reference, difference = reference[known], difference[known]
            if lost := int(np.count_nonzero(~np.isfinite(difference))):
                self.values += reference.size
                self.differing += int(np.count_nonzero(difference))
                self.not_finite += lost
                self.broken = True
                return
        self.values += reference.size
        self.differing += int(np.count_nonzero(difference))
        self.signal += _energy(reference)
        self.error += _energy(difference)
        self.worst = max(self.worst, float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))

    @property
    def signal_rms(self) -> float:
        """The root mean square of the original's values."""
        return math.sqrt(self.signal / self.values) if self.values else 0.0

    @property
    def error_rms(self) -> float:
        """The root mean square of the error."""
        return math.sqrt(self.error / self.values) if self.values else 0.0

    @property
    def snr_db(self) -> float:
        """Infinite without any error, minus infinity where numbers broke or where there was no signal to be wrong."""
        if self.broken:
            return -math.inf
        if self.error == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.error) if self.signal > 0 else -math.inf


def _energy(values: NDArray[Any]) -> float:
    """The sum of squares. Not `np.dot`, whose threads get in each other's way on a machine that is busy."""
    return float(np.einsum("i,i->", values, values))


def error_between(expected: Reals, got: Reals) -> ErrorMeter:
    """The error over all samples."""
    meter = ErrorMeter()
    for one, other in zip(expected, got, strict=True):
        meter.add(one, other)
    return meter


def snr_between(expected: Reals, got: Reals) -> float:
    """The signal-to-noise ratio over all samples."""
    return error_between(expected, got).snr_db


@dataclass(slots=True)
class ClippingMeter:
    """Sums up over samples which values of a tensor lie out of the range of another one."""

    low: float
    high: float
    step: float
    """Between neighbors in that range: what lies within half of it beyond an end is rounded, not clipped."""
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
    def snr_db(self) -> float:
        """Signal over what is clipped."""
        return 10 * math.log10(self.signal / self.error) if self.error else math.inf

    @property
    def is_notable(self) -> bool:
        """Whether clipping alone costs clearly more than rounding to eight bits does."""
        return self.beyond > 0 and self.snr_db < CLIPPING_DB

    def found(self, node: int | None, name: str | None) -> Clipping:
        """What was clipped."""
        share = self.beyond / self.values if self.values else 0.0
        return Clipping(node, name, share, (self.smallest, self.largest), (self.low, self.high))


def clipped_nodes(
    changed: Subgraph, pairs: Mapping[int, tuple[int, int]], found: Mapping[int, Reals]
) -> list[Clipping]:
    """Nodes of the changed model whose output's range excludes values of the original's, worst first."""
    metered = []
    for node, (before, after) in pairs.items():
        meter = _meter_of_tensor(changed.tensors[after])
        if meter is not None and before in found:
            metered.append((node, None, _metered(found[before], meter)))
    return _worst_first(metered)


def clipped_inputs(fed: Sequence[Reals], counterparts: Sequence[tuple[int, TensorForm]]) -> list[Clipping]:
    """Inputs whose range excludes values that the original is fed."""
    metered: list[tuple[int | None, str | None, ClippingMeter]] = []
    for place, form in counterparts:
        if form.is_quantized:
            meter = _meter(form.dtype, form.scale, form.zero_point)
            metered.append((None, form.name, _metered((sample[place] for sample in fed), meter)))
    return _worst_first(metered)


def _metered(values: Iterable[NDArray[Any]], meter: ClippingMeter) -> ClippingMeter:
    for sample in values:
        meter.add(sample)
    return meter


def _worst_first(metered: Sequence[tuple[int | None, str | None, ClippingMeter]]) -> list[Clipping]:
    notable = sorted((entry for entry in metered if entry[2].is_notable), key=lambda entry: entry[2].snr_db)
    return [meter.found(node, name) for node, name, meter in notable]


def range_of(tensor: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest number that a quantized tensor can hold; None where its type has no such limits."""
    meter = _meter_of_tensor(tensor)
    return (meter.low, meter.high) if meter is not None else None


def _meter_of_tensor(tensor: Tensor) -> ClippingMeter | None:
    quantization = tensor.quantization
    if quantization is None or quantization.per_channel or "int" not in tensor.dtype:
        return None
    return _meter(tensor.dtype, quantization.scales[0], (*quantization.zero_points, 0)[0])


def _meter(dtype: str, scale: float, zero_point: int) -> ClippingMeter:
    limits = np.iinfo(dtype)
    return ClippingMeter((limits.min - zero_point) * scale, (limits.max - zero_point) * scale, scale)


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
