"""The gate: size, times, memory and accuracy of a model against its limits, and against an older model or session."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from hasten.core.accuracy_notes import NOTES
from hasten.core.codec import to_data
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.core.machine import machine_facts
from hasten.core.session import keep_nothing
from hasten.evaluate.evaluation import EvaluationData, compare_evaluations
from hasten.evaluate.floor import floor_of_original
from hasten.evaluate.run import evaluate
from hasten.evaluate.scoring import check_labels
from hasten.gate.baseline import BaselineRun, session_row
from hasten.gate.rules import CheckResult, Row, accuracy_row, drop_row, exact_row
from hasten.gate.timing import TimedGate
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from hasten.core.session import Keep
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.evaluate.evaluation import Evaluation
    from hasten.gate.request import CheckRequest
    from hasten.measure.rounds import Candidate, Progress
    from hasten.targets.base import Target

    Failed = tuple[Candidate, Failure]


@dataclass
class CheckPractice:
    """A gate that has not begun. Whoever runs it can ask at any time how it stands."""

    target: Target
    candidate: Candidate
    request: CheckRequest
    baseline: Candidate | None = None
    runs: list[BaselineRun] | None = None
    """What the baseline session holds, if one is given."""
    dataset: Dataset | None = None
    metric: Metric | None = None
    keep: Keep = keep_nothing
    notes: list[str] = field(default_factory=list)
    _environment: dict[str, Any] = field(default_factory=dict)
    _evaluated: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.dataset is not None and not self.dataset.labelled and self.baseline is None:
            hint = "Give labelled data, or the older model (--baseline-model), whose answers are then what is right."
            raise DataError(f"{self.dataset.source} has no labels to check an accuracy by", hint)
        name = "" if self.baseline is None else baseline_name(self.candidate, self.baseline)
        self._gate = TimedGate(self.target, self.candidate, self.baseline, self.request.budget, name)

    def run(self, progress: Progress = no_progress) -> Failed | None:
        """Measure all that the limits ask for; or say which candidate failed. RunnerFailed: the target itself did."""
        if self.dataset is not None:
            graph, request = read_graph(self.candidate.path), self.request
            check_labels(graph, request.workload, self.dataset, self.metric, request.evaluation)
        timed = self.request.budget.is_timed or self.baseline is not None or self.runs is not None
        share = 0.6 if self.dataset is not None else 1.0
        failed = None
        if timed:
            self._environment = environment_of(self.target)
            self.keep("environment", "", self._environment)
            failed = self._time(lambda done, text: progress(share * done, text))
        if failed is None and self.dataset is not None:
            begin = share if timed else 0.0
            failed = self._evaluate(lambda done, text: progress(begin + (1 - begin) * done, text))
        return failed

    def found(self, *, interrupted: bool = False) -> CheckResult:
        """How it stands."""
        measured = self._gate.measurement()
        return CheckResult(
            model=self.candidate.model,
            plan=self.candidate.plan,
            budget=self.request.budget,
            rows=tuple(self._rows()),
            doubts=tuple(measured.doubts) if measured is not None else (),
            seconds=self._gate.seconds,
            strict=self.request.strict,
            interrupted=interrupted,
            notes=tuple(self.notes),
        )

    def _rows(self) -> list[Row]:
        budget, rows = self.request.budget, []
        if budget.size_bytes is not None:
            rows.append(exact_row("size", "bytes", self.candidate.model.size_bytes, budget.size_bytes))
        rows += self._gate.rows()
        measured = self._gate.measurement()
        if self.runs is not None and measured is not None:
            now = BaselineRun(measured, self._environment)
            rows.append(session_row(self.request.baseline_session, self.runs, now, budget.max_slowdown))
        return [*rows, *self._evaluated]

    def _time(self, progress: Progress) -> Failed | None:
        try:
            return self._gate.run(self.request.seconds, progress)
        finally:  # whatever ends it: what was measured is not lost
            self._keep_times()

    def _keep_times(self) -> None:
        label = str(self.candidate.path)
        if (measured := self._gate.measurement()) is not None:
            self.keep("measurement", label, to_data(measured))
        if self.baseline is not None and (compared := self._gate.comparison()) is not None:
            self.keep("comparison", f"{self.baseline.path} {label}", compared.as_data())

    def _evaluate(self, progress: Progress) -> Failed | None:
        dataset, budget = self.dataset, self.request.budget
        assert dataset is not None
        before: Evaluation | None = None
        if self.baseline is not None:
            old = self._evaluation(self.baseline, dataset, None, lambda done, text: progress(done / 2, text))
            if isinstance(old, Failure):
                return self.baseline, old
            before = old
        # Without labels the older model's answers are what is right.
        reference = None if dataset.labelled else before
        found = self._evaluation(self.candidate, dataset, reference, progress)
        if isinstance(found, Failure):
            return self.candidate, found
        self.keep("accuracy", str(self.candidate.path), found.as_data())
        self.notes += [note for note in NOTES.sentences(found.accuracy.notes) if note not in self.notes]
        if budget.accuracy is not None:
            higher = found.metric.higher_is_better
            self._evaluated.append(accuracy_row(found.accuracy, budget.accuracy, higher_is_better=higher))
        if before is not None and self.baseline is not None:
            paired = compare_evaluations(before, found)
            name = baseline_name(self.candidate, self.baseline)
            self._evaluated.append(drop_row(name, paired, floor_of_original(before, budget.max_drop)))
        return None

    def _evaluation(
        self, candidate: Candidate, dataset: Dataset, original: Evaluation | None, progress: Progress
    ) -> Evaluation | Failure:
        return evaluate(
            self.target,
            candidate,
            EvaluationData(dataset, self.request.preprocess, self.metric),
            options=self.request.evaluation,
            against=original,
            progress=progress,
        )


def baseline_name(candidate: Candidate, baseline: Candidate) -> str:
    """What to call the baseline: its file; its folder or its plan, where only these tell the two apart."""
    if baseline.path.name != candidate.path.name:
        return baseline.path.name
    return str(baseline.path) if baseline.path != candidate.path else baseline.plan.describe()


def environment_of(target: Target) -> dict[str, Any]:
    """What decides a latency beside model and plan: the machine, and the releases of all that runs on it."""
    return {**machine_facts(target.machine()), "hasten": version("hasten"), "target": target.name}
