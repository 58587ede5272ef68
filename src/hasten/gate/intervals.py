"""Intervals that a gate needs beside the latency's: of the 95th percentile, and of what each process has once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.statistics import Interval, grouped_interval, student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.samples import Samples

_RESAMPLES: Final = 400
_NORMAL: Final = {0.95: 1.960, 0.99: 2.576}
_MOST_RUNS_A_BLOCK: Final = 100


def latency_interval(samples: Samples, confidence: float) -> Interval:
    """The median of undisturbed runs, as `bench` shows it, with an interval of this confidence."""
    found = grouped_interval(samples.block_medians_ms, confidence)
    return replace(found, low=max(found.low, 0.0)) if math.isfinite(found.low) else found


def once_interval(values: Sequence[float], confidence: float) -> Interval:
    """The median of a figure that each process gives once, such as the time to load."""
    return grouped_interval([[value] for value in values], confidence)


def p95_interval(samples: Samples, confidence: float, seed: int = 0) -> Interval:
    """The 95th percentile of all runs. Processes are drawn, then blocks of each: runs of one block share its mood."""
    processes: dict[int, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for block in samples.blocks:
        times = np.asarray(block.nanoseconds, dtype=np.float64) / 1e6
        # Evenly spaced quantiles stand for a block of thousands of runs, and are quicker to draw from.
        if len(times) > _MOST_RUNS_A_BLOCK:
            times = np.quantile(times, (np.arange(_MOST_RUNS_A_BLOCK) + 0.5) / _MOST_RUNS_A_BLOCK)
        processes.setdefault(block.runner, []).append(times)
    groups = list(processes.values())
    estimate = samples.p95_ms
    if len(groups) < 2:
        return Interval(estimate, -math.inf, math.inf)
    source = np.random.default_rng(seed)
    found = []
    for _ in range(_RESAMPLES):
        drawn = [groups[place] for place in source.integers(0, len(groups), len(groups))]
        blocks = [group[place] for group in drawn for place in source.integers(0, len(group), len(group))]
        found.append(float(np.quantile(np.concatenate(blocks), 0.95)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    student = student_quantile(len(groups) - 1, confidence) / _NORMAL[confidence]
    widening = math.sqrt(student * len(groups) / (len(groups) - 1))  # as for the median: too few draw too narrow
    below, above = max(0.0, estimate - float(low)), max(0.0, float(high) - estimate)
    return Interval(estimate, max(0.0, estimate - below * widening), estimate + above * widening)
