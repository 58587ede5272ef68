"""What every target offers: a name, a description, and runners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.targets.client import Runner
    from hasten.targets.load import Load


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a runner may take for one answer beyond the time it was given, and how much memory it may take."""

    answer_seconds: float = 120.0
    memory_mb: int = 0
    """0: three quarters of the memory of the machine that hasten itself runs on."""


class Target(Protocol):
    """A place where runners run."""

    @property
    def name(self) -> str:
        """What a user calls it with --target."""
        ...

    def start(self, plan: Plan) -> Runner:
        """Start a fresh runner for a plan. Trouble comes out as RunnerFailed."""
        ...

    def start_load(self, kind: str, workers: int) -> Load:
        """Start work beside the runners (`compute` or `memory`), a process for each of so many cores.

        Trouble comes out as RunnerFailed, and so does a place that cannot do it.
        """
        ...
