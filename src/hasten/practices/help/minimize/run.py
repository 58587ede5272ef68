"""Finds the smallest part of a model that still shows a problem: bisection on the graph, one test after the other."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.errors import Interrupted, UsageError
from hasten.core.measurement import Model
from hasten.core.plan import Workload
from hasten.core.remark import remark
from hasten.explanation.inner_tensors import Subject
from hasten.measure.schedule import Schedule
from hasten.model.reader import read_graph
from hasten.practices.help.minimize.facts import CRASH, PROBLEMS, SLOW, Minimized
from hasten.practices.help.minimize.journal import Journal, journal_for
from hasten.practices.help.minimize.parts import Cutter, InnerValues, Part
from hasten.practices.help.minimize.problems import Crash, Shown, Slow, Wrong
from hasten.practices.help.minimize.reduction import reductions

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.practices.help.minimize.problems import Problem
    from hasten.practices.help.minimize.reduction import Nodes

SECONDS: Final = 1800.0
"""About how long a search may take; what is found by then is shown, and the next one goes on from there."""


NO_MODEL: Final = remark("minimize.no-model")
"""Of nodes that make no model of their own."""


class _TimeIsUp(Exception):
    """The search ends with what it has."""


@dataclass(frozen=True, slots=True)
class Search:
    """A model with a problem, and the model and plan that do it right."""

    problem: str
    candidate: Candidate
    graph: Graph
    other: Candidate
    folder: Path
    """Where parts are written; the smallest is `smallest.tflite`."""


def run(search: Search, effort: Effort) -> Minimized:
    """The smallest part. After Ctrl-C, the smallest until then comes as `Interrupted.found`."""
    refuse(search)
    total = len(search.graph.main.nodes)
    cutter = Cutter(search.candidate, search.other, total, search.folder)
    with_other = search.other.plan != search.candidate.plan or search.other.path != search.candidate.path
    journal = journal_for(
        search.problem,
        search.candidate.model.sha256,
        search.other.model.sha256,
        asdict(search.candidate.plan),
        asdict(search.other.plan),
        effort.target.machine().engine,
        effort.target.machine().cpu,
    )
    journal.remember()
    against = search.other.plan.describe() if with_other else ""
    tester = _Tester(_problem(search, effort, with_other), cutter, journal, effort, len(journal.known), against)
    try:
        return tester.search(search, total)
    finally:
        journal.close()


def still_shows(search: Search, model: Path, effort: Effort) -> bool | None:
    """Whether a copy of the smallest part with other weights shows the problem; None where that cannot be told.

    A model to compare with has its own weights, which such a copy does not have.
    """
    if search.other.path != search.candidate.path:
        return None
    total = len(search.graph.main.nodes)
    whole = Cutter(search.candidate, search.other, total, search.folder).part(tuple(range(total)))
    assert whole is not None, "the whole file is a model"
    problem = _problem(search, effort, search.other.plan != search.candidate.plan)
    problem.of_whole(whole)
    graph = read_graph(model)
    told = Model(str(model), graph.size_bytes, graph.sha256)
    copy = replace(search.candidate, label="private", path=model, model=told, workload=Workload(), doubts=())
    return problem.of_part(Part(whole.nodes, copy, replace(copy, plan=search.other.plan))).yes


def smallest_path(folder: Path) -> Path:
    """Where a search leaves the smallest part."""
    return folder / "smallest.tflite"


def _problem(search: Search, effort: Effort, with_other: bool) -> Problem:
    if search.problem == CRASH:
        return Crash(effort.target)
    if search.problem == SLOW:
        return Slow(effort.target, with_other)
    whole = Subject(search.other, read_graph(search.other.path))
    return Wrong(effort.target, InnerValues(effort.target, whole))


def refuse(search: Search) -> None:
    """Say what cannot be searched before anything is run."""
    if search.problem not in PROBLEMS:
        raise UsageError(f"There is no problem {search.problem!r}.", f"Use one of: {', '.join(PROBLEMS)}.")
    signature = search.graph.signature(search.candidate.workload.signature or None)
    if search.candidate.workload.shapes or (signature is not None and signature.subgraph != 0):
        raise UsageError(
            "--minimize cuts parts out of the main graph with the shapes of the file only.",
            "Leave out --shape and --signature, or export the model with these shapes.",
        )
    ops, others = ([node.op for node in read_graph(one.path).main.nodes] for one in (search.candidate, search.other))
    if ops != others:
        raise UsageError(
            f"{search.other.path.name} has other operators than {search.candidate.path.name}.",
            "Give a copy of the model with the same nodes, or compare two plans, as in --against @kernel=reference.",
        )


@dataclass(slots=True)
class _Tester:
    """Asks each question once, whoever asked it before."""

    problem: Problem
    cutter: Cutter
    journal: Journal
    effort: Effort
    remembered: int
    against: str
    tests: int = 0
    schedule: Schedule | None = None

    def search(self, search: Search, total: int) -> Minimized:
        self.schedule = Schedule(self.effort.seconds_or(SECONDS))
        nodes: Nodes = tuple(range(total))
        self.effort.progress(0.0, f"testing all {total} nodes")
        whole = self.cutter.part(nodes)
        assert whole is not None, "the whole file is a model"
        first = self.problem.of_whole(whole)
        self.tests += 1
        found = Minimized(
            self.problem.name,
            first.yes,
            total,
            nodes,
            (),
            self.tests,
            self.remembered,
            first.evidence,
            first.evidence,
            self.against,
        )
        if not first.yes or total == 0:
            return self._told(search, found, nodes)
        try:
            for smaller in reductions(nodes, self._shows):
                nodes = smaller
                found = replace(found, part=self.journal.known[nodes].evidence)
        except _TimeIsUp:
            return self._told(search, replace(found, complete=False), nodes)
        except KeyboardInterrupt:
            raise Interrupted(self._told(search, replace(found, complete=False), nodes)) from None
        return self._told(search, found, nodes)

    def _shows(self, nodes: Nodes) -> bool:
        known = self.journal.known.get(nodes)
        if known is None:
            assert self.schedule is not None
            if self.schedule.left_s <= 0:
                raise _TimeIsUp
            self.effort.progress(self._share(), f"testing {len(nodes)} of {self.cutter.total} nodes")
            known = self._test(nodes)
            self.journal.add(nodes, known)
        return known.yes

    def _share(self) -> float:
        """How far the search is: each halving of the smallest part counts alike."""
        shown = [len(nodes) for nodes, known in self.journal.known.items() if known.yes]
        total = max(2, self.cutter.total)
        return 1 - math.log(max(1, min(shown, default=total))) / math.log(total)

    def _test(self, nodes: Nodes) -> Shown:
        part = self.cutter.part(nodes)
        self.tests += 1
        return Shown(False, NO_MODEL) if part is None else self.problem.of_part(part)

    def _told(self, search: Search, found: Minimized, nodes: Nodes) -> Minimized:
        """What was found, with the smallest part written."""
        part = self.cutter.part(nodes)
        assert part is not None, "only parts that ran are kept"
        smallest_path(search.folder).write_bytes(part.candidate.path.read_bytes())
        labels = tuple(search.graph.main.nodes[index].label for index in nodes)
        return replace(found, nodes=nodes, operators=labels, tests=self.tests)
