"""How each limit stands: kept, broken or undecided.

A figure that differs from process to process (a time, a ratio of times) is judged by its 99 % interval over at least
four processes: kept if the whole interval lies below the limit, broken if it lies above. The measuring side looks after
every round, hence 99 % and not 95 %. Slow models get fewer processes; there a verdict asks for a clear factor: every
run of two processes above 1.5 times the limit (or below the limit by that factor), or every run of one process by a
factor of 2, where there is no time for a second. Processes differ by a few percent, and a busy neighbor halves the
speed of a core at most. Once there is no time for another process, less is enough to fail, as the verdict is looked for
only once more: every run of two processes above 1.25 times the limit, of three or more above 1.1 times. Simulations in
the tests hold this to at most 5 % of wrong verdicts on either side.

Other programs that use the cores a model needs slow it down: then what is above the limit is undecided, unless the CPU
time of every run says the same by a clear factor. The same holds for a slowdown within the limit, where the programs
slow the baseline.

Sizes are exact. An accuracy is judged by its 95 % interval: the limit is for the model, not for the samples at hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy import is_share
from hasten.core.codec import to_data
from hasten.core.contention import busy_cores, is_contended
from hasten.core.floor import FloorState
from hasten.core.levels import exponential
from hasten.core.remark import Remark, remark
from hasten.core.statistics import Interval, grouped_interval, mean_interval, student_quantile
from hasten.evaluate.accuracy_limit import limit_state, samples_to_decide
from hasten.gate.facts import GateVerdict, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy, PairedAccuracy
    from hasten.core.floor import Floor
    from hasten.core.measurement import Measurement
    from hasten.core.samples import Samples

    Judgment = tuple[GateVerdict, Remark]

CONFIDENCE: Final = 0.99
FEWEST_PROCESSES: Final = 4
FEWEST_WHEN_CLEAR: Final = 2
# With fewer, more than one time in twenty no run reaches the true 95th percentile: 0.95 ** 59 < 0.05 < 0.95 ** 58.
FEWEST_RUNS_FOR_P95: Final = 59
# By which every run must be beyond the limit, by the number of processes.
CLEAR: Final = 1.5
_CLEAR_ALONE: Final = 2.0
# By which it must be above once no further process will come: even if processes differ by 10 %, one gate in 100 errs.
_ABOVE_OF_TWO: Final = 1.25
_ABOVE_OF_MORE: Final = 1.1
# What a cold disk adds to the first load has no such bound as a busy neighbor.
_CLEAR_WHEN_COLD: Final = 20.0
# Peaks of memory of one model differ by less.
_MEMORY_SPREAD: Final = 0.1
_SHOWN: Final = 0.95
_RESAMPLES: Final = 400
_NORMAL: Final = {0.95: 1.960, 0.99: 2.576}
_MOST_RUNS_A_BLOCK: Final = 100
# Reasons that more processes would remove: for these a gate goes on beyond its usual time.
LACKING: Final = ("gate.few-processes", "gate.few-runs")


@dataclass(frozen=True, slots=True)
class Contention:
    """Other programs on the cores that a model needed. They can only slow it down."""

    busy_cores: float
    """How many cores they used."""
    share: float
    """The part of the time in which the model ran on the cores that it asked for, and did not wait."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured against one limit."""

    interval: Interval
    """Over processes, with 99 % confidence."""
    least: float
    most: float
    """The range of all runs."""
    processes: int
    runs: int | None = None
    """How many runs there were, where a verdict depends on it."""
    contention: Contention | None = None
    """What other programs took from the model; None where there were cores enough for all."""
    baseline_contention: Contention | None = None
    """What they took from the baseline, where it needed more cores than the model: then the ratio is too low."""
    clear_alone: float = _CLEAR_ALONE
    """The factor beyond the limit by which one process may decide."""


_VERDICTS: Final = {
    FloorState.KEPT: GateVerdict.PASSED,
    FloorState.BROKEN: GateVerdict.FAILED,
    FloorState.UNDECIDED: GateVerdict.UNDECIDED,
}
_DROPS: Final = {
    FloorState.KEPT: "gate.drop-kept",
    FloorState.BROKEN: "gate.drop-worse",
    FloorState.UNDECIDED: "gate.drop-chance",
}


def exact_row(what: str, unit: str, measured: float, limit: float) -> Row:
    """A figure that is the same each time."""
    if measured <= limit:
        return Row(what, unit, measured, None, limit, GateVerdict.PASSED, remark("gate.exact"))
    why = remark("gate.exact-above", above=measured / limit - 1)
    return Row(what, unit, measured, None, limit, GateVerdict.FAILED, why)


