"""How work that takes a while ends: with what it found, with a failure, or with what there was at Ctrl-C."""

from __future__ import annotations

from typing import Protocol, TypeVar

from hasten.core.errors import Interrupted
from hasten.core.failure import Failure, RunnerFailed

Found = TypeVar("Found", covariant=True)
Failed = TypeVar("Failed", covariant=True)


class Study(Protocol[Found, Failed]):
    """Work that can be asked at any time what it has found so far."""

    @property
    def has_answer(self) -> bool:
        """Whether there is something to give by now."""

    def run(self) -> Failed | None:
        """Do the work; what failed, where that leaves nothing to give."""

    def found(self, *, interrupted: bool = False) -> Found:
        """What there is by now."""


def outcome_of(study: Study[Found, Failed]) -> Found | Failed | Failure:
    """Run a study to its end. After Ctrl-C, what it has found comes as `Interrupted.found`."""
    try:
        failed = study.run()
    except RunnerFailed as error:
        return error.failure
    except KeyboardInterrupt:
        if not study.has_answer:
            raise
        raise Interrupted(study.found(interrupted=True)) from None
    return failed or study.found()
