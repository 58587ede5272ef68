"""What every target offers: a name, what it can do, its machine, staged files, runners, and load next to them.

Callers hand over paths of the host. What a request carries to a device is one of three things:
- a **staged file**: the model, and a plan's delegate and kernel libraries where those files exist on the host. `stage`
  brings it to the device by its SHA-256, each content once, and the request carries the path there;
- a **path on the device**: a plan's library that the host does not have, and a plan's cache folder (relative
  ones are relative to the runner's working folder);
- nothing: compiler plugins, dispatch libraries and drivers belong to the LiteRT package and the system of the device,
  and its runner finds them there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from hasten.core.failure import CONNECTION_LOST, RunnerFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan
    from hasten.targets.background_load import BackgroundLoad
    from hasten.targets.client import RunnerClient


T = TypeVar("T")
LOCAL, SSH = "local", "ssh"
"""How a target is reached."""
ATTEMPTS: Final = 3
"""How often something is tried that lost connections cut short."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a runner may take for an answer beyond the time it was given; its memory; the wait for its device."""

    answer_seconds: float = 120.0
    memory_mb: int = 0
    """0: three quarters of the device's memory."""
    wait_seconds: float = 0.0
    """How long to wait for a device that another session uses."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between targets and matters to callers."""

    host_paths: bool
    """The device sees the host's files, so that staging copies nothing."""
    shared_memory: bool
    """Large tensors need not pass through a pipe."""
    background_load: bool = True
    """`start_load` works."""


class Target(Protocol):
    """A place where runners run. All trouble comes out as RunnerFailed."""

    @property
    def name(self) -> str:
        """What a user calls it with --target."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def machine(self) -> Machine:
        """The device's description, asked for once."""

    def stage(self, path: Path) -> str:
        """Bring a file of the host to the device, unless it is there; its path on the device."""

    def start(self, plan: Plan) -> RunnerClient:
        """Start a fresh runner for a plan."""

    def start_load(self, kind: str, workers: int) -> BackgroundLoad:
        """Start work next to the runners (`compute` or `memory`): one process per worker, each filling a core."""

    def close(self) -> None:
        """Disconnect from the device. Each runner is closed by its own `with`."""


def with_connection(work: Callable[[], T]) -> T:
    """Do this, and once more from the beginning if the connection to the device was lost meanwhile."""
    attempt = 1
    while True:
        try:
            return work()
        except RunnerFailed as failed:
            if failed.failure.code != CONNECTION_LOST or attempt == ATTEMPTS:
                raise
        attempt += 1


def holder_words(holder: dict[str, Any]) -> str:
    """Who holds a device, and since when, as the end of a sentence."""
    who = f" ({holder['who']}" if holder.get("who") else ""
    since = _clock(holder["since"]) if holder.get("since") else ""
    return f"{who}, since {since})" if who and since else f"{who})" if who else ""


def _clock(seconds: Any) -> str:
    """The time of day, if that is a time: a device says what it likes."""
    try:
        return time.strftime("%H:%M", time.localtime(seconds))
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
