"""Why is the changed model slower, or wrong? Both models in turns, their operators and their numbers side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.statistics import Interval
from hasten.explain.errors import compare_numbers
from hasten.explain.facts import Explanation, NodeRow, Side
from hasten.explain.rules import SideBySide
from hasten.explain.sentences import hints_of, instructions_of, speed_sentence, verdict_sentences
from hasten.measure.compare import compare
from hasten.measure.profiling import RawProfile, build_profile, profile_model
from hasten.measure.rounds import FailedCandidate, no_progress
from hasten.model.matching import match_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.profile import Peaks, Profile
    from hasten.core.remark import Remark
    from hasten.explain.facts import Instructions
    from hasten.explain.inputs import GivenInputs
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph, Subgraph
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 8.0
_ROUNDS: Final = 6
_UNKNOWN: Final = Interval(math.nan, -math.inf, math.inf)
_NO_REFERENCE: Final = Failure(
    "profile",
    "usage",
    "LiteRT 2.3 cannot profile its reference kernels: it runs the built-in ones in their place",
    "Explain with --kernel delegate or --kernel builtin.",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to explain: how to run it, and its graph."""

    candidate: Candidate
    graph: Graph

    @property
    def subgraph(self) -> Subgraph:
        """The graph that the workload's signature runs."""
        signature = self.graph.signature(self.candidate.workload.signature or None)
        return self.graph.subgraphs[signature.subgraph] if signature else self.graph.main


def explain(
    target: Target,
    original: Subject,
    changed: Subject,
    *,
    seconds: float = DEFAULT_SECONDS,
    peaks: Peaks | None = None,
    inputs: GivenInputs | None = None,
    comparison: Comparison | None = None,
    progress: Progress = no_progress,
) -> Explanation | FailedCandidate:
    """Lay two models side by side; or say which one failed, and how.

    Times come from profiles that take turns, numbers from inner tensors on the inputs given (random ones without them).
    The verdict is that of a `comparison` made before, of these two, or of one made here. Models that the engine can run
    and not profile are compared in numbers only.
    """
    for candidate in (original.candidate, changed.candidate):
        if candidate.plan.kernel == "reference":
            return FailedCandidate(candidate, _NO_REFERENCE)
    try:
        instructions = instructions_of(target.machine())
    except RunnerFailed as failed:
        return FailedCandidate(original.candidate, failed.failure)
    if comparison is None:
        raced = compare(target, original.candidate, changed.candidate, seconds / 2, progress=_part(progress, 0.0, 0.3))
        if isinstance(raced, FailedCandidate):
            return raced
        comparison = raced.comparison
    turns = profile_in_turns(target, original, changed, seconds, peaks, _part(progress, 0.3, 0.9))
    if not isinstance(turns, FailedCandidate):
        timed = _timed(original, changed, turns, comparison, instructions)
    elif turns.failure.stage == "profile":
        timed = _untimed(original, changed, turns, comparison, instructions)
    else:
        return turns
    progress(0.9, "comparing numbers")
    errors = compare_numbers(target, original, changed, timed.rows, inputs)
    progress(1.0, "done")
    return replace(timed, rows=tuple(errors.rows), peaks=peaks, errors=errors.view, why_no_errors=errors.why_not)


def _timed(
    original: Subject, changed: Subject, turns: Turns, comparison: Comparison, instructions: Instructions
) -> Explanation:
    """What the profiles tell, before anything is known of the numbers."""
    sides = SideBySide(match_nodes(original.subgraph, changed.subgraph), turns.whole, turns.rounds)
    rows = sides.rows()
    causes = sides.causes(rows)
    before, after = sides.side(0), sides.side(1)
    return Explanation(
        plan=changed.candidate.plan,
        before=before,
        after=after,
        comparison=comparison,
        verdict=verdict_sentences(comparison, causes, before.invoke_ms),
        rows=tuple(rows),
        causes=tuple(causes),
        outside_ms=sides.outside(),
        instructions=instructions,
        hints=hints_of(causes, before.invoke_ms) if before.model.sha256 != after.model.sha256 else (),
        doubts=_doubts(turns.whole),
    )


def _untimed(
    original: Subject, changed: Subject, refused: FailedCandidate, comparison: Comparison, instructions: Instructions
) -> Explanation:
    """The nodes side by side without times, as one of the models cannot be profiled."""
    before, after = (
        Side(subject.candidate.model, math.nan, math.nan, len(subject.subgraph.nodes), 0, 0, ())
        for subject in (original, changed)
    )
    return Explanation(
        plan=changed.candidate.plan,
        before=before,
        after=after,
        comparison=comparison,
        verdict=speed_sentence(comparison),
        rows=tuple(NodeRow(m, None, None, _UNKNOWN) for m in match_nodes(original.subgraph, changed.subgraph)),
        causes=(),
        outside_ms=_UNKNOWN,
        instructions=instructions,
        why_no_times=f"{refused.candidate.label}: {refused.failure.message}",
    )


@dataclass(frozen=True, slots=True)
class Turns:
    """Pairs of profiles: of all rounds together, and of each."""

    whole: tuple[Profile, Profile]
    rounds: list[tuple[Profile, Profile]]


def profile_in_turns(
    target: Target, original: Subject, changed: Subject, seconds: float, peaks: Peaks | None, progress: Progress
) -> Turns | FailedCandidate:
    """Profiles in fresh processes; who comes first changes from round to round."""
    subjects = (original, changed)
    each = seconds / _ROUNDS / 2
    found: list[list[tuple[Profile, RawProfile]]] = [[], []]
    for number in range(_ROUNDS):
        for turn in (0, 1) if number % 2 == 0 else (1, 0):
            subject = subjects[turn]
            done = len(found[0]) + len(found[1])
            progress(done / (_ROUNDS * 2), f"profiling {subject.candidate.label}")
            result = profile_model(target, subject.candidate, subject.graph, each, peaks, no_progress)
            if isinstance(result, Failure):
                return FailedCandidate(subject.candidate, result)
            found[turn].append(result)
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
    return tuple({doubt.code: doubt for profile in last for doubt in profile.doubts}.values())
