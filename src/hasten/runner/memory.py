"""How much memory a program may use here: that of the machine, or the limit of the container that it runs in."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """The limit that a group of processes has, and what it has left; as large as numbers are where there is none."""

    limit_bytes: int = sys.maxsize
    free_bytes: int = sys.maxsize


def memory_bytes() -> int:
    """The memory that programs can have here, 0 where the system does not report it."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    return min(machine, container_memory().limit_bytes)


def container_memory(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> ContainerMemory:
    """The tightest limit among the control groups, of version 1 or 2, that this process is in."""
    found = ContainerMemory()
    with contextlib.suppress(OSError, ValueError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                root, names = groups, ("memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                root = groups / "memory"
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            else:
                continue
            # Inside a container, the path may be the host's; its own group is then the root.
            inner = root / path.lstrip("/")
            for folder in (inner, *inner.parents):
                if folder.is_relative_to(root):
                    found = _tighter(found, folder, *names)
    return found


def _tighter(
    known: ContainerMemory, folder: Path, limit_name: str, used_name: str, unused_name: str
) -> ContainerMemory:
    limit = _number(folder / limit_name)
    if limit is None:
        return known
    # Cached files count as used, and the kernel gives them up when memory is wanted.
    used = (_number(folder / used_name) or 0) - _statistic(folder / "memory.stat", unused_name)
    return ContainerMemory(min(known.limit_bytes, limit), min(known.free_bytes, max(0, limit - used)))


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file, or no limit."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _statistic(path: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name and value.isdigit():
                return int(value)
    return 0
