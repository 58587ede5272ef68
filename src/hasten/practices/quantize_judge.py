"""The data's side of a search: variants evaluated on one half or the other, beside the original; what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy_notes import NOTES, SKIPPED
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.core.remark import remark
from hasten.core.units import percent
from hasten.data.forms import forms_from_graph
from hasten.data.metrics import FunctionMetric
from hasten.evaluate import words
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
from hasten.evaluate.floor import Baseline, baseline_of
from hasten.evaluate.intervals import interval_of_scores
from hasten.evaluate.other_outputs import RUINED, SAMPLES, OtherOutputs
from hasten.evaluate.run import evaluate
from hasten.evaluate.scoring import check_labels, metric_by_labels
from hasten.evaluate.sequential_test import Decision
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples, halves
from hasten.evaluate.sufficiency import commonest_label, data_sufficiency, doubt_by_chance
from hasten.model.reader import read_graph
from hasten.practices.quantize_io_types import inputs_by_scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.floor import Floor
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.evaluate.evaluation import Evaluation, Skipped
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.practices.quantize_records import QuantizeData, QuantizeSettings
    from hasten.targets.base import Target

CHOOSING: Final = "choosing"
REPORTING: Final = "reporting"


class QuantizeJudge:
    """Evaluates candidates. `tell` and `note` are told what is under way and what a reader should know."""

    def __init__(
        self,
        target: Target,
        candidate: Candidate,
        graph: Graph,
        data: QuantizeData,
        settings: QuantizeSettings,
        tell: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self.skipped: dict[str, str] = {}
        """Samples that were left out, and why."""
        self.evaluations = 0
        """How many times a model was evaluated on a half, or on as much of it as it took."""
        self.samples_run = 0
        self.against_choosing = ""
        """Why nothing can be chosen by this data, in a sentence; empty as long as nothing speaks against it."""
        self.remarks: dict[str, str] = {}
        """By a candidate's label: what is wrong with one that keeps the floor in the output that is judged."""
        self._target, self._candidate, self._graph = target, candidate, graph
        self._data, self._settings, self._tell, self._note = data, settings, tell, note
        self._halves: dict[str, Dataset] = {}
        self._originals: dict[str, Evaluation] = {}
        self._metric = data.metric
        self._calibration: list[dict[str, Any]] = []
        self._few: list[dict[str, Any]] = []
        self._outputs = forms_from_graph(graph, candidate.workload).outputs
        self._others: Evaluation | None = None

    def half(self, name: str) -> Dataset:
        """One half of the data; always the same samples."""
        if not self._halves:
            choosing, reporting = halves(self._data.dataset, self._settings.samples)
            self._halves = {CHOOSING: choosing, REPORTING: reporting}
        return self._halves[name]

    def original(self, half: str) -> Evaluation:
        """The original on one half of the data, evaluated once."""
        if half not in self._originals:
            if not self._originals:
                self._look_at_labels()
            self._tell(f"evaluating the original on the {half} half")
            found = self._evaluate(self._candidate, half)
            self._originals[half] = found
            self._metric = found.metric  # both halves have the same
            for note in found.accuracy.notes:
                if note.code != SKIPPED:  # they are listed, of both halves together
                    self._note(NOTES.text(note))
            if half == CHOOSING:
                self._weigh(found)
            elif not self.against_choosing:
                self._weigh_all()
        return self._originals[half]

    def floor(self, half: str) -> Floor:
        """What may be lost on one half of the data."""
        return self._baseline(half).floor

    def _baseline(self, half: str) -> Baseline:
        return baseline_of(self.original(half), self._settings.max_drop)

    def against_floor(self, candidate: Candidate) -> Evaluation:
        """A variant on the choosing half, until it is clear whether it keeps the floor.

        The decision is `unsure` where this data can decide nothing, and `broken` where another output is ruined.
        """
        baseline = self._baseline(CHOOSING)
        found = self._evaluate(candidate, CHOOSING, baseline, baseline.original)
        if found.decision is None:
            return found
        if self.against_choosing:
            return replace(found, decision=replace(found.decision, decision=Decision.UNSURE))
        if found.decision.decision is Decision.KEPT and (remark := self._ruined_output(candidate)):
            self.remarks[candidate.label] = remark
            return replace(found, decision=replace(found.decision, decision=Decision.BROKEN))
        return found

    def reported(self, candidate: Candidate) -> Evaluation:
        """A variant on all of the reporting half."""
        return self._evaluate(candidate, REPORTING, None, self.original(REPORTING))

    def calibration(self) -> list[dict[str, Any]]:
        """Samples for the ranges of activations; read once."""
        if not self._calibration:
            dataset = self._data.calibration
            if dataset is None:
                dataset = self.half(CHOOSING)
                self._note("ranges of activations come from samples of the choosing half: there was no --calibration")
            self._calibration = self._prepared(dataset, CALIBRATION_SAMPLES)
        return self._calibration

    def few_samples(self, count: int) -> list[dict[str, Any]]:
        """A few samples of the choosing half, by the names of the inputs."""
        if len(self._few) != count:
            self._few = self._prepared(self.half(CHOOSING), count)
        return self._few

    def _prepared(self, dataset: Dataset, limit: int) -> list[dict[str, Any]]:
        found, skipped = calibration_samples(
            self._graph,
            self._candidate.workload,
            dataset,
            self._data.preprocess,
            limit=limit,
            skip_bad=self._settings.skip_bad,
        )
        self._keep_skipped(skipped)
        return found

    def _look_at_labels(self) -> None:
        """Choose the metric by all of them, and find a bad one of either half before the work on the first."""
        workload, settings = self._candidate.workload, self._settings
        self._metric = self._metric or metric_by_labels(self._graph, workload, self._data.dataset)
        options = EvaluationOptions(skip_bad=settings.skip_bad, label_offset=settings.label_offset)
        for half in (CHOOSING, REPORTING):
            check_labels(self._graph, workload, self.half(half), self._metric, options)

    def _weigh(self, original: Evaluation) -> None:
        """Note what speaks against a choice by this data, and which output it is about."""
        found = data_sufficiency(
            baseline_of(original, self._settings.max_drop),
            self._outputs[0].elements,
            commonest_label(self.half(CHOOSING)),
        )
        if found.against is not None:
            self.against_choosing = self.against_choosing or words.BOOK.text(found.against)
        for doubt in found.doubts:
            self._note(words.told(doubt))
        if self._unseen_outputs(original.metric):
            judged = f"{self._outputs[0].name!r} of {len(self._outputs)}"
            self._note(
                f"only the output {judged} was judged by {original.metric.name}; "
                "whoever is far off in another is not chosen. A --metric module:function sees all of them"
            )

    def _weigh_all(self) -> None:
        """Take the choice back where both halves together show that one of them was luck."""
        if doubt := doubt_by_chance(list(self._originals.values()), self._outputs[0].elements):
            self.against_choosing = words.BOOK.text(remark(words.BY_CHANCE))
            self._note(words.told(doubt))

    def _unseen_outputs(self, metric: Metric) -> bool:
        """Whether there are outputs that the metric does not see: the user's own functions are given all of them."""
        built_in = type(metric).__module__.startswith("hasten.") and not isinstance(metric, FunctionMetric)
        return len(self._outputs) > 1 and built_in

    def _ruined_output(self, candidate: Candidate) -> str:
        """What is wrong with an output that the metric does not see; empty where nothing is."""
        if self.half(CHOOSING).is_random or not self._unseen_outputs(self.original(CHOOSING).metric):
            return ""
        metric = OtherOutputs(len(self._outputs) - 1)
        if self._others is None:
            self._others = self._evaluate_others(self._candidate, metric)
        found = self._evaluate_others(candidate, self._others.metric, self._others)
        assert isinstance(found.metric, OtherOutputs)
        errors = found.metric.errors(found.statistics.sum(axis=0))
        worst = int(np.argmax(errors))
        if errors[worst] <= RUINED:
            return ""
        off = percent(errors[worst]) if errors[worst] < 10 else "more than 1000%"
        return f"keeps the floor in {self._outputs[0].name!r}, but {self._outputs[worst + 1].name!r} is {off} off"

    def _evaluate_others(self, candidate: Candidate, metric: Metric, original: Evaluation | None = None) -> Evaluation:
        dataset = replace(self.half(CHOOSING), labelled=False)
        return self._run(candidate, dataset, metric, samples=SAMPLES, original=original)

    def _evaluate(
        self, candidate: Candidate, half: str, baseline: Baseline | None = None, original: Evaluation | None = None
    ) -> Evaluation:
        dataset = self.half(half)
        metric = self._metric if original is None else original.metric
        found = self._run(candidate, dataset, metric, baseline, None if dataset.labelled else original)
        self.evaluations += 1
        self.samples_run += len(found.positions)
        if original is None:
            self._keep_skipped(found.skipped)
            return found
        return _on_its_samples(original, found)

    def _run(
        self,
        candidate: Candidate,
        dataset: Dataset,
        metric: Metric | None,
        baseline: Baseline | None = None,
        original: Evaluation | None = None,
        *,
        samples: int | None = None,
    ) -> Evaluation:
        graph = read_graph(candidate.path)
        by_scale = inputs_by_scale(self._graph, graph, candidate.workload)
        skip_bad, offset = self._settings.skip_bad, self._settings.label_offset
        found = evaluate(
            self._target,
            candidate,
            EvaluationData(dataset, replace(self._data.preprocess, by_scale=by_scale), metric),
            options=EvaluationOptions(samples, skip_bad=skip_bad, label_offset=offset),
            against=baseline or original,
            graph=graph,
        )
        if isinstance(found, Failure):
            raise found.error(candidate.plan)
        return found

    def _keep_skipped(self, skipped: tuple[Skipped, ...]) -> None:
        for entry in skipped:
            self.skipped.setdefault(entry.name, entry.reason)


def _on_its_samples(original: Evaluation, found: Evaluation) -> Evaluation:
    """A variant's evaluation on the samples that the original was evaluated on, and on no others.

    One that the original could be judged by and the variant not is the variant's fault: leaving it out would hide that.
    """
    known = set(original.names)
    if failed := [entry for entry in found.skipped if entry.name in known]:
        raise DataError(failed[0].reason)
    positions = set(original.positions)
    rows = [row for row, position in enumerate(found.positions) if position in positions]
    if len(rows) == len(found.positions):
        return found
    statistics, metric = found.statistics[rows], found.metric
    value = interval_of_scores(statistics, metric)
    return replace(
        found,
        accuracy=replace(found.accuracy, value=value.estimate, low=value.low, high=value.high, samples=len(rows)),
        positions=tuple(found.positions[row] for row in rows),
        names=tuple(found.names[row] for row in rows),
        statistics=statistics,
    )
