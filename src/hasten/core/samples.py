"""All timed blocks of one model and plan, and statistics of them."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core import doubts
from hasten.core.block import Block, cores_of_others, slowed_share
from hasten.core.levels import exponential, latency_of, place, undisturbed
from hasten.core.machine import HELD_BACK, held_back_names
from hasten.core.remark import Remark, remark
from hasten.core.statistics import Interval, grouped_interval, mean_interval, outlier_share, relative_spread, trend

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Where a doubt begins. Each is about twice what a quiet machine shows, so that a doubt means something.
_NOISY_HALF_WIDTH: Final = 0.03
BUSY_CORES: Final = 0.25
_STOLEN_SHARE: Final = 0.02
_SLOWED_SHARE: Final = 0.25
_FREQUENCY_SPREAD: Final = 0.05
_THROTTLING_RISE: Final = 0.08
_THROTTLING_DEGREES: Final = 5.0
_FEWEST_SAMPLES: Final = 30
# A run is disturbed if it exceeds the quickest tenth of all runs by more than _DISTURBED. Where that many runs are, the
# quickest few tell: float and int8 of a small model took 0.270 and 0.369 ms on a free core, within 1 %, and 0.44 and
# 0.46 ms for nine tenths of the time.
_QUICK_SHARE: Final = 0.10
_DISTURBED: Final = 0.15
MANY_DISTURBED: Final = 0.25
_PEAK_SHARE: Final = 0.02
_PEAK_WIDTH: Final = 0.05
_FEWEST_IN_PEAK: Final = 2
_FEWEST_FOR_A_PEAK: Final = 20
_DISTURBED_SHARE: Final = 0.15
_OUTLIER_SHARE: Final = 0.05
# Where runs are alike within a percent, one that takes a few percent more is no outlier that anybody would notice.
_FAR_SLOWER: Final = 1.5
# Who loses a core waits for a time slice of others. What delays a run for less is an interrupt, or the run itself.
_SHORTEST_WAIT: Final = 0.5e-3
_PROCESS_SPREAD: Final = 0.05
# A latency below this number of clock steps is mostly rounding.
_CLOCK_STEPS: Final = 20
_FINEST_MS: Final = 1e-6
_HELD_BACK_NOW: Final = (1 << len(HELD_BACK)) - 1


@dataclass(frozen=True)
class Samples:
    """Raw times, kept as they were taken. Every figure below is derived from them, never stored instead."""

    blocks: tuple[Block, ...]
    timer_step_ns: int = 0
    scale: float = 1.0
    """Factor on all times: candidates that were timed in different rounds are shown as if in the same (`beside`)."""
    every_run: bool = False
    """Whether disturbed runs and rounds count, too: next to a load on purpose, disturbance is what is measured."""

    def __post_init__(self) -> None:
        # A damaged session may hold nothing in the place of a block.
        if None in self.blocks or not any(len(block.nanoseconds) for block in self.blocks):
            raise ValueError("samples without a single timed run")

    @cached_property
    def milliseconds(self) -> NDArray[np.float64]:
        """All times, in the order in which they were taken."""
        return np.concatenate([self._times(block) for block in self.blocks])

    def _times(self, block: Block) -> NDArray[np.float64]:
        return np.asarray(block.nanoseconds, dtype=np.float64) / 1e6 * self.scale

    def beside(self, base: Samples) -> Samples:
        """These samples, scaled by how the base did in the rounds that both were in.

        The ratio of the two latencies is then the mean of the ratios within those rounds.
        """
        at = self._place(base)
        if self is base or not math.isfinite(at):
            return self
        return replace(self, scale=self.scale * math.exp(at) / self.median_ms)

    def _place(self, base: Samples) -> float:
        if not self.every_run:
            return place(self.levels, base.levels)
        above = [level - base.levels[number] for number, level in self.levels.items() if number in base.levels]
        return math.log(base.median_ms) + fmean(above) if above else math.inf

    @cached_property
    def undisturbed_below_ms(self) -> float:
        """Runs that took longer were disturbed: something else had the core, or its neighbor on the chip.

        On a quiet machine nearly no run is that far above the quickest tenth, and the latency is the plain median. On a
        shared one a run can take twice its time for seconds on end, and the plain median is then a matter of luck.
        """
        if self.every_run:
            return math.inf
        return undisturbed_below(self.milliseconds)

    @property
    def disturbed_share(self) -> float:
        """The share of runs that were disturbed. They count in p95 and in the plain median, not in the latency."""
        return float(np.mean(self.milliseconds > self.undisturbed_below_ms))

    @property
    def processes(self) -> int:
        """In how many fresh processes they were taken."""
        return len({block.runner for block in self.blocks})

    @property
    def plain_median_ms(self) -> float:
        """The median of all runs, disturbed or not."""
        return float(np.median(self.milliseconds))

    @cached_property
    def block_medians_ms(self) -> list[list[float]]:
        """The median of each block's undisturbed runs, a list for each process that had any."""
        groups: dict[int, list[float]] = {}
        for block in self.blocks:
            times = self._times(block)
            if len(quiet := times[times <= self.undisturbed_below_ms]):
                groups.setdefault(block.runner, []).append(float(np.median(quiet)))
        return list(groups.values())

    @cached_property
    def levels(self) -> dict[int, float]:
        """Round → logarithm of the median of its undisturbed runs.

        A run that is shorter than a step of the clock is seen as none or as a whole step: then only the mean tells.
        """
        rounds: dict[int, list[NDArray[np.float64]]] = {}
        for block in self.blocks:
            if len(block.nanoseconds):
                rounds.setdefault(block.runner, []).append(self._times(block))
        return {number: math.log(max(self._level_ms(blocks), _FINEST_MS)) for number, blocks in rounds.items()}

    def _level_ms(self, blocks: list[NDArray[np.float64]]) -> float:
        below = math.inf if self.every_run else undisturbed_below(np.concatenate(blocks))
        near = [times[times <= below] for times in blocks]
        level = float(np.median([np.median(times) for times in near if len(times)]))
        if level * 1e6 > self.timer_step_ns * self.scale:
            return level
        return float(np.concatenate(blocks).mean())

    @property
    def counted(self) -> int:
        """How many rounds the latency stands on."""
        return len(self.levels if self.every_run else undisturbed(self.levels))

    @cached_property
    def latency(self) -> Interval:
        """The median latency of undisturbed runs in milliseconds, with its 95 % interval."""
        return self.latency_with(0.95)

    def latency_with(self, confidence: float) -> Interval:
        """The latency with an interval of another confidence."""
        found = self._of_every_round(confidence) if self.every_run else latency_of(self.levels, confidence=confidence)
        if found is None or self.counted < 2:  # one process: its blocks are all there is to go by for the interval
            blocks = grouped_interval(self.block_medians_ms, confidence)
            estimate = blocks.estimate if found is None else found.estimate
            shift = estimate - blocks.estimate
            found = Interval(estimate, blocks.low + shift, blocks.high + shift)
        # Few that differ a lot make an interval so wide that it would reach below no time at all.
        return replace(found, low=max(found.low, 0.0)) if math.isfinite(found.low) else found

    def _of_every_round(self, confidence: float) -> Interval:
        level = mean_interval(list(self.levels.values()), confidence)
        return Interval(exponential(level.estimate), exponential(level.low), exponential(level.high))

    @property
    def median_ms(self) -> float:
        """The median latency."""
        return self.latency.estimate

    @property
    def p95_ms(self) -> float:
        """95th percentile of all runs."""
        return float(np.quantile(self.milliseconds, 0.95))

    @property
    def min_ms(self) -> float:
        """The quickest run."""
        return float(self.milliseconds.min())

    @property
    def count(self) -> int:
        """How many runs were timed."""
        return len(self.milliseconds)

    @property
    def cpu_ms(self) -> float:
        """CPU time of one run, over all threads: the median of blocks."""
        return float(np.median([_cpu_seconds_a_run(block) for block in self.blocks if len(block.nanoseconds)])) * 1e3

    @property
    def cores_busy(self) -> float:
        """How many cores the runs kept busy: CPU time over wall time."""
        wall = sum(block.conditions.wall_seconds for block in self.blocks)
        return sum(block.conditions.cpu_seconds for block in self.blocks) / wall if wall else 0.0

    @property
    def joules(self) -> float | None:
        """Energy of one run, where the machine has a counter."""
        values = [block.conditions.joules for block in self.blocks]
        known = [value for value in values if value is not None]
        return sum(known) / self.count if len(known) == len(values) else None

    @property
    def millijoules(self) -> dict[int, float]:
        """Round → energy of one run there; only rounds whose blocks all have a reading of the counter."""
        rounds: dict[int, list[Block]] = {}
        for block in self.blocks:
            rounds.setdefault(block.runner, []).append(block)
        found = {}
        for number, blocks in rounds.items():
            readings = [block.conditions.joules for block in blocks]
            runs = sum(len(block.nanoseconds) for block in blocks)
            known = [reading for reading in readings if reading is not None]
            if runs and len(known) == len(readings):
                found[number] = 1e3 * sum(known) / runs
        return found

    def doubts(self) -> list[Remark]:
        """Every reason to doubt the latency that the samples themselves show."""
        found = [
            self._few(),
            self._noisy(),
            self._disturbed(),
            self._outliers(),
            self._processes(),
            self._single(),
            self._coarse(),
            self._backwards(),
            *self._surroundings(),
        ]
        return [doubt for doubt in found if doubt is not None]

    def _few(self) -> Remark | None:
        if self.count >= _FEWEST_SAMPLES:
            return None
        return remark(doubts.FEW_SAMPLES, runs=self.count)

    def _noisy(self) -> Remark | None:
        width = self.latency.relative_half_width
        if width <= _NOISY_HALF_WIDTH:
            return None
        if not math.isfinite(width):
            return remark(doubts.NOISY)
        return remark(doubts.NOISY, half_width=width)

    def _disturbed(self) -> Remark | None:
        share = self.disturbed_share
        if share <= _DISTURBED_SHARE:
            return None
        others = self.milliseconds[self.milliseconds > self.undisturbed_below_ms]
        more = float(np.median(others)) / self.median_ms - 1 if self.median_ms else 0.0
        return remark(doubts.DISTURBED, share=share, slowdown=more)

    def _outliers(self) -> Remark | None:
        share = outlier_share(self.milliseconds, least=_FAR_SLOWER * self.plain_median_ms)
        if share <= _OUTLIER_SHARE:
            return None
        return remark(doubts.OUTLIERS, share=share)

    def _processes(self) -> Remark | None:
        medians = [float(np.median(group)) for group in self.block_medians_ms]
        spread = max(medians) / min(medians) - 1 if min(medians) else 0.0
        inside = float(np.median([relative_spread(group) for group in self.block_medians_ms]))
        if len(medians) < 2 or spread <= max(_PROCESS_SPREAD, 3 * inside):
            return None
        return remark(doubts.PROCESSES_DIFFER, spread=spread)

    def _single(self) -> Remark | None:
        known = math.isfinite(self.latency.high)  # else the doubt is that there is no interval at all
        if self.counted > 1 or not known:
            return None
        return remark(doubts.ONE_PROCESS, **({"processes": self.processes} if self.processes > 1 else {}))

    def _coarse(self) -> Remark | None:
        if self.median_ms * 1e6 >= _CLOCK_STEPS * self.timer_step_ns:
            return None
        return remark(doubts.COARSE_TIMER, run_ns=self.median_ms * 1e6, step_ns=self.timer_step_ns)

    def _backwards(self) -> Remark | None:
        runs = sum(block.conditions.clock_backwards or 0 for block in self.blocks)
        return remark(doubts.CLOCK_BACKWARDS, runs=runs) if runs else None

    def _surroundings(self) -> list[Remark | None]:
        conditions = [block.conditions for block in self.blocks]
        stolen = _known(item.stolen_share for item in conditions)
        clocks = _known(item.frequency_mhz for item in conditions)
        held = [item.held_back for item in conditions if item.held_back]
        return [
            _busy_doubt(cores_of_others(self.blocks)),
            _stolen_doubt(stolen),
            self._slowed_cores(),
            _clock_doubt(clocks),
            self._throttling(),
            _held_back_doubt(held),
        ]

    def _slowed_cores(self) -> Remark | None:
        share = slowed_share(self.blocks)
        return remark(doubts.SLOWED_CORES, share=share) if share > _SLOWED_SHARE else None

    def _throttling(self) -> Remark | None:
        """A rise over the measurement, and a sign of heat: warmer, or a slower clock. A rise alone is just noise."""
        medians = [float(np.median(block.nanoseconds)) for block in self.blocks]
        rise = trend(medians)
        heat = _known(block.conditions.temperature_c for block in self.blocks)
        clocks = _known(block.conditions.frequency_mhz for block in self.blocks)
        warmer = len(heat) >= 3 and heat[-1] - heat[0] >= _THROTTLING_DEGREES
        slower = trend(clocks) <= -_FREQUENCY_SPREAD
        if rise <= _THROTTLING_RISE or not (warmer or slower):
            return None
        return remark(doubts.THROTTLING, rise=rise, warmer=warmer)


