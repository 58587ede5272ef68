"""Profiles before and after a search, and practices run in full if there is time."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.errors import HastenError
from hasten.core.failure import Failure
from hasten.data.request import Data
from hasten.gate.facts import Limits
from hasten.measure.effort import Effort
from hasten.measure.peaks import measure_peaks
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import FailedCandidate, no_progress
from hasten.model.reader import read_graph
from hasten.practices.accelerators.facts import AcceleratorOptions
from hasten.practices.accelerators.run import run as run_accelerators
from hasten.practices.accelerators.view import session_lines as accelerators_lines
from hasten.practices.choose.candidates import precision_of, task_of
from hasten.practices.choose.facts import FLOAT, INT8, PRECISIONS, ChooseFound, ChooseRequest
from hasten.practices.choose.rules import finding_of as finding_of_choice
from hasten.practices.choose.run import Workplace
from hasten.practices.choose.run import run as run_choose
from hasten.practices.choose.view import session_lines as choose_lines
from hasten.practices.copies.rules import finding_of as finding_of_copies
from hasten.practices.copies.run import run as run_copies
from hasten.practices.copies.view import session_lines as copies_lines
from hasten.practices.help.facts import OTHER_LOAD, DoctorFound
from hasten.practices.help.rules import finding_of as finding_of_help
from hasten.practices.help.run import run as run_help
from hasten.practices.threads.facts import QUIET
from hasten.practices.threads.rules import finding_of as finding_of_threads
from hasten.practices.threads.run import run as run_threads
from hasten.practices.threads.view import session_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.finding import Finding
    from hasten.core.profile import Profile
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.search.folder import SearchFolder
    from hasten.search.settings import SearchSettings
    from hasten.targets.base import Target

_PROFILE_SECONDS: Final = 1.5
# About what each takes; what does not fit any more is left out, and its verdict says so.
_PEAKS_S: Final = 8.0
_HELP_S: Final = 8.0
_COPIES_S: Final = 10.0
_ACCELERATORS_S: Final = 30.0
_THREADS_S: Final = 60.0
# What is kept for the practices that come after.
_AFTER_CHOICE_S: Final = 10.0
_SHORTEST_CHOICE_S: Final = 5.0


def _precision(path: Path) -> str:
    """What models of the catalogue are built in to be timed next to this one: half of them are half of the time."""
    return INT8 if precision_of(read_graph(path)) == INT8 else FLOAT


@dataclass(slots=True)
class FullPractices:
    """Runs what still fits before the end of the budget; each part is saved as it ends."""

    target: Target
    folder: SearchFolder
    until: float
    tell: Callable[[str], None]
    profiles: list[Profile | None] = field(default_factory=lambda: [None, None])
    findings: dict[str, Finding] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    """Practices that there was no time for."""

    def profile(self, before: Candidate, after: Candidate, graph: Graph) -> None:
        """Where the time goes, for the original and for the result."""
        self.tell("profiles")
        peaks = measure_peaks(self.target, after.plan.threads) if self._left() > _PEAKS_S else None
        known = None if isinstance(peaks, Failure) else peaks
        same = (before.path, before.plan) == (after.path, after.plan)
        for place, candidate in enumerate([before] if same else [before, after]):
            if self._left() < 2 * _PROFILE_SECONDS:
                return
            label = ("before", "after")[place]
            model = graph if candidate.path == before.path else read_graph(candidate.path)
            found = profile_model(self.target, candidate, model, _PROFILE_SECONDS, known, no_progress)
            if isinstance(found, Failure):
                self.folder.keep("failure", f"profile {label}", {"message": found.message, "hint": found.hint})
                continue
            self.profiles[place] = found[0]
            self.folder.keep("profile", label, to_data(found[0]))
        if same:
            self.profiles[1] = self.profiles[0]

    def profiles_of(self, before: Candidate, after: Candidate) -> tuple[Profile | None, Profile | None]:
        """The profiles of this run, or else those of an earlier one, as long as they are of the same choice."""
        first = self.profiles[0] or self.folder.earlier_profile("before", before)
        if (before.path, before.plan) == (after.path, after.plan):
            return first, first
        return first, self.profiles[1] or self.folder.earlier_profile("after", after)

    def findings_about(self, after: Candidate) -> dict[str, Finding]:
        """The same of the practices that ran in full."""
        return {**self.folder.earlier_findings(after), **self.findings}

    def _found(self, finding: Finding, after: Candidate) -> None:
        self.findings[finding.practice] = finding
        self.folder.save_in_full(finding, after)

    def rest(self, before: Candidate, after: Candidate, graph: Graph) -> None:
        """Practices in full, the ones that tell most for their time first."""
        parts: list[tuple[str, float, Callable[[], None]]] = [
            ("help", _HELP_S, lambda: self._help(after)),
            ("copies", _COPIES_S, lambda: self._copies(after)),
            ("accelerators", _ACCELERATORS_S, lambda: self._accelerators(before, graph)),
            ("threads", _THREADS_S, lambda: self._threads(after)),
        ]
        for name, seconds, run in parts:
            if self._left() < seconds:
                self.skipped += [] if name in self.findings_about(after) else [name]
                continue
            self.tell(name)
            try:
                run()
            except HastenError as error:
                self.folder.keep("failure", name, {"message": error.message, "hint": error.hint})

    def choose(self, after: Candidate, graph: Graph, given: Data, settings: SearchSettings) -> None:
        """Other models for the task next to the result: those of the user on the data, else the catalogue's."""
        candidates = settings.candidates
        task = "" if candidates else task_of(graph, after.workload)
        if not task and not candidates:
            return  # nothing is known that does the same
        path = str(after.path)
        data = given if candidates else Data()
        request = ChooseRequest(
            task,
            (path, *candidates),
            data=data,
            precisions=PRECISIONS if candidates else (_precision(after.path),),
            limits=Limits(size_bytes=settings.limit.size_bytes),
            plan=after.plan,
            workload=after.workload,
            own=path,
        )
        seconds = max(_SHORTEST_CHOICE_S, self._left() - _AFTER_CHOICE_S)
        effort = Effort(seconds, self.target, lambda share, text: self.tell(f"other models: {text}"))
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
            try:
                found = run_choose(request, Workplace(Path(folder), Path(folder)), effort)
            except HastenError as error:
                self.folder.keep("failure", "choose", {"message": error.message, "hint": error.hint})
                return
        if isinstance(found, ChooseFound):
            self.folder.keep_all(choose_lines(found))
            self._found(finding_of_choice(found), after)
            return
        failure = found.failure if isinstance(found, FailedCandidate) else found
        self.folder.keep("failure", "choose", {"message": failure.message, "hint": failure.hint})

    def _left(self) -> float:
        return self.until - time.monotonic()

    def _help(self, after: Candidate) -> None:
        # The load average is that of the tuning itself.
        checks = run_help(Effort(on=self.target)).checks
        found = DoctorFound(tuple(check for check in checks if check.name != OTHER_LOAD))
        self._found(finding_of_help(found), after)

    def _copies(self, after: Candidate) -> None:
        found = run_copies(after, read_graph(after.path), "", Effort(_COPIES_S / 2, self.target))
        if not isinstance(found, Failure):
            self.folder.keep_all(copies_lines(replace(found, blocks=())))
            self._found(finding_of_copies(found), after)

    def _accelerators(self, before: Candidate, graph: Graph) -> None:
        effort = Effort(min(_ACCELERATORS_S, self._left() / 2), self.target)
        found = run_accelerators(before, graph, AcceleratorOptions(), effort)
        if not isinstance(found, Failure):
            self.folder.keep(*accelerators_lines(found)[0])

    def _threads(self, after: Candidate) -> None:
        if not after.plan.runs_on_cpu:
            return  # the number of threads is not what its time hangs on
        effort = Effort(min(_THREADS_S, self._left()), self.target)
        found = run_threads(after, QUIET, (), effort)
        if not isinstance(found, Failure):
            self.folder.keep_all(session_lines(found))
            self._found(finding_of_threads(found), after)
