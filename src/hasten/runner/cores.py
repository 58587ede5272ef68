"""The cores of the machine: which differ in strength (big and little), and how a process is kept to some of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from hasten.core.cores import cores_text
from hasten.core.errors import UsageError

_CPU: Final = Path("/sys/devices/system/cpu")
# What the kernel says of a core, the better word first: its capacity (Arm, and x86 from Linux 6.12), its top clock.
_WITNESSES: Final = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
# Cores of one kind can differ by a few percent: chips favour their best ones, and capacities are measured.
_ALIKE: Final = 0.10


def describe_clusters(root: Path = _CPU) -> list[dict[str, Any]]:
    """Groups of like cores among those that this process may use, the strongest first; one group if all are alike."""
    usable = sorted(usable_core_numbers())
    strengths = _strengths(root, usable)
    clusters: list[tuple[float, list[int]]] = []
    for core in sorted(usable, key=lambda core: (-strengths[core], core)):
        if clusters and strengths[core] >= clusters[-1][0] * (1 - _ALIKE):
            clusters[-1][1].append(core)
        else:
            clusters.append((strengths[core], [core]))
    strongest = clusters[0][0]
    return [{"cores": sorted(cores), "strength": round(strength / strongest, 3)} for strength, cores in clusters]


def usable_core_numbers() -> set[int]:
    """The cores that this process may use, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def keep_to_cores(cores: tuple[int, ...]) -> None:
    """Let this process, and the threads that it starts from now on, use these cores only."""
    if not cores:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("this system cannot keep a process to some cores", "Leave out cores=….")
    if missing := set(cores) - usable_core_numbers():
        raise UsageError(
            f"there is no core {cores_text(missing)} to use here",
            f"The cores that can be used are {cores_text(usable_core_numbers())}.",
        )
    os.sched_setaffinity(0, cores)


def _strengths(root: Path, cores: list[int]) -> dict[int, float]:
    """A figure for each core, comparable within the machine; all alike where the kernel does not tell of each."""
    for witness in _WITNESSES:
        told = {core: _number(root / f"cpu{core}" / witness) for core in cores}
        if all(value > 0 for value in told.values()):
            return told
    return dict.fromkeys(cores, 1.0)


def _number(path: Path) -> float:
    try:
        return float(path.read_text().strip())
    except (OSError, ValueError):
        return 0.0