def figure_row(row: Row, figure: Figure | None, fewest: int = FEWEST_WHEN_CLEAR) -> Row:
    """A row of what is limited, with what was measured; `fewest` processes may decide a clear case: one, as soon as
    there is no time for another."""
    if figure is None:
        return replace(row, why=remark("gate.not-measured"))
    verdict, why = _by_interval(figure, row.limit)
    clear = _clear(figure, row.limit, fewest) if verdict is GateVerdict.UNDECIDED else None
    if clear is not None:
        verdict, why = clear
    # What is shown is what was decided by.
    by_range = clear is not None or figure.processes < FEWEST_PROCESSES
    ends = (figure.least, figure.most) if by_range else (figure.interval.low, figure.interval.high)
    confidence, measured = None if by_range else CONFIDENCE, figure.interval.estimate
    return replace(row, measured=measured, interval=ends, verdict=verdict, why=why, confidence=confidence)


def limited(what: str, unit: str, limit: float, against: str = "") -> Row:
    """A limit of which nothing is known yet."""
    why = remark("gate.not-measured")
    return Row(what, unit, None, None, limit, GateVerdict.UNDECIDED, why, against=against)


def _clear(figure: Figure, limit: float, fewest: int) -> Judgment | None:
    """The verdict where every run is far from the limit; None where some are near."""
    if figure.processes < fewest:
        return None
    below = CLEAR if figure.processes >= FEWEST_WHEN_CLEAR else figure.clear_alone
    above = _above_at_the_end(figure.processes, below) if fewest == 1 and figure.contention is None else below
    if figure.least * (figure.contention.share if figure.contention else 1.0) > limit * above:
        facts = {"processes": figure.processes, "factor": above}
        return GateVerdict.FAILED, remark("gate.clearly-above", above=figure.interval.estimate / limit - 1, **facts)
    beside_load = figure.baseline_contention.share if figure.baseline_contention else 1.0
    if figure.most * below <= limit * beside_load and not _lacks_runs(figure):
        return GateVerdict.PASSED, remark("gate.clearly-below", processes=figure.processes, factor=below)
    return None


def _above_at_the_end(processes: int, alone: float) -> float:
    return alone if processes == 1 else _ABOVE_OF_TWO if processes == 2 else _ABOVE_OF_MORE


def _by_interval(figure: Figure, limit: float) -> Judgment:
    if figure.processes < FEWEST_PROCESSES:
        facts = {"processes": figure.processes, "needed": FEWEST_PROCESSES}
        return GateVerdict.UNDECIDED, remark("gate.few-processes", **facts)
    if figure.interval.low > limit and figure.contention is not None:
        return GateVerdict.UNDECIDED, remark("gate.contended", cores=figure.contention.busy_cores)
    if figure.interval.low > limit:
        return GateVerdict.FAILED, remark("gate.broken", above=figure.interval.estimate / limit - 1)
    if figure.interval.high > limit:
        return GateVerdict.UNDECIDED, remark("gate.undecided")
    if figure.baseline_contention is not None:
        return GateVerdict.UNDECIDED, remark("gate.baseline-contended", cores=figure.baseline_contention.busy_cores)
    if _lacks_runs(figure):
        return GateVerdict.UNDECIDED, remark("gate.few-runs", runs=figure.runs, needed=FEWEST_RUNS_FOR_P95)
    return GateVerdict.PASSED, remark("gate.kept")


def _lacks_runs(figure: Figure) -> bool:
    return figure.runs is not None and figure.runs < FEWEST_RUNS_FOR_P95


def memory_row(peaks_mb: Sequence[float], limit: float, fewest: int = FEWEST_WHEN_CLEAR) -> Row:
    """The peak memory of each process: kept if all are below the limit, broken if all are above."""
    if not peaks_mb:
        return replace(limited("memory", "MB", limit), why=remark("gate.no-peak"))
    low, high = min(peaks_mb), max(peaks_mb)
    processes = len(peaks_mb)
    spread = 0.0 if processes >= FEWEST_WHEN_CLEAR else _MEMORY_SPREAD
    if processes < fewest or (spread and low / (1 + spread) <= limit < high * (1 + spread)):
        verdict = GateVerdict.UNDECIDED
        why = remark("gate.few-processes", processes=processes, needed=FEWEST_WHEN_CLEAR)
    elif high <= limit:
        verdict, why = GateVerdict.PASSED, remark("gate.memory-kept")
    elif low > limit:
        verdict, why = GateVerdict.FAILED, remark("gate.memory-broken", above=high / limit - 1)
    else:
        above = sum(peak > limit for peak in peaks_mb)
        verdict, why = GateVerdict.UNDECIDED, remark("gate.memory-mixed", above=above, processes=processes)
    return Row("memory", "MB", high, (low, high), limit, verdict, why)


