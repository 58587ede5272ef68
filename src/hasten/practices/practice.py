"""What a practice of the guide offers to the rest of hasten: phrases, a verdict for a tuning, sections of a report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hasten.core.comparison import Verdict, compare_levels
from hasten.core.contention import is_beyond_load
from hasten.core.finding import Finding, Standing
from hasten.core.goal import Goal
from hasten.core.remark import remark
from hasten.core.trial import NOTHING, Purpose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.phrases import Phrase
    from hasten.core.profile import Profile
    from hasten.core.remark import Remark
    from hasten.core.session import Line
    from hasten.core.trial import Step, Trial
    from hasten.show.blocks import Section


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a tuning knows when the verdicts are given."""

    trials: Sequence[Trial]
    best: Trial
    base: Trial
    steps: Sequence[Step] = ()
    confirmed: bool = False
    already: Remark = NOTHING
    """Why there is nothing to quantize, where the model is quantized already."""
    profiles: tuple[Profile | None, Profile | None] = (None, None)
    """Of the original and of the result."""
    given: Mapping[str, Finding] = field(default_factory=dict)
    """Findings of practices that ran in full, by practice."""
    goal: Goal = Goal.LATENCY
    limits: Mapping[Goal, float] = field(default_factory=dict)
    """What the choice had to keep."""

    @property
    def originals(self) -> list[Trial]:
        """The trials of the original, with whatever plan."""
        return [trial for trial in self.trials if trial.variant == self.base.variant]

    def on_same_plan(self, trial: Trial) -> Trial | None:
        """What a trial was made of, the original or a rewritten model, with its plan: what a variant is measured by."""
        source = trial.source or self.base.variant
        alike = [one for one in self.trials if one.variant == source and one.plan == trial.plan]
        return next((one for one in alike if one.latency is not None), None)

    def before_rewriting(self, trial: Trial) -> Trial:
        """The variant that was rewritten into this one, with the same plan; itself where none was."""
        while trial.purpose is Purpose.REWRITE and (source := self.on_same_plan(trial)) is not None:
            trial = source
        return trial

    def verdict_on(self, trial: Trial, than: Trial) -> Verdict:
        """Whether a trial is faster or slower than another, as far as the rounds that they were in can tell.

        A difference that no disturbance explains needs no more rounds; what other programs may have made is undecided.
        """
        if trial.id == than.id:
            return Verdict.SAME
        ratio = trial.median_ms / than.median_ms if than.median_ms else math.inf
        if is_beyond_load(ratio):
            return Verdict.SLOWER if ratio > 1 else Verdict.FASTER
        contended = any(one.against is not None and one.against.is_withheld for one in (trial, than))
        found = None if contended else compare_levels(than.levels, trial.levels, self.base.levels)
        return Verdict.UNDECIDED if found is None else found.verdict


class Practice(Protocol):
    """A folder of `practices/`, as its `__init__` offers it."""

    PHRASES: Mapping[str, Phrase]
    """The sentences for the codes of its remarks."""

    def verdict(self, known: Evidence) -> Finding:
        """How the model stands with this practice, as far as a tuning shows it."""

    def sections(self, lines: Sequence[Line]) -> list[Section]:
        """What a report shows of it, from the lines of a session; none where the session holds nothing of it."""


def not_examined(practice: str) -> Finding:
    """The verdict of a practice that a tuning says nothing about."""
    return Finding(practice, Standing.NOT_EXAMINED, remark(f"{practice}.not-examined"))


def no_sections(lines: Sequence[Line]) -> list[Section]:
    """Those of a practice whose finding stands with the other verdicts, and that has nothing else to show."""
    return []
