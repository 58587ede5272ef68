"""Blocks of timed runs with the conditions that they ran under, and profiled runs: the raw material of every number."""

from __future__ import annotations

import math
import reprlib
from array import array
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Conditions:
    """What else was going on while a block ran. None: this machine does not tell."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    other_cores_busy: float | None = None
    """How many cores of the machine other processes kept busy meanwhile. Counted in whole ticks: a block can show less
    than none, and only the mean over many tells (`cores_of_others`)."""
    stolen_share: float | None = None
    """The share of the time in which our cores had work that the hypervisor gave to somebody else."""
    involuntary_switches: int | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    joules: float | None = None
    cores: int | None = None
    """How many cores the machine has."""
    usable_cores: int | None = None
    """How many of them this process may use: those of its plan, or of its container."""
    usable_cores_busy: float | None = None
    """How many of the usable ones other processes kept busy, as coarse as `other_cores_busy`."""
    held_back: int | None = None
    """Why the board held its clock back at the end of the block: bits of `machine.HELD_BACK`."""
    clock_backwards: int | None = None
    """How many runs ended before they began, by the clock. They are not among the block's runs."""
    quickest_core_us: float | None = None
    """What a small piece of work took on the quickest of the usable cores just before the block."""
    slowest_core_us: float | None = None
    """The same on the slowest one."""


@dataclass(frozen=True, slots=True)
class Block:
    """Runs timed in one process: one after the other, or in turns with other candidates."""

    runner: int
    """Which fresh process of this plan: memory lies elsewhere in each, and that alone can shift a latency."""
    at_seconds: float
    """When it began, on the measuring side's clock."""
    nanoseconds: array[int]
    conditions: Conditions = Conditions()


# Work takes 1.5 to 1.9 times as long on a core whose second hardware thread (SMT) is busy, else the same within 5 %.
_SLOWED: Final = 1.25


def is_slowed(conditions: Conditions, quickest_us: float) -> bool:
    """Whether a core was slower than cores of this machine are known to be: it is shared."""
    slowest = conditions.slowest_core_us
    return slowest is not None and slowest > _SLOWED * quickest_us


def quickest_core_us(conditions: Iterable[Conditions]) -> float:
    """What the work took on the quickest core at the best of times; infinite if nobody knows."""
    return min((item.quickest_core_us for item in conditions if item.quickest_core_us is not None), default=math.inf)


def slowed_share(blocks: Sequence[Block]) -> float:
    """The share of blocks before which a core was slowed."""
    quickest = quickest_core_us(block.conditions for block in blocks)
    return sum(is_slowed(block.conditions, quickest) for block in blocks) / len(blocks)


def cores_of_others(blocks: Iterable[Block]) -> float:
    """How many cores other programs kept busy, on average over the time of these blocks; 0 if it is not known."""
    return _mean_over_time((block.conditions, block.conditions.other_cores_busy) for block in blocks)


def usable_cores_of_others(blocks: Iterable[Block]) -> float:
    """The same of the cores that the process could use; of all cores where an older release measured."""
    found = [block.conditions for block in blocks]
    return _mean_over_time(
        (item, item.other_cores_busy if item.usable_cores_busy is None else item.usable_cores_busy) for item in found
    )


def _mean_over_time(values: Iterable[tuple[Conditions, float | None]]) -> float:
    told = [(item.wall_seconds, value) for item, value in values if value is not None]
    wall = sum(seconds for seconds, _ in told)
    return max(0.0, sum(value * seconds for seconds, value in told) / wall) if wall else 0.0


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Something the engine timed: the invocation itself, an operator of the graph, or a kernel inside a delegate."""

    kind: str
    tag: str
    index: int
    """The node's index in the graph for an operator, the position inside its partition for a kernel."""
    subgraph: int
    """The subgraph that an operator belongs to; bodies of loops and branches run inside an operator of another."""
    start_us: int
    """Zero for kernels: a delegate hands in durations only."""
    elapsed_us: int


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One profiled run: its whole time, and the engine's events in their order."""

    total_us: float
    events: tuple[RawEvent, ...]


def _block_data(block: Block) -> dict[str, Any]:
    """The block with what is known of its conditions only: a session holds thousands of them."""
    conditions = {item.name: getattr(block.conditions, item.name) for item in fields(Conditions)}
    return {
        "runner": block.runner,
        "at_seconds": round(block.at_seconds, 3),
        "nanoseconds": list(block.nanoseconds),
        "conditions": {name: value for name, value in conditions.items() if value is not None},
    }


def _block_from_data(data: dict[str, Any]) -> Block:
    conditions = data["conditions"]
    for number in (data["runner"], data["at_seconds"], *conditions.values()):
        if not isinstance(number, int | float):
            raise ValueError(f"a block of runs holds {reprlib.repr(number)} in place of a number")
    # A later release may know more of the conditions.
    known = {item.name: conditions[item.name] for item in fields(Conditions) if item.name in conditions}
    return Block(data["runner"], data["at_seconds"], array("q", data["nanoseconds"]), Conditions(**known))


convert(Block, _block_data, _block_from_data)
