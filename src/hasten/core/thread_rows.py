"""Records of a study of threads: an option (how many, on which cores), a condition (what runs beside), and a row."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.cores import cores_text
from hasten.core.doubts import Doubt, Reason
from hasten.core.statistics import Interval, relative_spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.measurement import Measurement

QUIET: Final = "quiet"
SITUATIONS: Final = {QUIET: "alone", "shared": "beside work on half of the cores", "busy": "beside work on all cores"}
"""What a user can name as the situation → the same in words."""
LOAD_KINDS: Final = {"compute": "computing", "memory": "copying memory"}
# A second thread that keeps less than this of a core busy does nothing.
_IDLE_THREAD: Final = 0.10
# With fewer cores free than this, a second thread has nowhere to show what it can do.
_CORES_TO_TELL: Final = 1.5
# Load that got less than this share of the cores it was to keep busy was not the load that the row speaks of.
_LEAST_LOAD: Final = 0.4


@dataclass(frozen=True, slots=True, order=True)
class Option:
    """A number of threads, and the cores that they are kept to (empty: all)."""

    threads: int
    cores: tuple[int, ...] = ()

    def describe(self) -> str:
        """The option as a person would say it."""
        where = f" on core{'s' if len(self.cores) > 1 else ''} {cores_text(self.cores)}" if self.cores else ""
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}{where}"

    def plan_text(self) -> str:
        """The option as plan text takes it."""
        return f"threads={self.threads}" + (f",cores={cores_text(self.cores)}" if self.cores else "")


@dataclass(frozen=True, slots=True)
class Condition:
    """What runs beside the model: a situation, and in it one kind of work on some cores."""

    situation: str
    kind: str = ""
    workers: int = 0

    def describe(self) -> str:
        """The condition as a person would say it."""
        if not self.workers:
            return SITUATIONS[QUIET]
        return f"beside {self.workers} core{'s' if self.workers > 1 else ''} {LOAD_KINDS[self.kind]}"


@dataclass(frozen=True, slots=True)
class Row:
    """An option measured under a condition."""

    option: Option
    condition: Condition
    latency: Interval
    p95_ms: float
    spread: float
    """How far the middle half of the runs is apart, as a share of their median."""
    cpu_seconds: float
    """CPU time of one run over all threads: what stands for energy where there is no counter."""
    cores_used: float
    """CPU time over wall time."""
    threads_seen: int | None
    joules: float | None
    """Energy of one run; only alone, as the counter is the whole chip's."""
    other_cores_busy: float | None
    rounds: int
    runs: int
    doubts: tuple[Doubt, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """The row with the keys that the command line promises, and more."""
        return {
            "threads": self.option.threads,
            "load": self.condition.situation,
            "median_ms": self.latency.estimate,
            "p95_ms": self.p95_ms,
            "cpu_seconds": self.cpu_seconds,
            "cores": list(self.option.cores),
            "load_kind": self.condition.kind or None,
            "load_workers": self.condition.workers,
            "ci95_ms": [self.latency.low, self.latency.high],
            "spread": self.spread,
            "cores_used": self.cores_used,
            "effective_threads": self.threads_seen,
            "energy_mj": None if self.joules is None else self.joules * 1e3,
            "other_cores_busy": self.other_cores_busy,
            "rounds": self.rounds,
            "samples": self.runs,
            "doubts": [doubt.as_data() for doubt in self.doubts],
        }


class Effect(enum.Enum):
    """Whether the thread setting did anything; the value is its name in JSON."""

    TAKEN = "taken"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class EffectOfOption:
    """Whether an option's threads did anything, and how that was seen."""

    option: Option
    effect: Effect
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """The effect as JSON can hold it."""
        return {
            "threads": self.option.threads,
            "cores": list(self.option.cores),
            "effect": self.effect.value,
            "evidence": self.evidence,
        }


def row_from_measurement(option: Option, condition: Condition, found: Measurement) -> Row:
    """The row of one option under one condition."""
    samples = found.samples
    conditions = [block.conditions for block in samples.blocks]
    wall = sum(item.wall_seconds for item in conditions)
    busy = [item.other_cores_busy for item in conditions if item.other_cores_busy is not None]
    others = float(np.mean(busy)) if busy else None
    return Row(
        option=option,
        condition=condition,
        latency=samples.latency,
        p95_ms=samples.p95_ms,
        spread=relative_spread(samples.milliseconds.tolist()),
        cpu_seconds=samples.cpu_ms / 1e3,
        cores_used=sum(item.cpu_seconds for item in conditions) / wall if wall else 0.0,
        threads_seen=found.effective.threads,
        joules=None if condition.workers else samples.joules,
        other_cores_busy=others,
        rounds=samples.processes,
        runs=samples.count,
        doubts=tuple(_doubts(condition, found.doubts, others)),
    )


def effects_of_options(rows: Sequence[Row], cores: int) -> list[EffectOfOption]:
    """For each option, whether its threads did anything: the threads seen, and CPU time over wall time, alone."""
    alone = sorted((row for row in rows if not row.condition.workers), key=lambda row: row.option)
    if not alone:
        return []
    return [_effect(row, alone[0], min(cores, len(row.option.cores) or cores)) for row in alone]


def _effect(row: Row, fewest: Row, cores: int) -> EffectOfOption:
    option, seen = row.option, row.threads_seen
    busy = f"{option.describe()} keep{'s' if option.threads == 1 else ''} {row.cores_used:.1f} cores busy"
    if option.threads == 1:
        return EffectOfOption(option, Effect.TAKEN, busy)
    if seen is not None and seen < option.threads:
        return EffectOfOption(option, Effect.NONE, f"{option.describe()} were asked for, {seen} seen in the process")
    if min(cores - (row.other_cores_busy or 0.0), option.threads) < _CORES_TO_TELL:
        why = "only one core can be used" if cores == 1 else f"others kept {row.other_cores_busy or 0.0:.1f} cores busy"
        return EffectOfOption(option, Effect.UNKNOWN, f"{why}, so that a second thread could show no effect")
    if row is not fewest and row.cores_used < fewest.cores_used + _IDLE_THREAD:
        cause = (
            "they were started and found nothing to do: the model is too small to be split"
            if seen is not None
            else "what runs this model uses one thread, whatever is set"
        )
        return EffectOfOption(option, Effect.NONE, f"{busy}, as fewer do; {cause}")
    return EffectOfOption(option, Effect.TAKEN, busy)


def _doubts(condition: Condition, doubts: Sequence[Doubt], others: float | None) -> list[Doubt]:
    """The measurement's doubts. Work beside it is none where it was asked for, but its absence is."""
    if not condition.workers:
        return list(doubts)
    kept = [doubt for doubt in doubts if doubt.reason is not Reason.OTHER_LOAD]
    if others is not None and others < _LEAST_LOAD * condition.workers:
        what = f"the work beside it kept {others:.1f} cores busy, not {condition.workers}"
        kept.append(Doubt(Reason.LOAD_MISSING, what))
    return kept
