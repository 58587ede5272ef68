"""How a study ends: with its answer, with a failure, or with what there was at Ctrl-C."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hasten.core.errors import Interrupted
from hasten.core.failure import Failure, RunnerFailed
from hasten.measure.study import outcome_of

FAILURE = Failure("run", "crash", "The runner ended.")


@dataclass
class Work:
    ends_with: BaseException | str | None = None
    has_answer: bool = True

    def run(self) -> str | None:
        if isinstance(self.ends_with, BaseException):
            raise self.ends_with
        return self.ends_with

    def found(self, *, interrupted: bool = False) -> tuple[str, bool]:
        return "found", interrupted


def test_a_study_ends_with_what_it_found_or_what_failed() -> None:
    assert outcome_of(Work()) == ("found", False)
    assert outcome_of(Work("failed")) == "failed"
    assert outcome_of(Work(RunnerFailed(FAILURE))) is FAILURE


def test_after_ctrl_c_there_is_what_was_found_if_anything() -> None:
    with pytest.raises(Interrupted) as interrupted:
        outcome_of(Work(KeyboardInterrupt()))
    assert interrupted.value.found == ("found", True)
    with pytest.raises(KeyboardInterrupt):
        outcome_of(Work(KeyboardInterrupt(), has_answer=False))
