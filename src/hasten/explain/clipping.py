"""Where numbers are cut off: values of the original that a quantised tensor of the changed model has no room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hasten.explain.facts import CutOff
from hasten.explain.node_errors import CutOffMeter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.data.forms import TensorForm
    from hasten.explain.inner_tensors import Found
    from hasten.model.graph import Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class _Held:
    """What a quantised tensor can hold, and the step from one value to the next."""

    low: float
    high: float
    step: float


def cut_off_nodes(changed: Subgraph, pairs: Mapping[int, tuple[int, int]], found: Mapping[int, Found]) -> list[CutOff]:
    """Nodes whose output has no room for what the original's has, worst first."""
    cut = []
    for node, (before, after) in pairs.items():
        held = _held_by_tensor(changed.tensors[after])
        if held is not None and before in found:
            cut.append((node, "", _metered(found[before], held)))
    return _worst_first(cut)


def cut_off_inputs(fed: Sequence[Found], counterparts: Sequence[tuple[int, TensorForm]]) -> list[CutOff]:
    """Inputs that have no room for what the original is fed."""
    cut: list[tuple[int | None, str, CutOffMeter]] = []
    for place, form in counterparts:
        if form.is_quantized:
            held = _held(form.dtype, form.scale, form.zero_point)
            cut.append((None, form.name, _metered((sample[place] for sample in fed), held)))
    return _worst_first(cut)


def _metered(values: Iterable[np.ndarray], held: _Held) -> CutOffMeter:
    meter = CutOffMeter(held.low, held.high, held.step)
    for sample in values:
        meter.add(sample)
    return meter


def _worst_first(cut: Sequence[tuple[int | None, str, CutOffMeter]]) -> list[CutOff]:
    told = sorted((entry for entry in cut if entry[2].is_notable), key=lambda entry: entry[2].snr_db)
    return [
        CutOff(node, name, meter.share, (meter.smallest, meter.largest), (meter.low, meter.high))
        for node, name, meter in told
    ]


def _held_by_tensor(tensor: Tensor) -> _Held | None:
    quantization = tensor.quantization
    if quantization is None or quantization.per_channel or "int" not in tensor.dtype:
        return None
    return _held(tensor.dtype, quantization.scales[0], (*quantization.zero_points, 0)[0])


def _held(dtype: str, scale: float, zero_point: int) -> _Held:
    limits = np.iinfo(dtype)
    return _Held((limits.min - zero_point) * scale, (limits.max - zero_point) * scale, scale)
