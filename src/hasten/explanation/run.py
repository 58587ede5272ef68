"""Why a changed model is faster, slower or wrong: both in turns, their operators and their numbers side by side."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.doubts import gathered
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.remark import Remark, remark
from hasten.explanation.facts import Change, ExplainFound, NodeRow, Side
from hasten.explanation.numbers import compare_numbers
from hasten.explanation.rules import SideBySide, hints_of, instructions_of, verdict_of
from hasten.measure.compare import compare
from hasten.measure.profiling import RawProfile, build_profile, profile_model
from hasten.measure.rounds import FailedCandidate, no_progress
from hasten.model.matching import match_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.profile import Peaks, Profile
    from hasten.explanation.facts import Instructions
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.numbers import GivenInputs
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Progress
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 8.0
_ROUNDS: Final = 6
# Where something is left open: with three more, one more may be left out at either end.
_MORE_ROUNDS: Final = 3
_MOST_ROUNDS: Final = 15
# With the start of processes, six rounds take about twice the time that they are given. Further ones are not begun
# after half as much again.
_PATIENCE: Final = 3.0
_NO_REFERENCE: Final = Failure(
    "profile",
    "usage",
    "LiteRT 2.3 cannot profile its reference kernels: it runs the built-in ones instead.",
    "Explain with --kernel delegate or --kernel builtin.",
)


@dataclass(frozen=True, slots=True)
class Known:
    """What was measured before, or is given: an explanation takes it from there."""

    comparison: Comparison | None = None
    """Of these two models; one is made where there is none."""
    inputs: GivenInputs | None = None
    """On which numbers are compared; random ones without them."""
    peaks: Peaks | None = None


def run(original: Subject, changed: Subject, effort: Effort, known: Known) -> ExplainFound | FailedCandidate:
    """Two models side by side; or which one failed, and how.

    Times come from profiles that take turns, numbers from inner tensors. Models that the engine can run and not profile
    are compared in numbers only.
    """
    target, progress, seconds = effort.target, effort.progress, effort.seconds_or(DEFAULT_SECONDS)
    for candidate in (original.candidate, changed.candidate):
        if candidate.plan.kernel == "reference":
            return FailedCandidate(candidate, _NO_REFERENCE)
    try:
        instructions = instructions_of(target.machine())
    except RunnerFailed as failed:
        return FailedCandidate(original.candidate, failed.failure)
    comparison = known.comparison
    if comparison is None:
        raced = compare(target, original.candidate, changed.candidate, seconds / 2, progress=_part(progress, 0.0, 0.3))
        if isinstance(raced, FailedCandidate):
            return raced
        comparison = raced.comparison
    turns = profile_in_turns(target, (original, changed), seconds, known.peaks, _part(progress, 0.3, 0.9))
    if not isinstance(turns, FailedCandidate):
        timed = _timed(original, changed, turns, comparison, instructions)
    elif turns.failure.stage == "profile":
        timed = _untimed(original, changed, turns, comparison, instructions)
    else:
        return turns
    progress(0.9, "comparing numbers")
    numbers = compare_numbers(target, original, changed, timed.rows, known.inputs)
    progress(1.0, "done")
    return replace(
        timed, rows=tuple(numbers.rows), peaks=known.peaks, errors=numbers.errors, why_no_errors=numbers.why_not
    )


def _timed(
    original: Subject, changed: Subject, turns: Turns, comparison: Comparison, instructions: Instructions
) -> ExplainFound:
    """What the profiles tell, before anything is known of the numbers."""
    sides = SideBySide(match_nodes(original.subgraph, changed.subgraph), turns.whole, turns.rounds)
    causes = sides.causes()
    before, after = sides.side(0), sides.side(1)
    return ExplainFound(
        plan=changed.candidate.plan,
        before=before,
        after=after,
        comparison=comparison,
        verdict=verdict_of(comparison, causes, before.invoke_ms),
        rows=tuple(sides.rows()),
        causes=tuple(causes),
        outside_ms=sides.outside(),
        instructions=instructions,
        hints=hints_of(causes, before.invoke_ms) if before.model.sha256 != after.model.sha256 else (),
        doubts=_doubts(turns.whole),
    )


def _untimed(
    original: Subject, changed: Subject, refused: FailedCandidate, comparison: Comparison, instructions: Instructions
) -> ExplainFound:
    """The nodes side by side without times, as one of the models cannot be profiled."""
    before, after = (
        Side(subject.candidate.model, math.nan, math.nan, len(subject.subgraph.nodes))
        for subject in (original, changed)
    )
    matches = match_nodes(original.subgraph, changed.subgraph)
    return ExplainFound(
        plan=changed.candidate.plan,
        before=before,
        after=after,
        comparison=comparison,
        verdict=verdict_of(comparison, None, math.nan),
        rows=tuple(NodeRow(m.before, m.after, m.certainty, m.op, m.location, m.shape) for m in matches),
        causes=(),
        outside_ms=Change(),
        instructions=instructions,
        why_no_times=remark("explain.not-timed", model=refused.candidate.label, failure=refused.failure.message),
    )


@dataclass(frozen=True, slots=True)
class Turns:
    """Pairs of profiles: of all rounds together, and of each."""

    whole: tuple[Profile, Profile]
    rounds: list[tuple[Profile, Profile]]


def profile_in_turns(
    target: Target,
    subjects: tuple[Subject, Subject],
    seconds: float,
    peaks: Peaks | None,
    progress: Progress,
    is_open: Callable[[Turns], bool] = lambda turns: False,
) -> Turns | FailedCandidate:
    """Profiles in fresh processes; who comes first changes from round to round.

    Further rounds follow while `is_open` says that those so far leave something open, as far as patience goes.
    """
    each, until = seconds / _ROUNDS / 2, time.monotonic() + _PATIENCE * seconds
    found: list[list[tuple[Profile, RawProfile]]] = [[], []]
    wanted = _ROUNDS
    while True:
        # Every round is run, whatever it takes: with fewer, the intervals would mean nothing.
        for number in range(len(found[0]), wanted):
            for turn in (0, 1) if number % 2 == 0 else (1, 0):
                subject = subjects[turn]
                progress((len(found[0]) + len(found[1])) / (wanted * 2), f"profiling {subject.candidate.label}")
                result = profile_model(target, subject.candidate, subject.graph, each, peaks, no_progress)
                if isinstance(result, Failure):
                    if number < _ROUNDS:
                        return FailedCandidate(subject.candidate, result)
                    return _turns(subjects, [one[:number] for one in found], peaks)
                found[turn].append(result)
        turns = _turns(subjects, found, peaks)
        if wanted >= _MOST_ROUNDS or time.monotonic() > until or not is_open(turns):
            return turns
        wanted += _MORE_ROUNDS


def _turns(
    subjects: tuple[Subject, Subject], found: Sequence[Sequence[tuple[Profile, RawProfile]]], peaks: Peaks | None
) -> Turns:
    whole = [
        build_profile(subject.candidate, subject.graph, _merged([raw for _, raw in one]), peaks)
        for subject, one in zip(subjects, found, strict=True)
    ]
    rounds = [(before, after) for (before, _), (after, _) in zip(*found, strict=True)]
    return Turns((whole[0], whole[1]), rounds)


def _merged(raws: Sequence[RawProfile]) -> RawProfile:
    """The runs of all rounds as one profile; each round's processes keep a number of their own."""
    blocks = tuple(replace(block, runner=number) for number, raw in enumerate(raws) for block in raw.plain.blocks)
    runs = tuple(run for raw in raws for run in raw.runs)
    return RawProfile(runs, replace(raws[0].plain, blocks=blocks), raws[0].load)


def _part(progress: Progress, begin: float, end: float) -> Progress:
    def tell(share: float, text: str) -> None:
        progress(begin + (end - begin) * share, text)

    return tell


def _doubts(last: tuple[Profile, Profile]) -> tuple[Remark, ...]:
    """Doubts about either profile, each reason once."""
    return gathered(doubt for profile in last for doubt in profile.doubts)
