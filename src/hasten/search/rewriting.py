"""Rewritten graphs as variants of a search: the original's, those of variants, and both with hasten's own kernels.

Each computes what its source computes. That is compared when it is made; what differs has failed and leaves no file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import ModelError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, REWRITTEN, Purpose, Status, Trial
from hasten.custom_kernels.check import CheckRequest
from hasten.explanation.inner_tensors import Subject
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_graph
from hasten.practices.operators.equality import MOST_ROUNDING, answers_of, largest_error, other_batches, own_rounding
from hasten.practices.operators.facts import OperatorOptions
from hasten.practices.operators.kernels import build_kernels, fault_folder
from hasten.rewrites.registry import REWRITES
from hasten.rewrites.rewrite import EXACT, apply
from hasten.search.accuracy import failed_trial
from hasten.variants.already_quantized import integer_share
from hasten.variants.variant import zipped_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hasten.core.plan import Workload
    from hasten.core.remark import Remark
    from hasten.rewrites.rewrite import Rewrite
    from hasten.search.variant_store import VariantStore

KERNELS: Final = "kernels"
# On so many samples the outputs of a rewritten model are compared with its source's.
_COMPARED_SAMPLES: Final = 8


@dataclass(slots=True)
class Rewriter:
    """Makes rewritten variants, each once, and finds them again in a later run."""

    store: VariantStore

    def build_kernels(self) -> None:
        """Build hasten's own kernels; raises RunnerFailed where that is not possible."""
        self.store.tell("building kernels")
        built = build_kernels(OperatorOptions(kernels=True), self.store.candidate.path, self.store.target)
        if isinstance(built, Failure):
            raise RunnerFailed(built)
        self.store.kernels = built

    def rewritten(self, source: Trial) -> Trial | None:
        """A model with all rewrites that apply; None if there are none. One whose outputs differ has failed; before
        that, it is tried with those only that keep every bit."""
        exact = [rewrite for rewrite in REWRITES if rewrite.tolerance == EXACT]
        return self._made(source, REWRITTEN, [REWRITES, exact])

    def applies(self, source: Trial) -> bool:
        """Whether any rewrite applies to a model."""
        model = self._read(source)
        return model is not None and bool(apply(model, REWRITES))

    def kernels_for(self, source: Trial) -> list[Rewrite]:
        """The kernels that apply to a model, one kind after the other."""
        model = self._read(source)
        return [] if model is None else [rewrite for rewrite in self.store.kernels.rewrites if apply(model, [rewrite])]

    def _read(self, source: Trial) -> EditedModel | None:
        try:
            return EditedModel.read(Path(source.path))
        except ModelError as error:
            self._note(error)
            return None

    def with_kernels(self, source: Trial) -> list[Trial]:
        """A model with all kernels that apply; where those are several, with each alone as well."""
        kinds = self.kernels_for(source)
        tries = [(KERNELS, kinds), *((kind.name, [kind]) for kind in kinds if len(kinds) > 1)]
        made = [self._made(source, what, [chosen]) for what, chosen in tries] if kinds else []
        return [trial for trial in made if trial is not None]

    def _made(self, source: Trial, what: str, attempts: Sequence[Sequence[Rewrite]]) -> Trial | None:
        """The first of these attempts that keeps the outputs, or the last one that has failed."""
        name = what if source.variant == ORIGINAL else f"{source.variant}+{what}"
        folder = self.store.folder
        known = folder.variants.get(name)
        if known is not None and (known.floor is FloorState.FAILED or folder.has_file_of(known)):
            return known
        self.store.tell(f"making {name}")
        made = None
        try:
            for rewrites in attempts:
                made = self._rewritten_by(source, name, rewrites) or made
                if made is None or made.floor is not FloorState.FAILED:
                    break
        except ModelError as error:
            self._note(error)
            return None
        if made is not None and made.floor is FloorState.FAILED:
            return folder.save_variant(made)
        if made is not None:
            folder.place(made)
        return made

    def _rewritten_by(self, source: Trial, name: str, rewrites: Sequence[Rewrite]) -> Trial | None:
        """The source with these rewrites, where variants are made."""
        store = self.store
        model = EditedModel.read(Path(source.path))
        changes = apply(model, rewrites)
        if not changes:
            return None
        making = store.folder.making
        model.write(making)
        graph = read_graph(making)
        applied = [rewrite for rewrite in rewrites if rewrite.name in changes]
        trial = Trial(
            name,
            store.candidate.plan,
            recipe=source.recipe,
            purpose=Purpose.REWRITE,
            source="" if source.variant == ORIGINAL else source.variant,
            float_nodes=source.float_nodes,
            status=Status.MADE,
            path=str(making),
            sha256=graph.sha256,
            size_bytes=graph.size_bytes,
            zipped_bytes=zipped_bytes(making),
            integer_share=integer_share(graph),
            notes=(remark("search.rewritten", rewrites=[rewrite.name for rewrite in applied]),),
        )
        why = self._fault(source, applied) or self._difference(source, trial, max(one.tolerance for one in applied))
        if isinstance(why, Failure):
            return failed_trial(replace(trial, path=""), why.message)
        if why is not None:
            return replace(trial, path="", floor=FloorState.FAILED, status=Status.FAILED, why=why)
        return replace(trial, path=str(store.folder.place_of(name)))

    def _note(self, error: ModelError) -> None:
        self.store.folder.note(remark("search.not-rewritten", message=error.message))

    @property
    def _plan(self) -> Plan:
        """Where outputs are compared: accelerators round in ways of their own, and take no kernels."""
        plan = self.store.candidate.plan
        return plan if plan.runs_on_cpu else Plan()

    def _fault(self, source: Trial, applied: Sequence[Rewrite]) -> Remark | None:
        """What edge values and other shapes show of the kernels."""
        store = self.store
        for kernel in (one.name for one in applied if one.name in store.kernels.kernels):
            request = CheckRequest(store.target, fault_folder(kernel, source.sha256), self._plan)
            if (fault := store.kernels.fault(kernel, Path(source.path), request)) is not None:
                return fault
        return None

    def _difference(self, source: Trial, changed: Trial, tolerance: float) -> Remark | Failure | None:
        """How far the outputs of a changed model are off, if that is more than its rewrites may bring."""
        worst = 0.0
        for place, (workload, samples) in enumerate(self._inputs()):
            before, after = (
                answers_of(self.store.target, self._subject(one, workload), samples) for one in (source, changed)
            )
            if isinstance(before, Failure):
                if place == 0:
                    return before
                continue  # noise, or a batch that the source does not take
            if isinstance(after, Failure):
                return after
            worst = max(worst, largest_error(before, after))
        if tolerance < worst <= MOST_ROUNDING and tolerance:
            tolerance = max(
                tolerance, own_rounding(self.store.target, self._subject(source, self.store.candidate.workload), ())
            )
        return remark("operators.not-equal", error=worst, tolerance=tolerance) if worst > tolerance else None

    def _inputs(self) -> Iterator[tuple[Workload, list[list[bytes]]]]:
        """Samples of the data, and seeded noise (an empty list): with other batches, too, where the file leaves the
        batch open."""
        store, workload = self.store, self.store.candidate.workload
        taken = store.judge.few_samples(_COMPARED_SAMPLES)
        yield workload, [[np.ascontiguousarray(array).tobytes() for array in sample.values()] for sample in taken]
        for other in (workload, *other_batches(store.graph, workload)):
            yield other, []

    def _subject(self, trial: Trial, workload: Workload) -> Subject:
        candidate = self.store.candidate_of(trial, self._plan)
        return Subject(replace(candidate, workload=workload), read_graph(candidate.path))
