"""One model on one plan: runs it, looks where its time goes and what was placed where, then checks all of it.

What does not run is a finding, not an error: a bundle about a crash needs the checks as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.measure.bench import bench
from hasten.measure.open_shapes import open_shape_doubts
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import Candidate, no_progress
from hasten.measure.seeded_inputs import seeded_inputs
from hasten.model.reader import read_graph
from hasten.practices.help.facts import DoctorOptions, ModelFound
from hasten.practices.help.issue.archive import SMALLEST, issue_files
from hasten.practices.help.minimize import run as minimizing
from hasten.practices.help.minimize.facts import WRONG
from hasten.practices.help.model_checks.delegates.fit import DELEGATES, fit_by_rules, fit_observed, left_share
from hasten.practices.help.model_checks.findings import Subject
from hasten.practices.help.model_checks.rules import (
    delegate_check,
    interface_check,
    output_check,
    run_check,
    static_checks,
)
from hasten.practices.help.releases import run as releases
from hasten.targets.other_releases import ReleaseEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hasten.core.measurement import Measurement
    from hasten.core.profile import Profile
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Progress
    from hasten.model.graph import Graph
    from hasten.practices.help.facts import IssueBundle
    from hasten.practices.help.issue.archive import IssueFiles
    from hasten.practices.help.model_checks.facts import DelegateFit
    from hasten.targets.client import LoadReport, TensorInfo

    Announce = Callable[[IssueBundle], None]

SECONDS: Final = 10.0
_SHARE_OF_BENCH: Final = 0.6


def say_nothing(bundle: IssueBundle) -> None:
    """For callers who do not show what a bundle will hold."""


@dataclass(frozen=True, slots=True)
class Examination:
    """A model to examine, and where its files may be."""

    candidate: Candidate
    graph: Graph
    options: DoctorOptions
    folder: Path
    """For parts of the model."""
    out: Path | None = None
    """The archive to write."""

    def run(self, effort: Effort, announce: Announce = say_nothing) -> ModelFound | Failure:
        """Check it, and do what the options ask for. The archive is announced before it is written.

        A failure only where the target itself is in trouble. After Ctrl-C, what was found until then comes as
        `Interrupted.found`; nothing is written.
        """
        search = self._search()
        self._refuse(search, effort)
        try:
            machine = effort.target.machine()
        except RunnerFailed as failed:
            return failed.failure
        phases = [True, bool(self.options.minimize), bool(self.options.versions)]
        first, second, third = _shared_out(effort, phases)
        found = replace(self._checked(first), machine=machine)
        try:
            found, smallest = self._with_smallest(found, search, second)
            found = self._with_releases(found, smallest, third)
            if self.out is None:
                return found
            found, files = self._files(found, search, smallest, effort)
        except Interrupted as stop:
            raise Interrupted(replace(found, minimized=stop.found, interrupted=True)) from None
        except KeyboardInterrupt:
            raise Interrupted(replace(found, interrupted=True)) from None
        listed = files.listed(self.out)
        announce(listed)
        files.write(self.out, replace=self.options.replace)
        return replace(found, bundle=listed)

    def _files(
        self, found: ModelFound, search: minimizing.Search | None, smallest: Path | None, effort: Effort
    ) -> tuple[ModelFound, IssueFiles]:
        """What the archive will hold. A private part is tested first: nobody can act on one that shows nothing."""
        device = effort.target.name
        files = issue_files(found, self.graph, smallest, private=self.options.private, device=device)
        if not self.options.private or search is None or smallest is None or found.minimized is None:
            return found, files
        path = self.folder / "private.tflite"
        path.write_bytes(files.files[SMALLEST])
        small = replace(found.minimized, private_shows=minimizing.still_shows(search, path, effort))
        found = replace(found, minimized=small)
        return found, issue_files(found, self.graph, smallest, private=True, device=device)

    def _search(self) -> minimizing.Search | None:
        if not self.options.minimize:
            return None
        return minimizing.Search(self.options.minimize, self.candidate, self.graph, self._other(), self.folder)

    def _refuse(self, search: minimizing.Search | None, effort: Effort) -> None:
        """Say before any work what cannot be done."""
        if search is not None:
            minimizing.refuse(search)
        if self.options.versions:
            releases.refuse(self.candidate.plan, effort)
            for release in self.options.versions:
                ReleaseEnvironment(release)

    def _with_smallest(
        self, found: ModelFound, search: minimizing.Search | None, effort: Effort
    ) -> tuple[ModelFound, Path | None]:
        """The smallest part that shows the problem, and its file."""
        if search is None:
            return found, None
        # The time that was asked for is that of the checks; a search takes what it needs.
        small = minimizing.run(search, replace(effort, seconds=0.0))
        return replace(found, minimized=small), minimizing.smallest_path(self.folder) if small.shown else None

    def _with_releases(self, found: ModelFound, smallest: Path | None, effort: Effort) -> ModelFound:
        """The same model, or its smallest part, with other releases."""
        if not self.options.versions:
            return found
        model, plan = smallest or self.candidate.path, self.candidate.plan
        told = releases.run(model, plan, self.options.versions, self.options.minimize, effort)
        return replace(found, releases=told)

    def _checked(self, effort: Effort) -> ModelFound:
        """Everything but the smallest part and other releases."""
        candidate, graph = self.candidate, self.graph
        seen = _look(candidate, effort)
        effort.progress(0.9, "checking the file")
        profile = seen.profile
        fits = [replace(fit, left_share=left_share(fit, profile)) for fit in _fits(graph, seen, candidate.plan)]
        result = seen.result
        checks = (
            run_check(result, candidate.plan.describe()),
            *interface_check(None if seen.load is None else seen.load.api),
            *output_check(seen.broken_outputs),
            *static_checks(Subject(graph, profile)),
            *map(delegate_check, fits),
        )
        effort.progress(1.0, "done")
        return ModelFound(
            candidate.model,
            candidate.plan,
            checks,
            tuple(fits),
            None if isinstance(result, Failure) else result,
            result if isinstance(result, Failure) else None,
            profile,
        )

    def _other(self) -> Candidate:
        """The model and plan that do it right: those given, or the reference kernels where outputs are compared."""
        if self.options.against is not None:
            path, plan = self.options.against
            return model_candidate(path or str(self.candidate.path), plan)[0]
        if self.options.minimize == WRONG:
            return replace(self.candidate, plan=Plan(threads=self.candidate.plan.threads, kernel="reference"))
        return self.candidate


def _shared_out(effort: Effort, phases: Sequence[bool]) -> list[Effort]:
    """An effort for each phase, whose progress is a part of the whole; a phase that is left out has none."""
    found, count, begun = [], sum(phases), 0
    for is_run in phases:
        found.append(replace(effort, progress=_part_of(effort.progress, begun / count, 1 / count)))
        begun += is_run
    return found


def _part_of(progress: Progress, begin: float, width: float) -> Progress:
    def tell(share: float, text: str) -> None:
        progress(min(1.0, begin + width * share), text)

    return tell


def model_candidate(model: str | Path, plan: Plan) -> tuple[Candidate, Graph]:
    """A model as a candidate, also one that the engine is known not to run: that is what a doctor is for."""
    graph = read_graph(model)
    told = Model(str(graph.path), graph.size_bytes, graph.sha256)
    return Candidate(graph.path.name, graph.path, told, plan), graph


def with_doubts(candidate: Candidate, graph: Graph) -> Candidate:
    """The candidate with what makes its figures doubtful."""
    return replace(candidate, doubts=open_shape_doubts(graph, candidate.workload))


def refuse_options(options: DoctorOptions, out: Path | None) -> None:
    """Say before any work what cannot be done together."""
    if options.minimize and out is None:
        raise UsageError("--minimize writes the smallest model into the issue bundle.", "Give -o issue.zip.")
    if options.private and out is None:
        raise UsageError("--private changes the model in the issue bundle.", "Give -o issue.zip.")
    if options.against is not None and not options.minimize:
        raise UsageError("--against is what --minimize compares with.", "Give --minimize slow or --minimize wrong.")
    if out is not None and out.exists() and not options.replace:
        raise UsageError(f"{out} already exists.", "Choose another name.")


def _fits(graph: Graph, seen: _Seen, plan: Plan) -> list[DelegateFit]:
    """What each delegate takes: XNNPACK as it was seen, the others by their rules."""
    fits = [fit_by_rules(graph, delegate) for delegate in DELEGATES]
    placement = None if seen.load is None else seen.load.placement
    if placement is not None and plan.runs_on_cpu and plan.kernel == "delegate":
        fits[0] = fit_observed(graph, placement)
    return fits


@dataclass(frozen=True, slots=True)
class _Seen:
    """What happened when the model ran."""

    result: Measurement | Failure
    load: LoadReport | None = None
    broken_outputs: int | None = None
    """How many outputs are no numbers; None where it did not run."""
    profile: Profile | None = None


def _look(candidate: Candidate, effort: Effort) -> _Seen:
    """Run it once and look at placement and outputs, then time it and each operator."""
    effort.progress(0.0, "loading the model")
    seconds = effort.seconds_or(SECONDS)
    try:
        with effort.target.start(candidate.plan) as runner:
            load = runner.load(candidate.path, candidate.workload)
            answers = runner.evaluate(seeded_inputs(load.inputs))
            bad = sum(not _is_finite(data, info) for data, info in zip(answers, load.outputs, strict=True))
    except RunnerFailed as failed:
        return _Seen(failed.failure)

    def tell(share: float, text: str) -> None:
        effort.progress(_SHARE_OF_BENCH * share, f"timing: {text}")

    result = bench(effort.target, candidate, _SHARE_OF_BENCH * seconds, tell)
    effort.progress(_SHARE_OF_BENCH, "profiling")
    profile = _profile(candidate, effort, (1 - _SHARE_OF_BENCH) * seconds)
    return _Seen(result, load, bad, profile)


def _profile(candidate: Candidate, effort: Effort, seconds: float) -> Profile | None:
    """Where the time goes; None where the engine has no profiler for this model or plan."""
    try:
        graph = read_graph(candidate.path)
        found = profile_model(effort.target, candidate, graph, seconds, None, no_progress)
    except RunnerFailed:
        return None
    return None if isinstance(found, Failure) else found[0]


def _is_finite(data: bytes | memoryview, info: TensorInfo) -> bool:
    """Whether an output holds numbers only; types that NumPy lacks are not asked."""
    try:
        dtype = np.dtype(info.dtype)
    except TypeError:
        return True
    return dtype.kind not in "fc" or bool(np.isfinite(np.frombuffer(data, dtype)).all())
