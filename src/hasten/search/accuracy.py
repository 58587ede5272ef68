"""Accuracy for a search: variants evaluated on one part of the data or the other, next to the original."""

from __future__ import annotations

import math
import reprlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy import Kind
from hasten.core.accuracy_notes import SKIPPED
from hasten.core.codec import to_data
from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.remark import Remark, remark
from hasten.core.trial import CHOOSING, NOTHING, REPORTING, Stage, Status, status_of
from hasten.data.metrics import FunctionMetric
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions, compare_evaluations, refuse_failed_samples
from hasten.evaluate.floor import Baseline, baseline_of
from hasten.evaluate.intervals import interval_of_scores
from hasten.evaluate.other_outputs import RUINED, SAMPLES, OtherOutputs
from hasten.evaluate.prepared import PreparedSamples
from hasten.evaluate.run import evaluate
from hasten.evaluate.runner_pool import IdleRunners
from hasten.evaluate.scoring import check_labels, metric_by_labels
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples, parts
from hasten.evaluate.sufficiency import commonest_label, data_sufficiency, doubt_by_chance
from hasten.evaluate.words import BY_CHANCE
from hasten.measure.opening import error_of
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hasten.core.floor import Floor, FloorVerdict
    from hasten.core.plan import Workload
    from hasten.core.trial import Trial
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.data.request import OpenData
    from hasten.evaluate.evaluation import Evaluation
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.search.settings import SearchSettings
    from hasten.targets.base import Target

# What a budget allows for one evaluation of the original on the choosing part; and on the reporting part for two, that
# of the original and of the choice.
_CHOOSING_SHARE: Final = 0.15
_REPORTING_SHARE: Final = 0.2
# However short a budget is: with fewer, drops below about 4 and 3 points cannot be told from none.
FEWEST: Final = {CHOOSING: 100, REPORTING: 200}
# The quantile of a 95 % interval.
_SURE: Final = 1.96
# What the start of the runners takes of a first evaluation, and of no later one.
_START_S: Final = 1.0
_ANEW: Final = "Begin again with another -o."
LIMITED: Final = "limited"
"""Where a floor's data tells which samples a budget allowed."""


