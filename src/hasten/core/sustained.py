"""Sustained speed: a median for each minute, and the time from which the device throttled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import key, record
from hasten.core.doubts import OTHER_LOAD, STOLEN_TIME
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.core.samples import Samples
from hasten.core.statistics import grouped_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.block import Block

# A device that throttles loses more than this; what is less is the usual wandering of a clock.
_SLOWER: Final = 0.05


@record
class Minute:
    """What happened in one minute (or a shorter slice, in a shorter run)."""

    minute: int
    """Its number, from 1."""
    median_ms: float
    ci95_ms: tuple[float, float]
    p95_ms: float
    runs: int
    temperature_c: float | None
    frequency_mhz: float | None


@record
class Sustained:
    """Latency over time."""

    slice_seconds: float
    minutes: tuple[Minute, ...]
    onset: int | None = key("throttling_onset")
    """The first slice from which on every one was slower than the first, for sure and by more than 5 %."""
    slowdown: float
    """The last slice against the first."""
    cut_short: str | None = None
    """What ended the run before its time, if something did."""
    doubts: tuple[Remark, ...] = ()
    """What else had the cores meanwhile."""


@record
class SustainedFound:
    """A model that was run without a pause."""

    model: Model
    plan: Plan
    sustained: Sustained


def sustained_from_blocks(blocks: Sequence[Block], slice_seconds: float) -> Sustained:
    """The course from blocks of one long run."""
    start = blocks[0].at_seconds
    slices: dict[int, list[Block]] = {}
    for block in blocks:
        slices.setdefault(int((block.at_seconds - start) / slice_seconds), []).append(block)
    minutes = tuple(_minute(number + 1, members) for number, members in sorted(slices.items()))
    first = minutes[0]
    slower = [m.ci95_ms[0] > first.ci95_ms[1] and m.median_ms > first.median_ms * (1 + _SLOWER) for m in minutes]
    lasting = next((i for i in range(len(minutes)) if all(slower[i:])), None)
    slowdown = minutes[-1].median_ms / first.median_ms - 1 if first.median_ms else 0.0
    onset = None if lasting is None else minutes[lasting].minute
    others = [doubt for doubt in Samples(tuple(blocks)).doubts() if doubt.code in (OTHER_LOAD, STOLEN_TIME)]
    return Sustained(slice_seconds, minutes, onset, slowdown, doubts=tuple(others))


def _minute(number: int, blocks: Sequence[Block]) -> Minute:
    times = np.concatenate([np.asarray(block.nanoseconds, dtype=np.float64) for block in blocks]) / 1e6
    medians = [float(np.median(block.nanoseconds)) / 1e6 for block in blocks]
    latency = grouped_interval([medians])
    return Minute(
        minute=number,
        median_ms=latency.estimate,
        ci95_ms=(latency.low, latency.high),
        p95_ms=float(np.quantile(times, 0.95)),
        runs=len(times),
        temperature_c=_mean(block.conditions.temperature_c for block in blocks),
        frequency_mhz=_mean(block.conditions.frequency_mhz for block in blocks),
    )


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
