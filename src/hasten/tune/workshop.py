"""Where variants come from: made when the race asks for them, found again by a later run, mixed where one is needed."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.measurement import Model
from hasten.core.quantization import FAILED, KEPT, VariantRow
from hasten.core.tuning import ORIGINAL, trial_id
from hasten.evaluate.fingerprint import file_hash
from hasten.explain.inner_tensors import Subject
from hasten.explain.node_gains import measure_gains
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.practices.quantize.run import QuantizePractice
from hasten.practices.quantize_folder import QuantizeFolder
from hasten.practices.quantize_judge import QuantizeJudge
from hasten.practices.quantize_records import QuantizeSettings, settings_to_compare
from hasten.tune.folder import MIXES
from hasten.variants.already_quantized import AlreadyQuantizedError, refuse_quantized
from hasten.variants.maker import VariantMaker
from hasten.variants.recipes import recipe_from_name
from hasten.variants.variant import zipped_bytes
from hasten.variants.words import told

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.plan import Plan
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.practices.quantize_records import QuantizeData
    from hasten.targets.base import Target
    from hasten.tune.folder import TuneFolder


@dataclass(slots=True)
class Workshop:
    """Makes the variants of one model, each once."""

    target: Target
    candidate: Candidate
    graph: Graph
    data: QuantizeData
    settings: QuantizeSettings
    folder: TuneFolder
    progress: Progress
    notes: dict[str, None] = field(default_factory=dict)
    already: str = ""
    judge: QuantizeJudge = field(init=False)
    maker: VariantMaker = field(init=False)

    def __post_init__(self) -> None:
        self.maker = VariantMaker(self.candidate.path, self.candidate.workload.signature)
        self.judge = QuantizeJudge(
            self.target,
            self.candidate,
            self.graph,
            self.data,
            self.settings,
            tell=lambda text: self.progress(0.0, text),
            note=self.note,
        )
        try:
            refuse_quantized(self.graph)
        except AlreadyQuantizedError as error:
            self.already = error.message

    def note(self, text: str) -> None:
        """Keep a sentence for whoever reads the result."""
        self.notes[text] = None

    def close(self) -> None:
        """End the process that makes variants."""
        self.maker.close()

    def make(self, name: str, recipe_name: str = "", float_nodes: tuple[int, ...] = ()) -> VariantRow:
        """The variant, made now or by an earlier run; a failure is a row with its reason.

        A recipe's variant has its name; one that leaves some nodes float has a name of its own.
        """
        known = self.folder.variants.get(name)
        if known is not None and (known.floor == FAILED or self._has_file(known)):
            return known
        recipe = recipe_from_name(recipe_name or name)
        place = self.folder.place_of(name)
        making = place.with_name(".making.tflite")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            samples = self.judge.calibration() if recipe.needs_calibration else None
            made = self.maker.make(recipe.name, making, samples, but=float_nodes or None)
            row = VariantRow(
                name,
                str(place),
                file_hash(making),
                made.size_bytes,
                made.zipped_bytes,
                nodes=made.nodes,
                float_nodes=float_nodes,
                notes=told(made.notes),
            )
            making.replace(place)
        except (UsageError, DataError):
            raise  # something is missing for all of them
        except HastenError as error:
            row = VariantRow(name, floor=FAILED, why=error.message)
        except OSError as error:
            raise disk_error(self.folder.path, error) from error
        self.folder.save_variant(row)
        return row

    def slow_nodes(self, variant: str, plan: Plan) -> tuple[int, ...]:
        """The nodes that this variant's integers slow down on this plan, by profiles of both; none where all lose."""
        candidate = self.candidate_of(variant, plan)
        original = Subject(self.candidate_of(ORIGINAL, plan), self.graph)
        gains = measure_gains(self.target, original, Subject(candidate, read_graph(candidate.path)), no_progress)
        losses = () if gains is None else gains.losses
        return () if set(losses) >= set(self.folder.variants[variant].nodes) else losses

    def candidate_of(self, variant: str, plan: Plan) -> Candidate:
        """A variant with a plan, ready to be timed."""
        label = trial_id(variant, plan)
        if variant == ORIGINAL:
            return replace(self.candidate, label=label, plan=plan)
        row = self.folder.variants[variant]
        path = self.folder.place_of(variant)
        return replace(
            self.candidate, label=label, path=path, model=Model(str(path), row.size_bytes, row.sha256), plan=plan
        )

    def zipped_bytes_of(self, variant: str) -> int:
        """What a download pays for it."""
        if variant == ORIGINAL:
            return zipped_bytes(self.candidate.path)
        return self.folder.variants[variant].zipped_bytes

    def mix(self, recipe: str, plan: Plan, seconds: float, progress: Progress) -> VariantRow | None:
        """A mix of this recipe with float that keeps the floor, the fastest on this plan; None if there is none."""
        candidate = replace(self.candidate, plan=plan)
        settings = replace(self.settings, recipes=(recipe,), mix=True, seconds=seconds)
        words = "".join(letter if letter.isalnum() else "_" for letter in plan.describe())
        shelf = QuantizeFolder(
            self.folder.path / MIXES / f"{recipe}-{words}", settings_to_compare(candidate, self.data, settings)
        )
        practice = QuantizePractice(self.target, candidate, self.graph, self.data, settings, shelf)
        try:
            practice.run(progress)
        finally:
            practice.close()
        mixes = [row for row in practice.rows if row.float_nodes and row.floor == KEPT and row.path]
        if not mixes:
            return None
        best = min(mixes, key=lambda row: row.against.ratio if row.against else math.inf)
        self._take(best)
        return best

    def _take(self, row: VariantRow) -> None:
        """A variant that was made elsewhere, among ours."""
        place = self.folder.place_of(row.recipe)
        making = place.with_name(".making.tflite")
        try:
            shutil.copyfile(row.path, making)
            making.replace(place)
        except OSError as error:
            raise disk_error(self.folder.path, error) from error
        self.folder.save_variant(replace(row, path=str(place), floor=""))

    def _has_file(self, row: VariantRow) -> bool:
        path = self.folder.place_of(row.recipe)
        return path.is_file() and file_hash(path) == row.sha256


def disk_error(folder: Path, error: OSError) -> DataError:
    """Trouble with the folder as an error that says what to do."""
    return DataError(
        f"{folder} cannot be written: {error.strerror or error}",
        "What was saved before is still there: make room, and go on with --resume.",
    )