class AccuracyJudge:
    """Evaluates candidates. `tell` and `note` are told what is under way and what a reader should know."""

    def __init__(
        self,
        target: Target,
        original: tuple[Candidate, Graph],
        data: OpenData,
        settings: SearchSettings,
        tell: Callable[[str], None],
        note: Callable[[Remark], None],
    ) -> None:
        self.skipped: dict[str, str] = {}
        """Samples that were left out, and why."""
        self.evaluations = 0
        """How many times a model was evaluated on a part, or on as much of it as it took."""
        self.samples_run = 0
        self.against_choosing = NOTHING
        """Why nothing can be chosen by this data, as far as something speaks against it."""
        self.evaluate: Callable[..., Evaluation | Failure] = evaluate
        """What runs a model over data: `evaluate`, or what does the same on more machines."""
        self._target, self._data = target, data
        self._max_drop, self._strict = settings.max_drop, settings.strict
        self._candidate, self._graph = original
        self._tell, self._note = tell, note
        self._parts: dict[str, Dataset] = {}
        self._budget_s, self._sample_s = math.inf, 0.0
        self._limits: dict[str, int] = {}
        """Part → the most samples to judge by; a part that is not named is used whole."""
        self._originals: dict[str, Evaluation] = {}
        self._metric = data.metric
        self._calibration: list[dict[str, Any]] = []
        self._few: list[dict[str, Any]] = []
        self._outputs = forms_from_graph(self._graph, self._candidate.workload).outputs
        self._others: Evaluation | None = None
        self._shelves, self._idle = PreparedSamples(), IdleRunners(target)

    def close(self) -> None:
        """End the runners that wait for another candidate."""
        self._idle.close()

    def part(self, name: str) -> Dataset:
        """One part of the data; always the same samples."""
        if not self._parts:
            choosing, reporting = parts(self._data.dataset, self._data.given.samples)
            self._parts = {CHOOSING: choosing, REPORTING: reporting}
        return self._parts[name]

    def original(self, part: str) -> Evaluation:
        """The original on one part of the data, evaluated once."""
        if part not in self._originals:
            if not self._originals:
                self._look_at_labels()
            self._tell(f"evaluating the original on the {part} part")
            found = self._evaluate(self._candidate, part)
            self._originals[part] = found
            self._metric = found.metric  # both parts have the same
            # What it really took, with reading and preparing; a model's time alone where that was too short to tell.
            self._sample_s = max(0.0, found.seconds - _START_S) / len(found.positions) or self._sample_s
            for note in found.accuracy.notes:
                if note.code != SKIPPED:  # they are listed, of both parts together
                    self._note(note)
            if part == CHOOSING:
                self._weigh(found)
            elif self.against_choosing == NOTHING:
                self._weigh_all()
        return self._originals[part]

    def fit_budget(self, budget_s: float, run_s: float, earlier: Mapping[str, Any] | None = None) -> None:
        """Judge by no more samples than this budget allows, where a run of the original takes so long.

        Which ones is drawn at random and the same for all models. A stream is used whole: its beginning says nothing
        about its end. `earlier` is the floor's data of an earlier run, which has judged: its samples are used again,
        whatever the budget is now, as only like is compared with like.
        """
        plan, self._budget_s = self._candidate.plan, budget_s
        self._sample_s = run_s * plan.threads / self._target.machine().cores if plan.runs_on_cpu else run_s
        if earlier is not None:
            self._adopt(earlier)
        else:
            if self.evaluate is evaluate:  # how fast several machines are shows in what they have done
                self._limit(CHOOSING, _CHOOSING_SHARE * budget_s)
            self.original(CHOOSING)
            self._limit(REPORTING, _REPORTING_SHARE * budget_s / 2)
        if limited := self.limits_data.get(LIMITED):
            self._note(remark("search.samples-limited", **limited))

    def _adopt(self, earlier: Mapping[str, Any]) -> None:
        """The samples of an earlier run, of whose data anybody may have made something else."""
        limited = earlier.get(LIMITED, {})
        known = limited if isinstance(limited, dict) else {}
        counts = {part: known[part] for part in (CHOOSING, REPORTING) if part in known}
        if any(not isinstance(count, int) or count < 1 for count in counts.values()) or known is not limited:
            raise DataError(f"The session has {reprlib.repr(limited)} in place of numbers of samples.", _ANEW)
        self._limits = counts
        if isinstance(budget_s := known.get("budget_s"), int | float):
            self._budget_s = float(budget_s)

    @property
    def limits_data(self) -> dict[str, Any]:
        """The samples that the budget allows, for the data of the floor; empty where it allows all."""
        if not self._limits:
            return {}
        counts = {part: self._judged_count(part) for part in (CHOOSING, REPORTING)}
        total = sum(self.part(part).count or 0 for part in counts)
        return {LIMITED: {**counts, "samples": sum(counts.values()), "total": total, "budget_s": self._budget_s}}

    @property
    def reporting_s(self) -> float:
        """About what the original and a choice take on the reporting part; 0 where nothing tells."""
        return 2 * self._sample_s * self._judged_count(REPORTING) if self._sample_s else 0.0

    def _judged_count(self, part: str) -> int:
        return self._limits.get(part) or self.part(part).count or 0

    def _limit(self, part: str, seconds: float) -> None:
        count = self.part(part).count
        if count is not None and (most := affordable(self._fewest(part), count, seconds, self._sample_s)) is not None:
            self._limits[part] = most

    def _fewest(self, part: str) -> int:
        """What verdicts need at least: where only a proof counts, as many as prove the floor if no sample is lost."""
        allowed = self._max_drop
        if not self._strict or not 0 < allowed < 1:
            return FEWEST[part]
        return max(FEWEST[part], math.ceil(_SURE * _SURE * (1 - allowed) / allowed))

    def floor(self, part: str) -> Floor:
        """What may be lost on one part of the data."""
        return self._baseline(part).floor

    def _baseline(self, part: str) -> Baseline:
        return baseline_of(self.original(part), self._max_drop)

    def judged(self, trial: Trial, candidate: Candidate) -> Trial:
        """The trial with its state against the floor, as far as the choosing part tells; evaluated until that is clear.

        It is unknown where this data can decide nothing, and broken where an output is ruined that no metric sees. What
        cannot be evaluated has failed.
        """
        baseline = self._baseline(CHOOSING)
        try:
            found = self._evaluate(candidate, CHOOSING, baseline, baseline.original)
            verdict = found.decision
            assert verdict is not None, "it was asked for"
            state, why = verdict.state, NOTHING
            if self.against_choosing != NOTHING or found.accuracy.kind is Kind.UNKNOWN:
                state = FloorState.UNKNOWN
            allowed = verdict.may_be_chosen(baseline.floor, strict=self._strict)
            if state is FloorState.UNDECIDED and not allowed:
                why = remark("trial.undecided", lost=self.lost(CHOOSING, verdict), strict=self._strict)
            elif state is not FloorState.UNKNOWN and allowed and (why := self._ruined_output(candidate)) != NOTHING:
                state = FloorState.BROKEN
        except UsageError:
            raise
        except HastenError as error:
            return failed_trial(trial, error.message, Stage.ACCURACY)
        return replace(
            trial,
            floor=state,
            refused=state is FloorState.UNDECIDED and not allowed,
            judged=verdict,
            status=status_of(state, trial.status),
            stage=Stage.ACCURACY,
            choosing=found.accuracy,
            drop=verdict.drop,
            why=why,
        )

    def reported(self, trial: Trial, candidate: Candidate, *, optimistic: bool = False) -> Trial:
        """The trial with its accuracy and its state against the floor on the reporting part; `optimistic` where this
        part has refused others before. With --strict, it decides."""
        found = self._evaluate(candidate, REPORTING, None, self.original(REPORTING))
        change = compare_evaluations(self.original(REPORTING), found)
        verdict = self.floor(REPORTING).judge(change)
        trial = replace(
            trial,
            reporting=found.accuracy,
            change=change,
            reported=verdict,
            optimistic=optimistic or self._strict,
            floor=verdict.state,
            status=status_of(verdict.state, trial.status),
        )
        if not verdict.gives_way(strict=self._strict):
            return trial
        code = "trial.loses-on-other-half" if verdict.state is FloorState.BROKEN else "trial.unproven-on-reporting"
        why = remark(code, lost=self.lost(REPORTING, verdict))
        return replace(trial, refused=verdict.state is FloorState.UNDECIDED, why=why)

    def lost(self, part: str, verdict: FloorVerdict) -> dict[str, Any]:
        """A loss as facts of a remark."""
        return {**to_data(verdict), "floor": to_data(self.floor(part))}

    def calibration(self) -> list[dict[str, Any]]:
        """Samples for the ranges of activations; read once."""
        if not self._calibration:
            dataset = self._data.calibration
            if dataset is None:
                dataset = self.part(CHOOSING)
                source = "noise" if dataset.is_random else "choosing"
                self._note(remark(f"search.calibration-from-{source}"))
            self._calibration = self._prepared(dataset, CALIBRATION_SAMPLES)
        return self._calibration

    def few_samples(self, count: int) -> list[dict[str, Any]]:
        """A few samples of the choosing part, by the names of the inputs."""
        if len(self._few) != count:
            self._few = self._prepared(self.part(CHOOSING), count)
        return self._few

    def _prepared(self, dataset: Dataset, limit: int) -> list[dict[str, Any]]:
        given = self._data.given
        found, skipped = calibration_samples(
            self._graph, self._candidate.workload, dataset, self._data.preprocess, limit=limit, skip_bad=given.skip_bad
        )
        self.skipped |= {entry.name: entry.reason for entry in skipped if entry.name not in self.skipped}
        return found

    def _look_at_labels(self) -> None:
        """Choose the metric by all of them, and find a bad one of either part before the work on the first."""
        workload = self._candidate.workload
        self._metric = self._metric or metric_by_labels(self._graph, workload, self._data.dataset)
        for part in (CHOOSING, REPORTING):
            check_labels(self._graph, workload, self.part(part), self._metric, self._options())

    def _weigh(self, original: Evaluation) -> None:
        """Note what speaks against a choice by this data, and which output it is about."""
        found = data_sufficiency(
            baseline_of(original, self._max_drop), self._outputs[0].elements, commonest_label(self.part(CHOOSING))
        )
        if self.against_choosing == NOTHING and found.against is not None:
            self.against_choosing = found.against
        for doubt in found.doubts:
            self._note(doubt)
        if self._unseen_outputs(original.metric):
            name, count = self._outputs[0].name, len(self._outputs)
            self._note(remark("search.one-output-judged", output=name, count=count, metric=original.metric.name))

    def _weigh_all(self) -> None:
        """Withdraw the choice if both parts together contradict it."""
        if doubt := doubt_by_chance(list(self._originals.values()), self._outputs[0].elements):
            self.against_choosing = remark(BY_CHANCE)
            self._note(doubt)

    def _unseen_outputs(self, metric: Metric) -> bool:
        """Whether there are outputs that the metric does not see: the user's own functions are given all of them."""
        built_in = type(metric).__module__.startswith("hasten.") and not isinstance(metric, FunctionMetric)
        return len(self._outputs) > 1 and built_in

    def _ruined_output(self, candidate: Candidate) -> Remark:
        """What is wrong with an output that the metric does not see."""
        if self.part(CHOOSING).is_random or not self._unseen_outputs(self.original(CHOOSING).metric):
            return NOTHING
        if self._others is None:
            self._others = self._evaluate_others(self._candidate, OtherOutputs(len(self._outputs) - 1))
        found = self._evaluate_others(candidate, self._others.metric, self._others)
        assert isinstance(found.metric, OtherOutputs)
        errors = found.metric.errors(found.statistics.sum(axis=0))
        worst = int(np.argmax(errors))
        if errors[worst] <= RUINED:
            return NOTHING
        judged, output = self._outputs[0].name, self._outputs[worst + 1].name
        return remark("trial.ruined-output", judged=judged, output=output, error=float(errors[worst]))

    def _evaluate_others(self, candidate: Candidate, metric: Metric, original: Evaluation | None = None) -> Evaluation:
        dataset = replace(self.part(CHOOSING), labelled=False)
        return self._run(candidate, dataset, metric, original, self._options(SAMPLES))

    def _evaluate(
        self, candidate: Candidate, part: str, baseline: Baseline | None = None, original: Evaluation | None = None
    ) -> Evaluation:
        dataset = self.part(part)
        metric = self._metric if original is None else original.metric
        against = baseline or (None if dataset.labelled else original)
        found = self._run(candidate, dataset, metric, against, self._options(self._limits.get(part)))
        self.evaluations += 1
        self.samples_run += len(found.positions)
        if original is not None:
            return _on_its_samples(original, found)
        for entry in found.skipped:
            self.skipped.setdefault(entry.name, entry.reason)
        return found

    def _run(
        self,
        candidate: Candidate,
        dataset: Dataset,
        metric: Metric | None,
        against: Baseline | Evaluation | None,
        options: EvaluationOptions,
    ) -> Evaluation:
        graph = read_graph(candidate.path)
        by_scale = inputs_by_scale(self._graph, graph, candidate.workload)
        preprocess = replace(self._data.preprocess, by_scale=by_scale)
        data = EvaluationData(dataset, preprocess, metric, self._shelves, self._idle)
        found = self.evaluate(self._target, candidate, data, options=options, against=against, graph=graph)
        if isinstance(found, Failure):
            raise error_of(found, candidate, self._target)
        return found

    def _options(self, samples: int | None = None) -> EvaluationOptions:
        given = self._data.given
        return EvaluationOptions(samples, skip_bad=given.skip_bad, label_offset=given.label_offset)


