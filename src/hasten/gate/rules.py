"""How each limit stands: kept, broken or undecided.

A limit on a time is kept only if the whole interval lies below it, and broken only if the whole interval lies above:
noise neither opens the gate nor shuts it. The measuring side looks after every round, so the intervals have 99 %, as
the verdict of a comparison has. Sizes are exact, and so is the accuracy on given data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict
from hasten.core.remark import remark
from hasten.core.statistics import Interval, grouped_interval, student_quantile
from hasten.gate.facts import GateVerdict, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy, PairedAccuracy
    from hasten.core.floor import Floor
    from hasten.core.samples import Samples

CONFIDENCE: Final = 0.99
FEWEST_PROCESSES: Final = 4
_SHOWN: Final = 0.95
_RESAMPLES: Final = 400
_NORMAL: Final = {0.95: 1.960, 0.99: 2.576}
_MOST_RUNS_A_BLOCK: Final = 100


def exact_row(what: str, unit: str, measured: float, limit: float) -> Row:
    """A figure that is the same each time."""
    if measured <= limit:
        return Row(what, unit, measured, None, limit, GateVerdict.PASSED, remark("gate.exact"))
    why = remark("gate.exact-above", above=measured / limit - 1)
    return Row(what, unit, measured, None, limit, GateVerdict.FAILED, why)


def timed_row(what: str, found: Interval | None, limit: float, processes: int) -> Row:
    """A time in milliseconds, with its interval over fresh processes."""
    if found is None:
        return Row(what, "ms", None, None, limit, GateVerdict.UNDECIDED, remark("gate.not-measured"))
    if processes < FEWEST_PROCESSES:
        verdict = GateVerdict.UNDECIDED
        why = remark("gate.few-processes", processes=processes, needed=FEWEST_PROCESSES)
    elif found.high <= limit:
        verdict, why = GateVerdict.PASSED, remark("gate.kept")
    elif found.low > limit:
        verdict, why = GateVerdict.FAILED, remark("gate.broken", above=found.estimate / limit - 1)
    else:
        verdict, why = GateVerdict.UNDECIDED, remark("gate.undecided")
    ends = (found.low, found.high)
    return Row(what, "ms", found.estimate, ends, limit, verdict, why, confidence=CONFIDENCE)


def memory_row(peaks_mb: Sequence[float], limit: float) -> Row:
    """The peak memory of each process: kept if all are below the limit, broken if all are above."""
    if not peaks_mb:
        return Row("memory", "MB", None, None, limit, GateVerdict.UNDECIDED, remark("gate.no-peak"))
    low, high = min(peaks_mb), max(peaks_mb)
    if high <= limit:
        verdict, why = GateVerdict.PASSED, remark("gate.memory-kept")
    elif low > limit:
        verdict, why = GateVerdict.FAILED, remark("gate.memory-broken", above=high / limit - 1)
    else:
        above = sum(peak > limit for peak in peaks_mb)
        verdict, why = GateVerdict.UNDECIDED, remark("gate.memory-mixed", above=above, processes=len(peaks_mb))
    return Row("memory", "MB", high, (low, high), limit, verdict, why)


def accuracy_row(found: Accuracy, limit: float, *, higher_is_better: bool) -> Row:
    """The accuracy on the data given. It is the same each time: the interval is for other data of its kind."""
    kept = found.value >= limit if higher_is_better else found.value <= limit
    sure = not found.low <= limit <= found.high
    return Row(
        "accuracy",
        "share" if found.high <= 1 and found.low >= 0 else "value",
        found.value,
        (found.low, found.high),
        limit,
        GateVerdict.PASSED if kept else GateVerdict.FAILED,
        remark("gate.accuracy", metric=found.metric, samples=found.samples, sure=sure),
        at_least=higher_is_better,
        confidence=_SHOWN,
    )


def drop_row(baseline: str, found: PairedAccuracy, floor: Floor) -> Row:
    """The accuracy against the baseline's: broken if it is worse with 95 % confidence, and by more than allowed."""
    low, high = sorted((-found.low, -found.high) if found.higher_is_better else (found.low, found.high))
    if found.drop <= 0 or floor.keeps(found.drop):
        verdict, code = GateVerdict.PASSED, "gate.drop-kept"
    elif floor.allowed is None:
        verdict, code = GateVerdict.UNDECIDED, "gate.drop-kept"
    elif low > 0:
        verdict, code = GateVerdict.FAILED, "gate.drop-worse"
    else:
        verdict, code = GateVerdict.UNDECIDED, "gate.drop-chance"
    why = remark(code, lost=found.lost, won=found.won, samples=found.samples, baseline=baseline, floor=to_data(floor))
    return Row(
        "accuracy lost",
        floor.unit,
        found.drop + 0.0,
        (low, high),
        floor.allowed or 0.0,
        verdict,
        why,
        confidence=_SHOWN,
        against=baseline,
    )


def slowdown_row(baseline: str, found: Comparison | None, margin: float) -> Row:
    """The latency against the baseline model's, from rounds that both ran in.

    Broken if `compare` says slower: with 99 % confidence, and by more than the margin. Kept if the whole interval
    is below it.
    """
    limit = 1 + margin
    if found is None:
        why = remark("gate.not-measured")
        return Row("latency", "ratio", None, None, limit, GateVerdict.UNDECIDED, why, against=baseline)
    enough = found.rounds >= FEWEST_ROUNDS
    if found.verdict is Verdict.SLOWER:
        verdict, why = GateVerdict.FAILED, remark("gate.slower", by=found.ratio - 1)
    elif found.verdict is Verdict.FASTER:
        verdict, why = GateVerdict.PASSED, remark("gate.faster", by=1 - found.ratio)
    elif enough and found.ci95[1] <= limit:
        verdict, why = GateVerdict.PASSED, remark("gate.kept")
    elif not enough:
        verdict, why = GateVerdict.UNDECIDED, remark("gate.few-pairs", pairs=found.rounds, needed=FEWEST_ROUNDS)
    else:
        verdict, why = GateVerdict.UNDECIDED, remark("gate.noise")
    return Row("latency", "ratio", found.ratio, found.ci95, limit, verdict, why, confidence=_SHOWN, against=baseline)


def latency_interval(samples: Samples, confidence: float) -> Interval:
    """The median of undisturbed runs, as `bench` shows it, with an interval of this confidence."""
    found = grouped_interval(samples.block_medians_ms, confidence)
    return replace(found, low=max(found.low, 0.0)) if math.isfinite(found.low) else found


def p95_interval(samples: Samples, confidence: float, seed: int = 0) -> Interval:
    """The 95th percentile of all runs. Processes are drawn, then blocks of each: runs of one block are not independent
    of each other."""
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
