"""A block of timed runs and the conditions that it ran under: the raw material of every number."""

from __future__ import annotations

from array import array

from hasten.core.codec import record


@record
class Conditions:
    """What else was going on while a block ran. None: this machine does not tell."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    other_cores_busy: float | None = None
    """How many cores other processes kept busy meanwhile."""
    stolen_share: float | None = None
    """The share of the time in which the hypervisor gave our cores to somebody else."""
    involuntary_switches: int | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    joules: float | None = None


@record
class Block:
    """Runs timed one after the other in one process."""

    runner: int
    """Which fresh process of this plan: memory lies elsewhere in each, and that alone can shift a latency."""
    at_seconds: float
    """When it began, on the measuring side's clock."""
    nanoseconds: array[int]
    conditions: Conditions = Conditions()