def accuracy_row(found: Accuracy, limit: float, *, counted: bool) -> Row:
    """The accuracy of the model, of which the data are a sample; `counted` where each sample is right or wrong."""
    verdict = _VERDICTS[limit_state(found, limit, counted=counted)]
    why = remark("gate.accuracy", metric=found.metric, samples=found.samples)
    if verdict is GateVerdict.UNDECIDED:
        needed = samples_to_decide(found, limit, counted=counted)
        why = remark("gate.accuracy-undecided", metric=found.metric, samples=found.samples, needed=needed)
    return Row(
        "accuracy",
        accuracy_unit(found.metric, counted=counted),
        found.value,
        (found.low, found.high),
        limit,
        verdict,
        why,
        at_least=found.higher_is_better,
        confidence=_SHOWN,
    )


def accuracy_unit(metric: str, *, counted: bool) -> str:
    """What an accuracy is counted in: a mae or a cosine between 0 and 1 is no share of anything."""
    return "share" if counted or is_share(metric) else "value"


def drop_row(baseline: str, found: PairedAccuracy, floor: Floor) -> Row:
    """The accuracy lost against the baseline: kept if the whole interval is allowed, broken if none of it is."""
    judged = floor.judge(found)
    verdict = _VERDICTS.get(judged.state, GateVerdict.UNDECIDED)
    why = remark(
        _DROPS.get(judged.state, "gate.drop-kept"),
        lost=found.lost,
        won=found.won,
        samples=found.samples,
        needed=judged.samples_needed,
        baseline=baseline,
        floor=to_data(floor),
    )
    return Row(
        "accuracy lost",
        floor.unit,
        judged.drop,
        judged.ci95,
        floor.allowed or 0.0,
        verdict,
        why,
        confidence=_SHOWN,
        against=baseline,
    )


def ratio_figure(log_ratios: Sequence[float]) -> Figure | None:
    """The latency against the baseline model's, from one log ratio for each round that both ran in."""
    if not log_ratios:
        return None
    found = _times(mean_interval(log_ratios, CONFIDENCE))
    return Figure(found, math.exp(min(log_ratios)), math.exp(max(log_ratios)), len(log_ratios))


def latency_figure(samples: Samples) -> Figure:
    """The latency as `bench` shows it, with Student's interval over processes.

    The latency leaves disturbed runs out, by the quickest of all processes. Where processes differ by much, that leaves
    slow ones out; the interval has all of them, each by its own quickest runs.
    """
    interval = _times(mean_interval(list(samples.levels.values()), CONFIDENCE))
    estimate = samples.median_ms
    ends = (min(estimate, interval.low), max(estimate, interval.high))
    return Figure(Interval(estimate, *ends), *time_range(samples), len(samples.levels))


def _times(logarithms: Interval) -> Interval:
    return Interval(*(exponential(end) for end in (logarithms.estimate, logarithms.low, logarithms.high)))


def p95_figure(samples: Samples) -> Figure:
    """The 95th percentile of all runs."""
    return Figure(p95_interval(samples, CONFIDENCE), *time_range(samples), samples.processes, samples.count)


def init_figure(times_ms: Sequence[float]) -> Figure | None:
    """The time to load the model: one for each process."""
    if not times_ms:
        return None
    found = grouped_interval([[time] for time in times_ms], CONFIDENCE)
    return Figure(found, min(times_ms), max(times_ms), len(times_ms), clear_alone=_CLEAR_WHEN_COLD)


def contention(found: Measurement) -> Contention | None:
    """What other programs took from a model."""
    if not found.plan.runs_on_cpu or not is_contended(found):
        return None
    told = [block.conditions for block in found.samples.blocks]
    asked_for = found.plan.threads * sum(item.wall_seconds for item in told)
    return Contention(busy_cores(found), min(1.0, sum(item.cpu_seconds for item in told) / asked_for))


def time_range(samples: Samples) -> tuple[float, float]:
    """The shortest and the longest run, in milliseconds."""
    return samples.min_ms, float(samples.milliseconds.max())


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
