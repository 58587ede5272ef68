"""The gate: size, times, memory and accuracy of a model against its limits, and against an older model or session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import Kind
from hasten.core.codec import to_data
from hasten.core.failure import MEMORY_LIMIT, Failure
from hasten.core.machine import machine_facts
from hasten.core.remark import each_once, remark
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.evaluation import EvaluationOptions, compare_evaluations, refuse_failed_samples
from hasten.evaluate.floor import floor_of_original
from hasten.evaluate.intervals import counts_samples
from hasten.evaluate.run import evaluate
from hasten.evaluate.scoring import check_labels, metric_by_labels
from hasten.evaluate.sufficiency import doubt_by_chance
from hasten.gate.baseline import BaselineRun, can_be_compared, session_row
from hasten.gate.facts import CheckFound, GateVerdict, Row
from hasten.gate.rules import accuracy_row, accuracy_unit, drop_row, exact_row, limited
from hasten.gate.timing import DEFAULT_SECONDS, TimedGate
from hasten.measure.rounds import FailedCandidate
from hasten.measure.study import outcome_of
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Dataset
    from hasten.evaluate.evaluation import Evaluation, EvaluationData
    from hasten.gate.request import CheckRequest
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate, Progress
    from hasten.targets.base import Target


@dataclass(frozen=True, slots=True)
class GateSubject:
    """The model to check, and what it is checked against."""

    candidate: Candidate
    baseline: Candidate | None = None
    runs: Sequence[BaselineRun] | None = None
    """What the baseline session holds, if one is given."""
    data: EvaluationData | None = None
    options: EvaluationOptions = field(default=EvaluationOptions())


def run(request: CheckRequest, subject: GateSubject, effort: Effort) -> CheckFound | FailedCandidate:
    """Measure all that the limits ask for; or say which candidate failed, and how."""
    found = outcome_of(_Gate(request, subject, effort))
    return FailedCandidate(subject.candidate, found) if isinstance(found, Failure) else found


class _Gate:
    """A gate while it is measured."""

    has_answer: Final = True

    def __init__(self, request: CheckRequest, subject: GateSubject, effort: Effort) -> None:
        self.request, self.subject, self.effort = request, subject, effort
        self.candidate, self.baseline = subject.candidate, subject.baseline
        self._name = "" if self.baseline is None else baseline_name(self.candidate, self.baseline)
        self._gate = TimedGate(effort.target, self.candidate, self.baseline, request.limits, self._name)
        self._is_same = self.baseline is not None and _is_same(self.candidate, self.baseline)
        self._notes = [remark("gate.same-model")] if self._is_same else []
        self._metric = None if subject.data is None else subject.data.metric
        self._environment: dict[str, Any] = {}
        self._evaluated: list[Row] = []

    def run(self) -> FailedCandidate | None:
        """Measure; which candidate failed, if one did."""
        failed = self._measure()
        # A model that does not fit into memory breaks a limit of memory; only without one, it cannot be checked.
        exhausted = failed is not None and failed.candidate is self.candidate and _is_too_large(failed.failure)
        if exhausted and self.request.limits.memory_mb is not None:
            self._gate.exhaust_memory()
            return None
        return failed

    def _measure(self) -> FailedCandidate | None:
        data, request, progress = self.subject.data, self.request, self.effort.progress
        if data is not None:
            limited = request.limits.accuracy is not None
            if not data.dataset.labelled and (limited or self.baseline is None):
                return FailedCandidate(self.candidate, _without_labels(data.dataset, limited=limited))
            graph = read_graph(self.candidate.path)
            self._metric = data.metric or metric_by_labels(graph, request.workload, data.dataset)
            check_labels(graph, request.workload, data.dataset, self._metric, self.subject.options)
        timed = request.limits.is_timed or self.baseline is not None or self.subject.runs is not None
        share = 0.6 if data is not None else 1.0
        failed = None
        if timed:
            self._environment = environment_of(self.effort.target)
            self.effort.keep("environment", "", self._environment)
            failed = self._time(lambda done, text: progress(share * done, text))
        if failed is None and data is not None:
            begin = share if timed else 0.0
            failed = self._evaluate(data, lambda done, text: progress(begin + (1 - begin) * done, text))
        return failed

    def found(self, *, interrupted: bool = False) -> CheckFound:
        """How it stands."""
        measured = self._gate.measurement()
        return CheckFound(
            model=self.candidate.model,
            plan=self.candidate.plan,
            rows=tuple(self._rows()),
            limits=self.request.limits,
            doubts=tuple(measured.doubts) if measured is not None else (),
            seconds=self._gate.seconds,
            bound_seconds=self._gate.bound_seconds,
            strict=self.request.undecided == "fail",
            interrupted=interrupted,
            notes=each_once(self._notes),
        )

    def _rows(self) -> list[Row]:
        limits, rows = self.request.limits, []
        if limits.size_bytes is not None:
            rows.append(exact_row("size", "bytes", self.candidate.model.size_bytes, limits.size_bytes))
        rows += self._gate.rows()
        measured = self._gate.measurement()
        if self.subject.runs is not None and measured is not None:
            now = BaselineRun(measured, self._environment)
            rows.append(session_row(self.request.baseline_session, self.subject.runs, now, limits.max_slowdown))
        elif self.subject.runs is not None:
            rows.append(limited("latency", "ratio", 1 + limits.max_slowdown, self.request.baseline_session))
        return [*rows, *(self._evaluated or self._to_evaluate())]

    def _to_evaluate(self) -> list[Row]:
        """The limits that an evaluation was to decide, where it did not come to that."""
        limits, data, rows = self.request.limits, self.subject.data, []
        if limits.accuracy is not None:
            metric = self._metric
            unit = "value" if metric is None else accuracy_unit(metric.name, counted=metric.proportion)
            row = limited("accuracy", unit, limits.accuracy)
            rows.append(replace(row, at_least=metric is None or metric.higher_is_better))
        if self.baseline is not None and data is not None:
            what = "accuracy lost" if data.dataset.labelled else "agreement lost"
            rows.append(limited(what, "share", limits.max_drop, self._name))
        return rows

    def _time(self, progress: Progress) -> FailedCandidate | None:
        against_session = can_be_compared(self.subject.runs or (), self.candidate, self._environment)
        try:
            return self._gate.run(self.effort.seconds_or(DEFAULT_SECONDS), progress, against_session=against_session)
        finally:  # whatever ends it: what was measured is not lost
            self._keep_times()

    def _keep_times(self) -> None:
        label = str(self.candidate.path)
        if (measured := self._gate.measurement()) is not None:
            self.effort.keep("measurement", label, to_data(measured))
        if self.baseline is not None and (compared := self._gate.comparison()) is not None:
            self.effort.keep("comparison", f"{self.baseline.path} {label}", compared.as_data())

    def _evaluate(self, data: EvaluationData, progress: Progress) -> FailedCandidate | None:
        limits = self.request.limits
        before: Evaluation | None = None
        if self.baseline is not None:
            old = self._evaluation(self.baseline, data, None, lambda done, text: progress(done / 2, text))
            if isinstance(old, Failure):
                return FailedCandidate(self.baseline, old)
            before = old
        # Without labels the older model's answers are what to agree with.
        reference = None if data.dataset.labelled else before
        found = self._evaluation(self.candidate, data, reference, progress)
        if isinstance(found, Failure):
            return FailedCandidate(self.candidate, found)
        self._refuse_failed_samples(before, found)
        self.effort.keep("accuracy", str(self.candidate.path), found.as_data())
        self._notes += found.accuracy.notes
        if limits.accuracy is not None:
            if found.metric.proportion and limits.accuracy > 1:
                return FailedCandidate(self.candidate, above_all(limits.accuracy))
            counted = counts_samples(found.metric, found.statistics)
            self._evaluated.append(accuracy_row(found.accuracy, limits.accuracy, counted=counted))
        if before is not None:
            self._evaluated.append(self._drop_row(before, found))
        return None

    def _refuse_failed_samples(self, before: Evaluation | None, found: Evaluation) -> None:
        if before is not None:
            refuse_failed_samples(found, before)
        if self.request.limits.accuracy is not None:  # it holds whatever the baseline fails on
            refuse_failed_samples(found)

    def _drop_row(self, before: Evaluation, found: Evaluation) -> Row:
        floor = floor_of_original(before, self.request.limits.max_drop)
        if self._is_same:  # there is nothing to estimate
            row = replace(exact_row("accuracy lost", floor.unit, 0.0, floor.allowed or 0.0), against=self._name)
        else:
            row = drop_row(self._name, compare_evaluations(before, found), floor)
            if row.verdict is GateVerdict.PASSED and self._guesses(before):
                row = replace(row, verdict=GateVerdict.UNDECIDED, why=remark("gate.baseline-guesses"))
        return row if found.accuracy.kind is Kind.ACCURACY else replace(row, what="agreement lost")

    def _guesses(self, before: Evaluation) -> bool:
        """Whether the baseline may be right by chance only: most likely it is fed wrongly, and nothing is worse."""
        assert self.baseline is not None
        outputs = forms_from_graph(read_graph(self.baseline.path), self.baseline.workload).outputs
        return doubt_by_chance([before], outputs[0].elements) is not None

    def _evaluation(
        self, candidate: Candidate, data: EvaluationData, original: Evaluation | None, progress: Progress
    ) -> Evaluation | Failure:
        return evaluate(
            self.effort.target, candidate, data, options=self.subject.options, against=original, progress=progress
        )


def _is_too_large(failure: Failure) -> bool:
    """Whether the model itself needs more memory than it may have."""
    return failure.code == MEMORY_LIMIT and failure.stage != "start"


def above_all(limit: float) -> Failure:
    """A limit on a share that nothing can reach."""
    message = f"A limit of accuracy={limit:g} asks for {100 * limit:g} %."
    return Failure("evaluate", "usage", message, f'Write it like this: --limit accuracy="{limit:g} %"')


def _without_labels(dataset: Dataset, *, limited: bool) -> Failure:
    """Agreement with an older model is no accuracy: both may be wrong."""
    message = f"{dataset.source} has no labels, so accuracy cannot be measured on it."
    instead = "leave out the limit on accuracy" if limited else "an older model to agree with (--baseline-model)"
    return Failure("evaluate", "data", message, f"Give labeled data, or {instead}.")


def _is_same(candidate: Candidate, baseline: Candidate) -> bool:
    first, second = ((entry.model.sha256, entry.plan, entry.workload) for entry in (candidate, baseline))
    return first == second


def baseline_name(candidate: Candidate, baseline: Candidate) -> str:
    """What to call the baseline: its file; its folder or its plan, where only these tell the two apart."""
    if baseline.path.name != candidate.path.name:
        return baseline.path.name
    if baseline.path != candidate.path:
        return str(baseline.path)
    return baseline.path.name if baseline.plan == candidate.plan else baseline.plan.describe()


def environment_of(target: Target) -> dict[str, Any]:
    """What decides a latency beside model and plan: the machine, and the releases of all that runs on it."""
    return {**machine_facts(target.machine()), "hasten": version("hasten"), "target": target.name}