def undisturbed_below(milliseconds: NDArray[np.float64]) -> float:
    """Up to here a run is undisturbed: near the quickest tenth, or within a peak at the very quickest.

    A neighbor on the same physical core slows one model by 1.6 and another by 1.2: runs next to it say nothing about
    their ratio on a core of their own. Runs without it are alike within a few percent: a sharp peak below all others,
    however few they are. Times that merely vary have fewer runs at their quick end, not more.
    """
    tenth = float(np.quantile(milliseconds, _QUICK_SHARE))
    near = tenth * (1 + _DISTURBED)
    if len(milliseconds) < _FEWEST_FOR_A_PEAK:
        return near
    # Not by one or two runs alone, which a clock that jumps makes as short as it likes.
    share = max(_PEAK_SHARE, _FEWEST_IN_PEAK / len(milliseconds))
    peak = float(np.quantile(milliseconds, share)) * (1 + _PEAK_WIDTH)
    crowded = tenth > peak or np.mean(milliseconds > near) >= MANY_DISTURBED
    if not crowded:
        return near
    inside = np.count_nonzero(milliseconds <= peak)
    above = np.count_nonzero(milliseconds <= peak * (1 + _PEAK_WIDTH)) - inside
    return peak if inside > 2 * above else near


def _cpu_seconds_a_run(block: Block) -> float:
    """The cores that a block kept busy, for the time of a usual run.

    CPU time over the number of runs would count what lies between runs, which next to runs of some microseconds is as
    long as they are.
    """
    times = np.asarray(block.nanoseconds, dtype=np.float64) / 1e9
    usual = float(np.median(times))
    longer = times - usual
    active = block.conditions.wall_seconds - float(longer[longer > _SHORTEST_WAIT].sum())
    cpu = block.conditions.cpu_seconds
    return usual * cpu / active if active > 0 else cpu / len(times)


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


def _busy_doubt(cores: float) -> Remark | None:
    return remark(doubts.OTHER_LOAD, cores=cores) if cores > BUSY_CORES else None


def _stolen_doubt(stolen: list[float]) -> Remark | None:
    if not stolen or float(np.mean(stolen)) <= _STOLEN_SHARE:
        return None
    return remark(doubts.STOLEN_TIME, share=float(np.mean(stolen)))


def _held_back_doubt(bits: list[int]) -> Remark | None:
    """What the board says of the time of the measurement; what was earlier did not touch it."""
    causes = held_back_names(reduce(operator.or_, bits, 0) & _HELD_BACK_NOW)
    return remark(doubts.HELD_BACK, causes=list(causes)) if causes else None


def _clock_doubt(clocks: list[float]) -> Remark | None:
    if len(clocks) < 3 or relative_spread(clocks) <= _FREQUENCY_SPREAD:
        return None
    return remark(doubts.FREQUENCY_CHANGE, low=min(clocks), high=max(clocks))
