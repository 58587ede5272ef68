"""Options of every measurement: time, target, progress, session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.core.checks import FROM_ZERO, check_callable, check_number
from hasten.core.errors import UsageError
from hasten.core.session import keep_nothing
from hasten.measure.rounds import no_progress
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from hasten.core.session import Keep
    from hasten.measure.rounds import Progress
    from hasten.measure.schedule import Clock
    from hasten.targets.base import Target


@dataclass(frozen=True, slots=True)
class Effort:
    """Defaults: usual duration, local machine, no progress output."""

    seconds: float = 0.0
    """About how long to measure; 0 for what is usual."""
    on: Target | None = None
    """The device; None for this machine."""
    progress: Progress = no_progress
    keep: Keep = keep_nothing
    """What saves each trial as it ends: kind, label, data."""
    clock: Clock | None = None
    """What tells the time; None for the machine's own clock."""

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, FROM_ZERO)
        if self.on is not None and not hasattr(self.on, "start"):
            raise UsageError(
                f"The value of on must be a target, not {self.on!r}.", "Leave it out to measure on this machine."
            )
        check_callable("progress", self.progress)
        check_callable("keep", self.keep)

    @property
    def target(self) -> Target:
        """Where to measure."""
        return self.on or LocalTarget()

    def seconds_or(self, usual: float) -> float:
        """How long to measure."""
        return self.seconds or usual
