"""The data's side of a search: variants evaluated on one half or the other, beside the original; what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.failure import Failure
from hasten.measure.evaluate import EvaluationOptions, evaluate
from hasten.measure.floor_guard import Floor
from hasten.model.reader import read_graph
from hasten.practices.quantize_border import inputs_by_scale
from hasten.practices.quantize_data import CALIBRATION_SAMPLES, calibration_samples, halves

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.data.dataset import Dataset
    from hasten.measure.evaluation import Evaluation, Skipped
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
        self._target, self._candidate, self._graph = target, candidate, graph
        self._data, self._settings, self._tell, self._note = data, settings, tell, note
        self._halves: dict[str, Dataset] = {}
        self._originals: dict[str, Evaluation] = {}
        self._calibration: list[dict[str, Any]] = []
        self._few: list[dict[str, Any]] = []

    def half(self, name: str) -> Dataset:
        """One half of the data; always the same samples."""
        if not self._halves:
            choosing, reporting = halves(self._data.dataset, self._settings.samples)
            self._halves = {CHOOSING: choosing, REPORTING: reporting}
        return self._halves[name]

    def original(self, half: str) -> Evaluation:
        """The original on one half of the data, evaluated once."""
        if half not in self._originals:
            self._tell(f"evaluating the original on the {half} half")
            found = self._evaluate(self._candidate, half)
            self._originals[half] = found
            for note in found.accuracy.notes:
                if "bad samples" not in note:  # they are listed, of both halves together
                    self._note(note)
        return self._originals[half]

    def against_floor(self, candidate: Candidate) -> Evaluation:
        """A variant on the choosing half, until it is clear whether it keeps the floor."""
        original = self.original(CHOOSING)
        return self._evaluate(candidate, CHOOSING, Floor(original, self._settings.max_drop), original)

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
            self._graph, self._candidate.workload, dataset, self._data.preprocess,
            limit=limit, skip_bad=self._settings.skip_bad,
        )  # fmt: skip
        self._keep_skipped(skipped)
        return found

    def _evaluate(
        self, candidate: Candidate, half: str, floor: Floor | None = None, original: Evaluation | None = None
    ) -> Evaluation:
        dataset = self.half(half)
        graph = read_graph(candidate.path)
        by_scale = inputs_by_scale(self._graph, graph, candidate.workload)
        options = EvaluationOptions(skip_bad=self._settings.skip_bad, label_offset=self._settings.label_offset)
        found = evaluate(
            self._target, candidate, dataset, replace(self._data.preprocess, by_scale=by_scale),
            self._data.metric if original is None else original.metric,
            options=options, original=None if dataset.labelled else original, floor=floor,
            graph=graph,
        )  # fmt: skip
        if isinstance(found, Failure):
            raise found.error(candidate.plan)
        self.evaluations += 1
        self.samples_run += len(found.positions)
        self._keep_skipped(found.skipped)
        return found

    def _keep_skipped(self, skipped: tuple[Skipped, ...]) -> None:
        for entry in skipped:
            self.skipped.setdefault(entry.name, entry.reason)
