"""A device as its own runner describes it. Nothing in this record comes from the machine that hasten itself runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hasten.core.codec import to_data


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores of one kind."""

    cores: tuple[int, ...]
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
    stand_ins: dict[str, str] = field(default_factory=dict)
    """What runs in place of an accelerator that this machine does not have, by the accelerator's name."""
    vendors: tuple[Vendor, ...] = ()


def machine_facts(machine: Machine) -> dict[str, Any]:
    """The facts that a session keeps next to its results."""
    facts = to_data(machine)
    del facts["vendors"]
    return {**facts, "litert": facts.pop("engine")}
