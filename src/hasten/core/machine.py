"""A device as its own runner describes it. Nothing in this record comes from the machine that hasten itself runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hasten.core.codec import to_data

UNDER_VOLTAGE: Final = "under-voltage"
HELD_BACK: Final = (UNDER_VOLTAGE, "frequency-capped", "throttled", "soft-temperature-limit")
"""Why a board holds its clock back, as bits from the lowest on: a Raspberry Pi's firmware has them in this order."""
EARLIER: Final = "-earlier"
"""Behind a name: since the board's start, but not now. Its bit is 16 places higher."""
_EARLIER_BITS: Final = 16


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores of one kind."""

    cores: tuple[int, ...]
    """Logical cores in ascending order, those last that share a physical core with an earlier one."""
    strength: float = 1.0
    """Relative to the strongest cluster of the machine."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's NPU libraries inside the installed LiteRT package, by file name."""

    name: str
    compiler: str
    dispatch: str = ""
    """Empty where the package has a compiler plugin and nothing that runs what it compiles."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What stays the same from run to run and belongs next to every result. None: the system does not report it."""

    system: str
    release: str
    architecture: str
    python: str
    cpu: str
    cores: int
    """The cores that a runner may use; in a container these can be fewer than the machine has."""
    memory_mb: int
    engine: str = ""
    """The release of LiteRT."""
    platform: str = ""
    clusters: tuple[Cluster, ...] = ()
    """The usable cores by strength, strongest first; a single cluster if all are alike."""
    instructions: tuple[str, ...] = ()
    """Instruction set extensions that decide which kernels the engine picks."""
    governor: str | None = None
    turbo: bool | None = None
    hypervisor: bool = False
    energy_counter: bool = False
    timer_ns: int = 0
    """The smallest step of the clock that times the runs."""
    load_average: float = 0.0
    free_memory_mb: int | None = None
    """What programs could still get when the machine was described."""
    stand_ins: dict[str, str] = field(default_factory=dict)
    """What runs in place of an accelerator that this machine does not have, by the accelerator's name."""
    vendors: tuple[Vendor, ...] = ()
    device: str = ""
    """The board's or computer's own name, where the system reports it."""
    temperature_c: float | None = None
    """That of its hottest sensor when it was described."""
    held_back: tuple[str, ...] | None = None
    """Why its firmware holds the clock back now, or did since its start (`EARLIER`)."""


def held_back_names(bits: int) -> tuple[str, ...]:
    """The reasons that a board gives in these bits, each once."""
    now = [name for place, name in enumerate(HELD_BACK) if bits >> place & 1]
    earlier = [name for place, name in enumerate(HELD_BACK) if bits >> (place + _EARLIER_BITS) & 1 and name not in now]
    return (*now, *(name + EARLIER for name in earlier))


def machine_facts(machine: Machine) -> dict[str, Any]:
    """The facts that a session keeps next to its results."""
    facts = to_data(machine)
    del facts["vendors"]
    return {**facts, "litert": facts.pop("engine")}
