"""A latency with everything that belongs to it: the plan asked for, the plan in effect, samples, start-up, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hasten.core import doubts
from hasten.core.codec import from_data, key, record
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark, remark
from hasten.core.samples import Samples

_CORES_TOO_MANY: Final = 0.25


@record
class Model:
    """A model file, known by its content."""

    path: str
    size_bytes: int
    sha256: str


@record
class Effective:
    """What the engine really did with a plan, as far as it can be seen from outside."""

    accelerator: str
    threads: int | None
    """None where the engine's threads cannot be told apart."""
    api: str
    zero_copy: bool
    fully_accelerated: bool | None
    """Whether the accelerator asked for (or XNNPACK, on the CPU) took every operator."""


@record
class Start:
    """From the file to the first result, in the fresh process of one round."""

    round: int
    init_ms: float
    first_run_ms: float


@record
class Burst:
    """Runners of one candidate that ran side by side, as many as keep all cores busy: the runs of each, and the time
    that they took."""

    round: int
    runs: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """Results for each second, of all runners together."""
        return sum(runs / seconds for runs, seconds in zip(self.runs, self.seconds, strict=True) if seconds > 0)


@record
class Measurement:
    """The latency of one model with one plan."""

    model: Model
    plan: Plan
    workload: Workload
    effective: Effective
    samples: Samples
    init_ms: float
    first_run_ms: float
    warm_up_runs: int
    peak_memory_mb: float | None
    other_doubts: tuple[Remark, ...] = key("doubts", default=())
    starts: tuple[Start, ...] = ()
    """Of each round; sessions of earlier releases have the medians only."""
    bursts: tuple[Burst, ...] = ()
    """Only where throughput was asked for."""
    inputs: str = ""
    """The data that it ran on; empty for seeded inputs."""

    @property
    def doubts(self) -> list[Remark]:
        """Every reason to doubt this number."""
        return [*self.other_doubts, *self._more_cores(), *self.samples.doubts()]

    def _more_cores(self) -> list[Remark]:
        """Back ends that bring threads of their own do not always keep to the number that was asked for."""
        busy = self.samples.cores_busy
        if busy <= self.plan.threads + _CORES_TOO_MANY:
            return []
        return [remark(doubts.MORE_CORES, cores=busy, threads=self.plan.threads)]


def effective_doubts(plan: Plan, effective: Effective) -> list[Remark]:
    """Doubts from what was asked for against what the engine did."""
    found = []
    if not plan.runs_on_cpu and effective.fully_accelerated is False:
        found.append(remark(doubts.PARTIAL, asked="delegate" if plan.delegate else plan.accelerator.upper()))
    if effective.threads is not None and effective.threads != plan.threads and plan.accelerator == "cpu":
        found.append(remark(doubts.FALLBACK, asked=plan.threads, seen=effective.threads))
    return found


def measurement_from_data(data: dict[str, Any]) -> Measurement:
    """A measurement of a session. Next to a load on purpose, every run counts, wherever the figure is shown."""
    found = from_data(Measurement, data)
    return replace(found, samples=replace(found.samples, every_run=True)) if data.get("load_workers") else found
