"""The guide's "Profile and optimize operators in the graph": where time can be won, and rewrites that win it.

Each rewrite is tried on a copy of the file. Its outputs must be equal on the same inputs, and then it is raced against
the original; what is proven faster is put together, compared again and confirmed in fresh processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.bundle.kernels import with_kernels_in
from hasten.core.comparison import FEWEST_WHEN_CLEAR
from hasten.core.errors import UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.printable import printable
from hasten.core.remark import remark
from hasten.core.units import several
from hasten.core.whole_file import write_whole
from hasten.custom_kernels.check import CheckRequest
from hasten.explanation.inner_tensors import Subject
from hasten.measure.compare import compare
from hasten.measure.layer_times import LayerTime, layer_times
from hasten.measure.peaks import peaks_first
from hasten.measure.profiling import profile_model
from hasten.measure.race import comparison, run_race
from hasten.measure.range_times import RangeTime, range_times
from hasten.measure.rounds import Candidate, FailedCandidate, Rounds, no_progress
from hasten.measure.schedule import Schedule, now
from hasten.measure.study import outcome_of
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_graph
from hasten.practices.operators.equality import (
    MOST_ROUNDING,
    Answers,
    answers_of,
    largest_error,
    other_batches,
    own_rounding,
)
from hasten.practices.operators.facts import (
    FAILED,
    FASTER_ALONE,
    NOT_ALONE,
    NOT_CONFIRMED,
    TOGETHER,
    OperatorOptions,
    OperatorsFound,
    Tried,
)
from hasten.practices.operators.kernels import Kernels, build_kernels, fault_folder
from hasten.practices.operators.rules import (
    has_time_alone,
    hides_gains,
    places_of,
    reason_of,
    worth_keeping,
    worth_proving,
)
from hasten.rewrites.registry import rewrites_for, rewrites_named
from hasten.rewrites.rewrite import Change, Rewrite, apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.plan import Workload
    from hasten.core.profile import Profile
    from hasten.core.remark import Remark
    from hasten.explanation.numbers import GivenInputs
    from hasten.measure.compare import ComparisonResult
    from hasten.measure.effort import Effort
    from hasten.model.graph import Graph

    Samples = Sequence[Sequence[bytes]]

SECONDS: Final = 60.0
_PROFILE_S: Final = 4.0
_LATENCY_S: Final = 0.5
_SHARE_OF_PROFILE: Final = 0.2
_SHARE_OF_RACE: Final = 0.8
# What all rewrites together get of the time for racing before each is raced alone; they rarely need it all.
_SHARE_OF_TOGETHER: Final = 0.6
# Several pairs of fresh processes, without which there is no verdict.
_LEAST_PROOF_S: Final = 6.0
_MOST_PROOF_S: Final = 20.0
# What fresh processes do not confirm gives way to the next fastest.
_MOST_PROOFS: Final = 2
OUTPUTS: Final = "outputs"
NOISE: Final = "seeded noise"


def run(
    candidate: Candidate,
    graph: Graph,
    folder: Path,
    effort: Effort,
    options: OperatorOptions = OperatorOptions(),
    inputs: GivenInputs | None = None,
) -> OperatorsFound | Failure:
    """Examine a model and try what applies; changed copies, the best among them, are in the folder."""
    return outcome_of(_Study(candidate, graph, folder, effort, options, inputs))


def write_model(found: OperatorsFound, place: Path | None) -> OperatorsFound:
    """Put the rewritten model, if there is one, where the user asked for it."""
    if not found.path or place is None:
        return replace(found, path="")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, Path(found.path).read_bytes(), replace=False)
    kernels = tuple(_kept_library(place.parent, kernel) for kernel in found.kernels)
    return replace(found, path=str(place), kernels=kernels)


def _kept_library(folder: Path, kernel: str) -> str:
    """A kernel library beside the model; kernels in Python stay where they are."""
    return kernel if ":" in kernel else with_kernels_in(folder, Plan(kernels=(kernel,))).kernels[0]


@dataclass(slots=True)
class _Attempt:
    """A changed copy of the model on its way through check and race."""

    tried: Tried
    subject: Subject
    parts: frozenset[str]
    """The rewrites that changed something in it."""

    @property
    def candidate(self) -> Candidate:
        return self.subject.candidate


@dataclass(slots=True)
class _Study:
    """One model, what was found about it so far, and what is still to be done."""

    candidate: Candidate
    graph: Graph
    folder: Path
    effort: Effort
    options: OperatorOptions
    inputs: GivenInputs | None
    profile: Profile | None = None
    not_profiled: Remark | None = None
    """Why there is no profile."""
    ranges: tuple[RangeTime, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    no_counters: Remark | None = None
    """Why OpenVINO's counters are not known."""
    attempts: list[_Attempt] = field(default_factory=list)
    best: _Attempt | None = None
    final: Comparison | None = None
    latency_ms: tuple[float, float] | None = None
    _partitions_after: int = 0
    _kernels: Kernels = field(default_factory=Kernels)
    _own_rounding: float | None = None
    _expected: list[Answers | None] = field(default_factory=list)
    """The original's answers by workload; None where it has none, as with a batch that it cannot run."""
    _schedule: Schedule = field(default_factory=lambda: Schedule(SECONDS))

    @property
    def has_answer(self) -> bool:
        """Whether there is something to tell."""
        return self.profile is not None or self.not_profiled is not None

    def run(self) -> Failure | None:
        self._refuse_unknown_names()
        failure = self._build_kernels() or self._look()
        if failure is not None:
            return failure
        self._make()
        self._check(self.attempts)
        self._put_together()
        self._race_all(_SHARE_OF_RACE * self._schedule.seconds)
        self._conclude()
        self.effort.progress(1.0, "done")
        return None

    # -- looking

    def _look(self) -> Failure | None:
        """Profile the original: what is not worth a look needs no change."""
        peaks = peaks_first(self.effort, self.candidate.plan.threads)
        if isinstance(peaks, Failure):
            return peaks
        self._schedule = Schedule(self.effort.seconds_or(SECONDS))
        self.effort.progress(0.0, "profiling")
        seconds = min(_PROFILE_S, _SHARE_OF_PROFILE * self._schedule.seconds)
        try:
            found = profile_model(self.effort.target, self.candidate, self.graph, seconds, peaks, no_progress)
        except RunnerFailed as failed:
            return failed.failure
        if isinstance(found, Failure):
            return self._look_without_profile(found)
        self.profile = found[0]
        if not self.profile.tells_operators:
            self._look_inside(self.profile.latency_ms)
        return None

    def _look_without_profile(self, failure: Failure) -> Failure | None:
        """What can be seen where the engine cannot profile the model, if it runs at all: rewrites need no profile."""
        rounds = Rounds(self.effort.target, [self.candidate])
        rounds.run_one(_LATENCY_S)
        timed = rounds.tracks[0].result()
        if isinstance(timed, Failure):
            return failure
        self.not_profiled = remark("operators.not-profiled", message=failure.message)
        self._look_inside(timed.samples.median_ms)
        return None

    def _look_inside(self, run_ms: float) -> None:
        """Where the engine shows no operators: the counters of OpenVINO, or ranges of nodes that were cut out."""
        target, plan = self.effort.target, self.candidate.plan
        if plan.accelerator == "npu" and not plan.delegate:
            self.effort.progress(0.0, "reading OpenVINO's counters")
            try:
                self.layers = layer_times(target, self.candidate, self.graph)
            except RunnerFailed as failed:
                self.no_counters = remark("operators.no-counters", message=failed.failure.message)
        if not self.layers:
            self.ranges = range_times(
                target,
                self.candidate,
                self.graph,
                run_ms,
                _SHARE_OF_PROFILE * self._schedule.seconds,
                lambda share, text: self.effort.progress(_SHARE_OF_PROFILE * share, f"timing {text}"),
            )

    # -- making

    def _build_kernels(self) -> Failure | None:
        if not self.options.kernels and not self.options.kernel_files:
            return None
        self.effort.progress(0.0, "building kernels")
        built = build_kernels(self.options, self.candidate.path, self.effort.target)
        if isinstance(built, Failure):
            return built
        self._kernels = built
        return None

    @property
    def _rewrites(self) -> tuple[Rewrite, ...]:
        """All that is tried."""
        names = self.options.rewrites
        chosen = rewrites_named(names) if names else rewrites_for(self.candidate.plan.accelerator)
        return (*chosen, *self._kernels.rewrites)

    def _make(self) -> None:
        """A copy for each rewrite that applies."""
        chosen = self._rewrites
        if self.options.outputs:
            self._try(OUTPUTS, ())
        for place, rewrite in enumerate(chosen):
            self.effort.progress(_SHARE_OF_PROFILE * place / len(chosen), f"trying {rewrite.name}")
            # What only opens the way for others wins nothing alone.
            if rewrite.undo_unused is None or self.options.rewrites:
                self._try(rewrite.name, (rewrite,))

    def _put_together(self) -> None:
        """A copy with all rewrites at once, those included that only others open the way for; not those that are wrong
        alone."""
        wrong = {one.tried.what for one in self.attempts if not one.tried.is_equal}
        self._check(self._try(TOGETHER, [rewrite for rewrite in self._rewrites if rewrite.name not in wrong]))

    def _try(self, what: str, rewrites: Sequence[Rewrite]) -> list[_Attempt]:
        """Write a copy with these rewrites; none if they have nothing to do, or if there is an equal copy already."""
        model = EditedModel.read(self.candidate.path)
        dropped = self._drop_outputs(model)
        if dropped:
            model.clean()  # what only they needed is no dead code of the file
        changes = apply(model, rewrites)
        if not changes and not (dropped and not rewrites):
            return []
        path = self.folder / f"{what}.tflite"
        model.write(path)
        graph = read_graph(path)
        told = Model(str(path), graph.size_bytes, graph.sha256)
        if any(one.candidate.model.sha256 == told.sha256 for one in self.attempts):
            return []
        flat: list[Change] = [change for found in changes.values() for change in found]
        tried = Tried(
            what,
            nodes=tuple(sorted({node for change in flat for node in change.nodes})),
            places=len(flat),
            tolerance=max((rewrite.tolerance for rewrite in rewrites if rewrite.name in changes), default=0.0),
            of_user=what in self._kernels.of_user,
        )
        plan = self.candidate.plan
        plan = replace(plan, kernels=(*plan.kernels, *self._kernels.libraries_of(tuple(changes))))
        made = replace(self.candidate, label=what, path=path, model=told, plan=plan)
        self.attempts.append(_Attempt(tried, Subject(made, graph), frozenset(changes)))
        return self.attempts[-1:]

    def _drop_outputs(self, model: EditedModel) -> bool:
        """Keep the outputs that were asked for; whether any was dropped."""
        if not self.options.outputs:
            return False
        known = self._output_names()
        kept = [known[name] for name in self.options.outputs]
        signature = self.graph.signature(self.candidate.workload.signature or None)
        model.graphs[signature.subgraph if signature else 0].keep_outputs(kept)
        return len(kept) < len(known)

    def _refuse_unknown_names(self) -> None:
        """Names of rewrites and outputs, before anything is measured."""
        rewrites_named(self.options.rewrites)
        known = self._output_names()
        for name in self.options.outputs:
            if name not in known:
                told = f"{self.candidate.path.name} has no output {printable(name)!r}."
                raise UsageError(told, f"It has: {', '.join(map(printable, known))}.")

    def _output_names(self) -> dict[str, int]:
        """The outputs by name, in the order of the file."""
        signature = self.graph.signature(self.candidate.workload.signature or None)
        if signature is not None:
            return dict(signature.outputs)
        return {tensor.name: tensor.index for tensor in self.graph.outputs}

    @property
    def _kept_places(self) -> list[int]:
        """Which of the outputs were asked for."""
        names = self._output_names()
        return [place for place, name in enumerate(names) if not self.options.outputs or name in self.options.outputs]

    # -- checking

    def _check(self, attempts: Sequence[_Attempt]) -> None:
        """Compare outputs; what differs is not raced."""
        for place, attempt in enumerate(attempts):
            self.effort.progress(_SHARE_OF_PROFILE, f"comparing outputs {place + 1} of {len(attempts)}")
            if attempt.tried.what in self._kernels.kernels and (fault := self._fault(attempt.tried.what)) is not None:
                attempt.tried = replace(attempt.tried, why=fault)
                continue
            error = self._error(attempt.subject)
            if isinstance(error, Failure):
                attempt.tried = replace(attempt.tried, why=remark(FAILED, message=error.message))
                continue
            attempt.tried = replace(attempt.tried, max_error=error, inputs=self._compared())
            attempt.tried = replace(attempt.tried, tolerance=self._allowed(attempt.tried))
            if not attempt.tried.is_equal:
                facts = {"error": error, "tolerance": attempt.tried.tolerance}
                attempt.tried = replace(attempt.tried, why=remark("operators.not-equal", **facts))

    def _allowed(self, tried: Tried) -> float:
        """What a rewrite may be off by: what it promises, or the model's own rounding where a deep model has more."""
        if tried.is_equal or not tried.tolerance or tried.max_error is None or tried.max_error > MOST_ROUNDING:
            return tried.tolerance
        if self._own_rounding is None:
            samples = self.inputs.samples if self.inputs is not None else ()
            original = Subject(self.candidate, self.graph)
            self._own_rounding = own_rounding(self.effort.target, original, samples, self._kept_places)
        return max(tried.tolerance, self._own_rounding)

    def _fault(self, kernel: str) -> Remark | None:
        """What edge values and other shapes show of a kernel; the input that shows it stays on the disk."""
        folder = fault_folder(kernel, self.candidate.model.sha256)
        request = CheckRequest(self.effort.target, folder, self.candidate.plan)
        return self._kernels.fault(kernel, self.candidate.path, request)

    def _error(self, changed: Subject) -> float | Failure:
        """The largest error over all inputs, and over other batches where the file leaves the batch open."""
        original = Subject(self.candidate, self.graph)
        workloads = [self.candidate.workload, *other_batches(self.graph, self.candidate.workload)]
        worst = 0.0
        for place, workload in enumerate(workloads):
            samples = self.inputs.samples if self.inputs is not None and place == 0 else ()
            if len(self._expected) == place:
                found = self._answers(original, workload, samples)
                if isinstance(found, Failure) and place == 0:
                    return found
                self._expected.append(None if isinstance(found, Failure) else found.of(self._kept_places))
            expected = self._expected[place]
            if expected is None:
                continue
            seen = self._answers(changed, workload, samples)
            if isinstance(seen, Failure):
                return seen
            worst = max(worst, largest_error(expected, seen))
        return worst

    def _answers(self, subject: Subject, workload: Workload, samples: Samples) -> Answers | Failure:
        candidate = replace(subject.candidate, workload=workload)
        return answers_of(self.effort.target, replace(subject, candidate=candidate), samples)

    def _compared(self) -> int:
        return sum(len(answers.samples) for answers in self._expected if answers is not None)

    # -- racing

    def _race_all(self, until_s: float) -> None:
        """All rewrites together first, and the user's kernels; then each alone, if there is time or a need.

        A slow model has time for enough rounds of two candidates, and not of twenty.
        """
        equal = [attempt for attempt in self.attempts if attempt.tried.is_equal]
        first = [one for one in equal if one.tried.what == TOGETHER or one.tried.of_user]
        alone = [one for one in equal if one not in first]
        together = next((one for one in first if one.tried.what == TOGETHER), None)
        if together is None:
            self._race(equal, until_s)
            return
        begun_s = self._schedule.elapsed_s
        each_s = self._race(first, begun_s + _SHARE_OF_TOGETHER * (until_s - begun_s))
        left_s = until_s - self._schedule.elapsed_s
        if hides_gains(together.tried) or has_time_alone(len(alone), each_s, left_s):
            self._race(alone, until_s)
            return
        for attempt in alone:
            attempt.tried = replace(attempt.tried, why=remark(NOT_ALONE))

    def _race(self, attempts: Sequence[_Attempt], until_s: float) -> float:
        """Those that are equal against the original, in turns, until that time of the study.

        Returns the seconds that a round took for each of them.
        """
        racing = [attempt for attempt in attempts if attempt.tried.is_equal]
        if not racing:
            return 0.0
        rounds = Rounds(self.effort.target, [self.candidate, *(attempt.candidate for attempt in racing)])

        def tell(state: str) -> None:
            left = several(len(rounds.alive) - 1, "rewrite")
            self.effort.progress(min(self._schedule.share, 0.95), f"{state}: {left}")

        begun = now()
        until = begun + max(0.0, until_s - self._schedule.elapsed_s)
        fewest = FEWEST_WHEN_CLEAR
        run_race(rounds, until, base=lambda rounds: rounds.tracks[0], fewest=fewest, tell=tell, keep=self.effort.keep)
        for attempt, track in zip(racing, rounds.tracks[1:], strict=True):
            found = comparison(rounds.tracks[0], track)
            why = reason_of(found) if found is not None else remark(FAILED, message=_message(track.failure))
            attempt.tried = replace(attempt.tried, comparison=found, why=why)
        return (now() - begun) / max(1, sum(len(track.rounds) for track in rounds.tracks))

    # -- concluding

    def _conclude(self) -> None:
        """Prove the fastest against the original."""
        self._combine()
        for chosen in self._faster()[:_MOST_PROOFS]:
            proof = self._prove(chosen)
            if proof is None:
                continue
            self._partitions_after = self._partitions_of(chosen)
            self.best, self.final = chosen, proof.comparison
            if not chosen.tried.is_faster:  # the race had too few rounds for a verdict
                chosen.tried = replace(chosen.tried, comparison=proof.comparison, why=reason_of(proof.comparison))
            self.latency_ms = (proof.first.samples.median_ms, proof.second.samples.median_ms)
            for attempt in self.attempts:
                if attempt is chosen or (attempt.tried.is_equal and attempt.parts < chosen.parts):
                    attempt.tried = replace(attempt.tried, kept=True)
                    # It is kept as a part of the whole, even if it was not confirmed alone.
                    if attempt.tried.comparison is not None:
                        attempt.tried = replace(attempt.tried, why=reason_of(attempt.tried.comparison))
            return

    def _faster(self) -> list[_Attempt]:
        """What is equal and faster, the fastest first; a clear difference that lacks rounds is worth a proof."""
        return sorted((one for one in self.attempts if worth_proving(one.tried)), key=_ratio_of)

    def _combine(self) -> None:
        """Try all that are faster alone, at once."""
        parts = frozenset[str]().union(*(one.parts for one in self._faster() if one.tried.is_single))
        if len(parts) < 2 or any(one.parts == parts for one in self.attempts):
            return
        made = self._try(FASTER_ALONE, [rewrite for rewrite in self._rewrites if rewrite.name in parts])
        self._check(made)
        self._race(made, self._schedule.elapsed_s + (1 - _SHARE_OF_RACE) * self._schedule.seconds)

    def _prove(self, chosen: _Attempt) -> ComparisonResult | None:
        self.effort.progress(0.95, f"confirming {chosen.tried.what}")
        left_s = max(self._schedule.left_s, (1 - _SHARE_OF_RACE) * self._schedule.seconds)
        seconds = min(max(left_s, _LEAST_PROOF_S), _MOST_PROOF_S)
        found = compare(self.effort.target, self.candidate, chosen.candidate, seconds)
        if isinstance(found, FailedCandidate):
            chosen.tried = replace(chosen.tried, why=remark(FAILED, message=found.failure.message))
            return None
        self.effort.keep("comparison", chosen.tried.what, found.as_data())
        if not worth_keeping(replace(chosen.tried, comparison=found.comparison)):
            chosen.tried = replace(chosen.tried, why=remark(NOT_CONFIRMED, **_ratio(found.comparison)))
            return None
        return found

    # -- telling

    def found(self, *, interrupted: bool = False) -> OperatorsFound:
        """What there is by now."""
        tried = tuple(attempt.tried for attempt in self.attempts)
        best, profile = self.best, self.profile
        doubts = [doubt for doubt in (self.not_profiled, self.no_counters) if doubt is not None]
        return OperatorsFound(
            model=self.candidate.model,
            plan=self.candidate.plan,
            places=tuple(places_of(profile, tried)) if profile is not None else (),
            tried=tried,
            invoke_ms=profile.invoke_ms if profile is not None else 0.0,
            seen=profile.share(profile.told_ms) if profile is not None else 0.0,
            ranges=self.ranges,
            layers=self.layers,
            partitions=(_partitions(profile) if profile is not None else 0, self._partitions_after),
            final=self.final,
            latency_ms=self.latency_ms,
            max_error=best.tried.max_error if best else None,
            tolerance=best.tried.tolerance if best else 0.0,
            path=str(best.candidate.path) if best else "",
            size_bytes=best.candidate.model.size_bytes if best else 0,
            kernels=best.candidate.plan.kernels if best else (),
            inputs=self.inputs.source if self.inputs is not None else NOISE,
            dropped_outputs=tuple(name for name in self._output_names() if name not in self.options.outputs)
            if self.options.outputs
            else (),
            seconds=self._schedule.elapsed_s,
            doubts=(*self.candidate.doubts, *doubts, *(profile.doubts if profile is not None else ())),
            interrupted=interrupted,
        )

    def _partitions_of(self, best: _Attempt) -> int:
        try:
            found = profile_model(self.effort.target, best.candidate, best.subject.graph, 0.5, None, no_progress)
        except RunnerFailed:
            return 0
        return 0 if isinstance(found, Failure) else _partitions(found[0])


def _partitions(profile: Profile) -> int:
    return sum(partition.delegated for partition in profile.partitions)


def _ratio_of(attempt: _Attempt) -> float:
    return attempt.tried.comparison.ratio if attempt.tried.comparison is not None else math.inf


def _ratio(found: Comparison) -> dict[str, float | str]:
    return {"ratio": found.ratio, "verdict": found.verdict.value}


def _message(failure: Failure | None) -> str:
    return failure.message if failure is not None else ""
