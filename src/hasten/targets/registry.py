"""The targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.errors import UsageError
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from hasten.targets.base import Limits, Target


def target_named(name: str, limits: Limits | None = None) -> Target:
    """The target that a user names with --target."""
    if name != LocalTarget.name:
        raise UsageError(f"there is no target {name!r}", "hasten devices lists the targets within reach.")
    return LocalTarget(limits)


def targets_within_reach() -> list[Target]:
    """Every target that needs no further word to be used."""
    return [LocalTarget()]
