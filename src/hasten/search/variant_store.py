"""Variants of one model: made on request, each once, and found again by a later run."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import HastenError, UsageError
from hasten.core.floor import FloorState
from hasten.core.measurement import Model
from hasten.core.remark import said
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Status, Trial
from hasten.engine.model_file import file_hash
from hasten.explanation.inner_tensors import Subject
from hasten.explanation.node_gains import SECONDS as PROFILE_SECONDS
from hasten.explanation.node_gains import measure_gains
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.practices.operators.kernels import Kernels
from hasten.search.accuracy import AccuracyJudge, failed_trial
from hasten.search.folder import FolderError
from hasten.variants.already_quantized import AlreadyQuantizedError, integer_share, refuse_quantized
from hasten.variants.io_types import FLOAT_IO
from hasten.variants.maker_process import VariantMaker
from hasten.variants.recipes import recipe_from_name, variant_name
from hasten.variants.variant import zipped_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.data.request import OpenData
    from hasten.explanation.node_gains import Gains
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.search.folder import SearchFolder
    from hasten.search.settings import SearchSettings
    from hasten.targets.base import Target
    from hasten.variants.pruning import Pruning
    from hasten.variants.variant import Variant


# How often a profile that fails is tried.
_MOST_LOOKS: Final = 2


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """A variant to make: a recipe, perhaps with nodes that stay in float; or pruned."""

    recipe: str = ""
    float_nodes: tuple[int, ...] = ()
    purpose: Purpose = Purpose.RECIPE
    parent: str = ""
    pruning: Pruning | None = None


@dataclass(slots=True)
class VariantStore:
    """Makes the variants of one model and judges them; measures what their nodes gain."""

    target: Target
    candidate: Candidate
    graph: Graph
    data: OpenData
    settings: SearchSettings
    folder: SearchFolder
    tell: Callable[[str], None] = lambda text: None
    """Told what is under way."""
    already: Remark = NOTHING
    """Why there is nothing to quantize, where the model is quantized already."""
    judge: AccuracyJudge = field(init=False)
    maker: VariantMaker = field(init=False)
    source_graph: Graph = field(init=False)
    """The graph of `source`, whose nodes a request names."""
    kernels: Kernels = field(default_factory=Kernels)
    """hasten's own kernels, once they are built: variants name those that they need."""
    _gains: dict[tuple[str, Plan], Gains] = field(default_factory=dict)
    _looks: Counter[tuple[str, Plan]] = field(default_factory=Counter)
    _original: Trial | None = None
    _source: Trial | None = None

    def __post_init__(self) -> None:
        self.maker = VariantMaker(self.candidate.path, self.candidate.workload.signature, self.settings.io_types)
        self.source_graph = self.graph
        self.judge = AccuracyJudge(
            self.target,
            (self.candidate, self.graph),
            self.data,
            self.settings,
            lambda text: self.tell(text),
            self.folder.note,
        )
        try:
            refuse_quantized(self.graph)
        except AlreadyQuantizedError as error:
            self.already = said(error.message, "quantize.already")

    @property
    def original(self) -> Trial:
        """The model as it is."""
        if self._original is None:
            path, model = self.candidate.path, self.candidate.model
            self._original = Trial(
                ORIGINAL,
                self.candidate.plan,
                path=str(path),
                sha256=model.sha256,
                size_bytes=model.size_bytes,
                zipped_bytes=zipped_bytes(path),
                status=Status.KEPT,
                floor=FloorState.KEPT,
            )
        return self._original

    @property
    def source(self) -> Trial:
        """What variants are made of: the original, or a rewritten model that computes the same."""
        return self._source or self.original

    def build_on(self, rewritten: Trial) -> None:
        """Make variants of the rewritten model from now on."""
        self.maker.close()
        path = Path(rewritten.path)
        self.maker = VariantMaker(path, self.candidate.workload.signature, self.settings.io_types)
        self._source, self.source_graph = rewritten, read_graph(path)
        self._gains.clear()
        self._looks.clear()

    def close(self) -> None:
        """End the processes that make and evaluate variants, and leave the folder."""
        self.maker.close()
        self.judge.close()
        self.folder.close()

    def variant(self, name: str) -> Trial:
        """A variant that was made, or the original."""
        return self.original if name == ORIGINAL else self.folder.variants[name]

    def known(self, request: VariantRequest) -> Trial | None:
        """The variant that an earlier request has made of the same parts, under whatever name."""
        for trial in self.folder.variants.values():
            same = (trial.recipe, set(trial.float_nodes)) == (request.recipe, set(request.float_nodes))
            same = same and trial.source == self.source_name and trial.purpose is not Purpose.REWRITE
            if trial.variant == self._name_of(request) if request.pruning else same:
                return trial
        return None

    def make(self, request: VariantRequest) -> Trial:
        """The variant, made now or by an earlier run; a failure is a trial with its reason."""
        known = self.known(request)
        if known is not None and (known.floor is FloorState.FAILED or self.folder.has_file_of(known)):
            return known
        name = known.variant if known else self._name_of(request)
        trial = Trial(
            name,
            self.candidate.plan,
            recipe=request.recipe,
            purpose=request.purpose,
            parent=request.parent,
            source=self.source_name,
            float_nodes=request.float_nodes,
            status=Status.MADE,
        )
        self.tell(f"making {name}")
        samples = self._calibration(request.recipe)
        try:
            made = self._made(request, samples)
            trial = replace(
                trial,
                path=str(self.folder.place_of(name)),
                sha256=file_hash(self.folder.making),
                size_bytes=made.size_bytes,
                zipped_bytes=made.zipped_bytes,
                nodes=made.nodes,
                integer_share=integer_share(read_graph(self.folder.making)),
                notes=made.notes,
            )
            self.folder.place(trial)
        except (UsageError, FolderError):
            raise  # something is missing for all of them
        except HastenError as error:
            self.folder.check_room(self.candidate.model.size_bytes)  # a full disk is not this variant's fault
            trial = self.folder.save_variant(failed_trial(trial, error.message))
        return trial

    def attempt(self, request: VariantRequest, plan: Plan) -> Trial:
        """A variant made and judged on a plan, or what an earlier run has found of it. Who fails, and who breaks the
        floor on the way to a mix, keeps no file."""
        known = self.known(request)
        if known is not None and known.floor and (not known.path or self.folder.has_file_of(known)):
            return known
        trial = self.make(request)
        if not trial.floor:
            self.tell(f"judging {trial.variant}")
            trial = self.judge.judged(replace(trial, plan=plan), self.candidate_of(trial, plan))
            self.folder.save_skipped(self.judge.skipped)
            if trial.floor is FloorState.FAILED:
                self.folder.check_room(self.candidate.model.size_bytes)
            self.folder.save_variant(trial)
        if trial.floor is FloorState.FAILED or (trial.is_step and not trial.may_be_chosen):
            trial = self.folder.forget_file(trial)
        return trial

    def candidate_of(self, trial: Trial, plan: Plan, label: str = "") -> Candidate:
        """A variant with a plan, ready to be run as the original is, with the libraries of its kernels. What a start
        keeps is of one model only, so each has a cache of its own."""
        if trial.variant == ORIGINAL:
            return replace(self.candidate, label=label or ORIGINAL, plan=plan)
        if plan.cache:
            plan = replace(plan, cache=f"{plan.cache}/{trial.variant}")
        # By name, from what was built here: a session may have been made by anybody.
        plan = replace(plan, kernels=(*plan.kernels, *self.kernels.libraries_of(trial.rewrites)))
        model = Model(trial.path, trial.size_bytes, trial.sha256)
        return replace(self.candidate, label=label or trial.variant, path=Path(trial.path), model=model, plan=plan)

    def gains_of(self, trial: Trial, plan: Plan, seconds: float = PROFILE_SECONDS) -> Gains | None:
        """What each node gains by a variant on a plan, by profiles of both, for so long. What was measured is kept; a
        profile that failed may have failed by chance, and is tried once more where it is asked for again."""
        key = trial.variant, plan
        found = self._gains.get(key)
        if found is None and self._looks[key] < _MOST_LOOKS:
            self._looks[key] += 1
            self.tell(f"profiling {trial.variant} and the {self.source.variant}")
            original = Subject(self.candidate_of(self.source, plan), self.source_graph)
            with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
                path = self._with_float_io(trial, Path(folder))
                variant = Subject(self.candidate_of(replace(trial, path=str(path)), plan), read_graph(path))
                found = measure_gains(self.target, original, variant, no_progress, seconds)
            if found is not None:
                self._gains[key] = found
        return found

    def slow_nodes(self, trial: Trial, plan: Plan, seconds: float = PROFILE_SECONDS) -> tuple[tuple[int, ...], ...]:
        """Sets of nodes that this variant's integers slow down on this plan, the surest first; never all its nodes."""
        gains = self.gains_of(trial, plan, seconds)
        sets = () if gains is None else gains.loss_sets
        return tuple(nodes for nodes in sets if not set(nodes) >= set(trial.nodes))

    def _name_of(self, request: VariantRequest) -> str:
        suffix = f"_{self.source_name}" if self.source_name else ""
        if request.pruning is not None:
            return request.pruning.name + suffix
        made = {name: one.float_nodes for name, one in self.folder.variants.items() if one.source == self.source_name}
        taken = {name.removesuffix(suffix): nodes for name, nodes in made.items()}
        return variant_name(recipe_from_name(request.recipe), request.float_nodes, taken) + suffix

    @property
    def source_name(self) -> str:
        """The name of the rewritten model that variants are made of; empty where that is the original."""
        return "" if self._source is None else self._source.variant

    def _calibration(self, recipe: str) -> list[dict[str, Any]] | None:
        return self.judge.calibration() if recipe and recipe_from_name(recipe).needs_calibration else None

    def _made(self, request: VariantRequest, samples: list[dict[str, Any]] | None) -> Variant:
        making = self.folder.making
        if request.pruning is not None:
            return self.maker.prune(request.pruning.share, making, encode=request.pruning.encode)
        return self.maker.make(request.recipe, making, samples, but=request.float_nodes or None)

    def _with_float_io(self, trial: Trial, folder: Path) -> Path:
        """The variant's file, or one that differs from it in inputs and outputs only: what conversions between nodes
        would cost is seen from those at its ends, and a variant that takes and gives integers has none."""
        if self.settings.io_types.is_float:
            return Path(trial.path)
        path = folder / "float_io.tflite"
        samples = self._calibration(trial.recipe)
        self.maker.make(trial.recipe, path, samples, but=trial.float_nodes or None, io_types=FLOAT_IO)
        return path