def affordable(fewest: int, count: int, seconds: float, sample_s: float) -> int | None:
    """The most of `count` samples that so many seconds are enough for, and no less than `fewest`; None for all.

    Numbers go in steps of two, so that times that differ by chance lead to the same samples.
    """
    if count <= fewest or count * sample_s <= seconds:
        return None
    return int(fewest * 2 ** max(0, math.floor(math.log2(max(seconds / sample_s, 1.0) / fewest))))


def failed_trial(trial: Trial, message: str, stage: Stage = Stage.RACE) -> Trial:
    """A trial that cannot be made, run or evaluated, with the reason."""
    why = remark("trial.failed", message=message)
    return replace(trial, floor=FloorState.FAILED, status=Status.FAILED, stage=stage, why=why)


def inputs_by_scale(original: Graph, variant: Graph, workload: Workload) -> tuple[str, ...]:
    """The inputs that are integers in the variant and floats in the original."""
    pairs = zip(forms_from_graph(original, workload).inputs, forms_from_graph(variant, workload).inputs, strict=True)
    return tuple(form.name for before, form in pairs if before.is_float and form.is_quantized)


def _on_its_samples(original: Evaluation, found: Evaluation) -> Evaluation:
    """A variant's evaluation on the samples that the original was evaluated on, and on no others."""
    refuse_failed_samples(found, original)
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
