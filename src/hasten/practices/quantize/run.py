"""The guide's "Optimize your model": variants by recipe, with measured accuracy, size and speed, under a floor.

One half of the data decides which variants keep the floor, the other tells how accurate they are; those that run are
timed against the original in interleaved rounds. Each step is saved as it ends, and a rerun goes on from there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasten.core.accuracy_notes import NOTES
from hasten.core.codec import to_data
from hasten.core.errors import HastenError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Finding, told_finding
from hasten.core.measurement import Model
from hasten.core.quantization import FAILED, KEPT, ORIGINAL, VariantRow, choose, explain_choice, finding_of, floor_of
from hasten.evaluate.fingerprint import file_hash
from hasten.evaluate.sequential_test import Decision
from hasten.evaluate.words import floor_data
from hasten.measure.bench import DEFAULT_SECONDS, bench
from hasten.measure.rounds import Candidate, Progress, Rounds, no_progress
from hasten.model.reader import read_graph
from hasten.practices.mixed_precision import mix
from hasten.practices.pruned_variants import judge_pruned, note_kernels, note_sparsity
from hasten.practices.quantize_course import Course
from hasten.practices.quantize_folder import FolderError
from hasten.practices.quantize_io_types import io_type_notes, types_still
from hasten.practices.quantize_judge import CHOOSING, REPORTING, QuantizeJudge
from hasten.practices.quantize_race import race, timed_row
from hasten.practices.quantize_records import QuantizeResult, feeding_options
from hasten.practices.quantize_reporting import report_on_other_half
from hasten.practices.slow_nodes import leave_slow_nodes
from hasten.variants.already_quantized import AlreadyQuantizedError, integer_share, refuse_quantized
from hasten.variants.maker import VariantMaker
from hasten.variants.pruning import Pruning
from hasten.variants.recipes import Recipe, recipe_from_name
from hasten.variants.variant import zipped_bytes
from hasten.variants.words import told

if TYPE_CHECKING:
    from collections.abc import Collection

    from hasten.explain.node_gains import Gains
    from hasten.model.graph import Graph
    from hasten.practices.quantize_folder import QuantizeFolder
    from hasten.practices.quantize_records import QuantizeData, QuantizeSettings
    from hasten.targets.base import Target
    from hasten.variants.variant import Variant


@dataclass(slots=True)
class QuantizePractice:
    """A search that can be asked at any time what it has found so far."""

    target: Target
    candidate: Candidate
    graph: Graph
    data: QuantizeData
    settings: QuantizeSettings
    folder: QuantizeFolder
    progress: Progress = no_progress
    already: str = ""
    gains: dict[str, Gains | None] = field(default_factory=dict)
    """What each node gains by a recipe, as far as it was measured."""
    maker: VariantMaker = field(init=False)
    judges: QuantizeJudge = field(init=False)
    _course: Course = field(init=False)

    def __post_init__(self) -> None:
        self._course = Course(mixes=self.settings.mix)
        self.maker = VariantMaker(self.candidate.path, self.candidate.workload.signature, self.settings.io_types)
        self.judges = QuantizeJudge(
            self.target,
            self.candidate,
            self.graph,
            self.data,
            self.settings,
            tell=lambda text: self.tell(0.0, text),
            note=self.note,
        )

    def run(self, progress: Progress = no_progress) -> None:
        """All of it: make and judge each recipe, time what runs, report on the other half."""
        self.progress = progress
        try:
            self._run()
        finally:
            self.maker.close()

    def close(self) -> None:
        """Leave nothing running or half made."""
        self.maker.close()
        self.folder.close()

    def found(self) -> QuantizeResult:
        """What there is now."""
        rows = self.rows
        best = choose(rows, self.settings.goal)
        why = self.already or explain_choice(rows, self.settings.goal)
        if best.recipe == ORIGINAL:
            why = " ".join((why, *types_still(self.graph, self.candidate.workload, self.settings.io_types)))
        return QuantizeResult(
            rows=tuple(rows),
            chosen=best.recipe,
            path=str(self.folder.path / "chosen.tflite"),
            why=why,
            finding=_with_evidence(finding_of(rows, self.settings.goal, self.already), why),
            max_drop=self.settings.max_drop,
            goal=self.settings.goal,
            data=self.data.dataset.source,
            sensitivity=tuple(self.folder.sensitivities),
            notes=self._notes(),
            already=self.already,
            resumed=self.folder.resumed,
            skipped=tuple({**self.folder.skipped, **self.judges.skipped}.items()),
            plan=self.candidate.plan,
            workload=self.candidate.workload,
            feeding=feeding_options(self.data, skip_bad=self.settings.skip_bad),
            io_types=self.settings.io_types,
            floor=self.folder.floor,
        )

    @property
    def rows(self) -> list[VariantRow]:
        """Every row so far, the original first; of recipes that were not asked for only those found before."""
        return list(self.folder.rows.values())

    def tell(self, share: float, text: str) -> None:
        """Report a further step, with the best so far."""
        self._report(self._course.step(share), text)

    def note(self, *notes: str) -> None:
        """Keep a sentence for whoever reads the result; the same one is kept once."""
        for text in notes:
            self.folder.note(text)

    def judge(
        self, name: str, recipe: Recipe | Pruning, *, float_nodes: Collection[int] = (), share: float = 0.0
    ) -> VariantRow:
        """Make a variant and decide whether it keeps the floor; or take what an earlier run has found."""
        if self._is_judged(name, tuple(float_nodes)):
            return self.folder.rows[name]
        try:
            self.tell(share, f"making {name}")
            row = self._made(name, recipe, tuple(float_nodes))
            self.tell(share, f"judging {name}")
            row = self._judged(row)
        except (UsageError, FolderError):
            raise  # something is missing for all of them
        except HastenError as error:
            self.folder.check_room(self.candidate.model.size_bytes)  # a full disk is not this recipe's fault
            made = self.folder.rows.get(name) or VariantRow(name, float_nodes=tuple(float_nodes))
            row = replace(made, floor=FAILED, why=error.message)
        self.folder.save(row)
        if row.floor == FAILED or (row.is_step and row.floor != KEPT):
            row = self.forget_file(row)
        self.choose()
        return row

    def time_all(self, share: float) -> None:
        """Time everything that runs and was not timed yet, against the original, in interleaved rounds."""
        waiting = [row for row in self.rows if row.path and row.floor not in ("", FAILED) and row.against is None]
        waiting = [row for row in waiting if row.recipe != ORIGINAL]
        if not waiting:
            return
        begin, place = time.monotonic(), self._course.step(share)

        def tell(state: str) -> None:
            spent = (time.monotonic() - begin) / self.settings.seconds
            self._report(self._course.timing(place, spent), f"timing, {state}")

        candidates = [replace(self.candidate, label=ORIGINAL), *(self.candidate_of(row) for row in waiting)]
        rounds = Rounds(self.target, candidates)
        try:
            race(rounds, begin + self.settings.seconds, tell, self.folder.keep)
        except KeyboardInterrupt:
            self._take_times(waiting, rounds, only_decided=True)
            raise
        self._take_times(waiting, rounds)

    def calibration(self) -> list[dict[str, Any]]:
        """Samples for the ranges of activations; read once."""
        return self.judges.calibration()

    def choosing_samples(self, limit: int) -> list[dict[str, Any]]:
        """A few samples of the choosing half, by the names of the inputs."""
        return self.judges.few_samples(limit)

    def choose(self) -> None:
        """Put the best so far where the user looks for it."""
        best = choose(self.rows, self.settings.goal)
        self.folder.choose(
            best.recipe, self.candidate.path if best.recipe == ORIGINAL else Path(best.path), best.sha256
        )

    def forget_file(self, row: VariantRow) -> VariantRow:
        """The row without its file, which nobody needs. The file goes first: one that no row names is foreign."""
        if row.path:
            Path(row.path).unlink(missing_ok=True)
            row = replace(row, path="")
            self.folder.save(row)
        return row

    def candidate_of(self, row: VariantRow) -> Candidate:
        """A variant, ready to be run as the original is."""
        model = Model(row.path, row.size_bytes, row.sha256)
        return replace(self.candidate, label=row.recipe, path=Path(row.path), model=model)

    def _run(self) -> None:
        self._begin()
        try:
            refuse_quantized(self.graph)
        except AlreadyQuantizedError as error:
            self.already = error.message
        if self.already:
            self._examine_as_it_is()
            return
        self.note(
            *NOTES.sentences(self.data.dataset.notes),
            *io_type_notes(self.graph, self.candidate.workload, self.settings),
        )
        note_sparsity(self)
        self._prepare()
        recipes = self.settings.fitting
        for number, name in enumerate(recipes):
            self.judge(name, recipe_from_name(name), share=0.5 * number / len(recipes))
        judge_pruned(self)
        self.time_all(0.5)
        note_kernels(self)
        if self.settings.mix:
            leave_slow_nodes(self)
            mix(self)
        report_on_other_half(self)
        self.folder.keep("finding", "quantize", self.found().finding.as_data())
        self.tell(1.0, "done")

    def _report(self, place: float, text: str) -> None:
        self.progress(place, f"{text}; best so far: {choose(self.rows, self.settings.goal).recipe}")

    def _take_times(self, waiting: list[VariantRow], rounds: Rounds, *, only_decided: bool = False) -> None:
        """Save what was timed; of a race that was cut short, what is decided: the rest is timed again."""
        base, *tracks = rounds.tracks
        result = base.result()
        if isinstance(result, Failure):
            if only_decided:
                return
            raise RunnerFailed(result)
        if self.folder.rows[ORIGINAL].latency is None or not only_decided:  # a race that was cut short says less
            self.folder.save(replace(self.folder.rows[ORIGINAL], latency=result.samples.latency))
        for row, track in zip(waiting, tracks, strict=True):
            timed = timed_row(row, base, track, only_decided=only_decided)
            if timed is not None:
                self.folder.save(timed)
        self.choose()

    def _begin(self) -> None:
        path, model = self.candidate.path, self.candidate.model
        before = self.folder.rows.get(ORIGINAL)
        if before is None:
            row = VariantRow(ORIGINAL, str(path), model.sha256, model.size_bytes, zipped_bytes(path), floor=KEPT)
            self.folder.save(row)
        else:
            self.folder.rows[ORIGINAL] = replace(before, path=str(path))
            self.judges.against_choosing = before.why
        self.choose()

    def _prepare(self) -> None:
        """What all recipes need: trouble with it is not that of one of them."""
        waiting = [name for name in self.settings.fitting if not self._is_judged(name)]
        if waiting:
            self._judge_original()
        if any(recipe_from_name(name).needs_calibration for name in waiting):
            self.calibration()

    def _judge_original(self) -> None:
        """What the floor means for this model and data, and whether it can be judged by at all."""
        self.folder.save_floor(floor_data(self.judges.floor(CHOOSING)))
        self.folder.save_skipped(self.judges.skipped)
        row = self.folder.rows[ORIGINAL]
        if row.why != self.judges.against_choosing:
            self.folder.save(replace(row, why=self.judges.against_choosing))

    def _examine_as_it_is(self) -> None:
        """A model that is the answer already has to run; with data, on it."""
        row = self.folder.rows[ORIGINAL]
        try:
            if not self.data.dataset.is_random and row.accuracy is None:
                row = replace(row, accuracy=self.judges.original(REPORTING).accuracy)
                self.folder.save_skipped(self.judges.skipped)
            if row.latency is None:
                seconds = min(self.settings.seconds, DEFAULT_SECONDS)
                found = bench(self.target, replace(self.candidate, label=ORIGINAL), seconds, self.progress)
                if isinstance(found, Failure):
                    raise RunnerFailed(found)
                self.folder.keep("measurement", ORIGINAL, to_data(found))
                row = replace(row, latency=found.samples.latency)
        except (HastenError, RunnerFailed):
            self.folder.choose_nothing()
            raise
        self.folder.save(row)

    def _notes(self) -> tuple[str, ...]:
        went_on = [f"went on with the search in {self.folder.path}"] if self.folder.resumed else []
        return (*went_on, *self.folder.notes)

    def _is_judged(self, name: str, float_nodes: tuple[int, ...] = ()) -> bool:
        row = self.folder.rows.get(name)
        if row is None or not row.floor or row.float_nodes != float_nodes:
            return False
        return not row.path or self.folder.has_file_of(row)

    def _made(self, name: str, recipe: Recipe | Pruning, float_nodes: tuple[int, ...]) -> VariantRow:
        variant = self._variant(recipe, float_nodes)
        row = VariantRow(
            name,
            str(self.folder.path / f"{name}.tflite"),
            file_hash(self.folder.making),
            variant.size_bytes,
            variant.zipped_bytes,
            nodes=variant.nodes,
            float_nodes=float_nodes,
            notes=told(variant.notes),
            integer_share=integer_share(read_graph(self.folder.making)),
        )
        self.folder.place(row)
        return row

    def _variant(self, recipe: Recipe | Pruning, float_nodes: tuple[int, ...]) -> Variant:
        if isinstance(recipe, Pruning):
            return self.maker.prune(recipe.share, self.folder.making, encode=recipe.encode)
        samples = self.calibration() if recipe.needs_calibration else None
        return self.maker.make(recipe.name, self.folder.making, samples, but=float_nodes or None)

    def _judged(self, row: VariantRow) -> VariantRow:
        candidate = self.candidate_of(row)
        found = self.judges.against_floor(candidate)
        self.folder.save_skipped(self.judges.skipped)
        decision = found.decision
        assert decision is not None, "it was asked for"
        kept = None if decision.decision is Decision.UNSURE else decision.decision is Decision.KEPT
        return replace(
            row,
            choosing=found.accuracy,
            drop=decision.mean_drop,
            floor=floor_of(found.accuracy.kind, kept),
            why=self.judges.remarks.get(candidate.label, ""),
        )


def _with_evidence(finding: Finding, evidence: str) -> Finding:
    return told_finding(finding.practice, finding.standing, evidence, finding.what_to_do)
