"""A search on this machine that borrows the workers of a cluster: for evaluations, and to make variants.

An accuracy is a figure of a kind of device: kernels of another architecture or release round differently. So samples
go only to devices that compute as the target does; where there are none, the target evaluates alone, as always.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy_notes import DECIDED_EARLY, RUNNER_REPLACED, SKIPPED, TIES
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.core.remark import each_once, remark
from hasten.core.trial import CHOOSING, NOTHING, REPORTING
from hasten.evaluate.evaluation import EvaluationOptions
from hasten.evaluate.floor import Baseline, FloorGuard
from hasten.evaluate.intervals import interval_of_scores
from hasten.evaluate.run import evaluate
from hasten.evaluate.scoring import Score
from hasten.fleet.jobs import EvaluateJob, MakeJob
from hasten.fleet.order import make_order
from hasten.fleet.parcel import FileStore, pack_file
from hasten.fleet.place import Stopped
from hasten.fleet.shared_maker import SharedMaker
from hasten.measure.rounds import no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hasten.core.machine import Machine
    from hasten.data.dataset import Dataset
    from hasten.data.request import Data
    from hasten.evaluate.evaluation import Evaluation, EvaluationData, Skipped
    from hasten.fleet.cluster import Cluster
    from hasten.fleet.offers import FleetOffer
    from hasten.fleet.order import Order
    from hasten.fleet.parcel import Sources
    from hasten.fleet.shared_maker import MadeVariant
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.search.variant_store import VariantStore
    from hasten.targets.base import Target

# Shares for each device: few, as each starts runners and loads the model; with a floor to decide, more can be saved.
_SHARES: Final = 2
_SHARES_WITH_FLOOR: Final = 6
_FEWEST_SAMPLES: Final = 32
# Codes that are counted anew over all shares.
_COUNTED: Final = (TIES, SKIPPED, RUNNER_REPLACED, DECIDED_EARLY)


def compute_alike(one: Machine, other: Machine) -> bool:
    """Whether two machines run the same kernels: an accuracy of one is then an accuracy of the other."""
    return (one.architecture, set(one.instructions), one.engine) == (
        other.architecture,
        set(other.instructions),
        other.engine,
    )


def alike(machine: Machine, offers: Sequence[FleetOffer]) -> list[FleetOffer]:
    """The devices that can be used and compute as this machine does."""
    usable = [(offer, offer.device.machine) for offer in offers if not offer.device.why.code]
    return [offer for offer, theirs in usable if theirs is not None and compute_alike(machine, theirs)]


@dataclass(slots=True)
class SpreadEvaluation:
    """Evaluates as `evaluate` does, on all devices that compute as the target does. `part` finds a part by its name."""

    cluster: Cluster
    order: Order
    offers: Sequence[FleetOffer]
    part: Callable[[str], Dataset]
    spread: int = 0
    """How many evaluations were spread."""
    _sources: Sources = field(default_factory=dict)

    def __call__(
        self,
        target: Target,
        candidate: Candidate,
        data: EvaluationData,
        *,
        options: EvaluationOptions = EvaluationOptions(),
        against: Evaluation | Baseline | None = None,
        graph: Graph | None = None,
        progress: Progress = no_progress,
    ) -> Evaluation | Failure:
        """Score a model on data; like `evaluate`, but for where."""
        able = {offer.name: offer for offer in alike(target.machine(), self.offers)}
        name = self._name_of(data.dataset)
        if not able or not name or not candidate.plan.runs_on_cpu:
            return evaluate(target, candidate, data, options=options, against=against, graph=graph, progress=progress)
        begin = time.monotonic()
        baseline = against if isinstance(against, Baseline) else None
        work = self._jobs(candidate, data, options, against, (name, list(able)))
        self.cluster.know(self._sources)
        self.cluster.supply(work[0].digests, sorted({offer.address for offer in able.values()}))
        self.spread += 1
        shares: list[Evaluation] = []
        guard: FloorGuard | None = None
        for share in _in_order(self.cluster, work, able):
            if isinstance(share, Failure):
                if share.kind in ("data", "usage"):
                    raise share.error(candidate.plan)
                return share
            shares.append(share)
            progress(len(shares) / len(work), f"{len(shares)} of {len(work)} shares of the data")
            if baseline is not None:
                guard = guard or FloorGuard(baseline, share.metric, data.dataset)
                if guard.is_decided([*scores_of(share), *share.skipped]):
                    break
        return merged(shares, guard, sum(len(job.positions) for job in work), time.monotonic() - begin)

    def _name_of(self, dataset: Dataset) -> str:
        """The part of the data that this is; empty for any other data, which the workers cannot find again."""
        if callable(dataset.samples):
            return ""
        return next((name for name in (CHOOSING, REPORTING) if self.part(name) is dataset), "")

    def _jobs(
        self,
        candidate: Candidate,
        data: EvaluationData,
        options: EvaluationOptions,
        against: Evaluation | Baseline | None,
        where: tuple[str, Sequence[str]],
    ) -> list[EvaluateJob]:
        part, devices = where
        names = {position: sample.name for position, sample in data.dataset.drawn(options.samples, options.seed)}
        original = against.original if isinstance(against, Baseline) else against
        # By labels where there are some, unless the original's answers were asked for.
        by_original = original is not None and not (isinstance(against, Baseline) and data.dataset.labelled)
        references = original.references if original is not None and by_original else None
        shares = _SHARES_WITH_FLOOR if isinstance(against, Baseline) else _SHARES
        model = pack_file(candidate.path, self._sources)
        found = []
        for number, chunk in enumerate(chunks_of(list(names), shares * len(devices))):
            found.append(
                EvaluateJob(
                    self.order,
                    devices[number % len(devices)],
                    part,
                    chunk,
                    tuple(names[place] for place in chunk),
                    model,
                    replace(candidate.plan, threads=1),
                    data.preprocess,
                    data.metric or (original.metric if original is not None else None),
                    options,
                    None
                    if references is None
                    else {place: references[place] for place in chunk if place in references},
                )
            )
        return found


def chunks_of(positions: Sequence[int], wanted: int) -> Iterator[tuple[int, ...]]:
    """The positions in their order, in chunks of about one size, none of them tiny."""
    size = max(_FEWEST_SAMPLES, math.ceil(len(positions) / max(1, wanted)))
    for start in range(0, len(positions), size):
        yield tuple(positions[start : start + size])


def _in_order(
    cluster: Cluster, work: Sequence[EvaluateJob], offers: Mapping[str, FleetOffer]
) -> Iterator[Evaluation | Failure]:
    """The results in the order of the samples: an early end must have seen a fair part of them."""
    done: dict[int, Any] = {}
    expected = 0
    places = {job.positions: place for place, job in enumerate(work)}
    for job, result in cluster.completed(work, offers):
        assert isinstance(job, EvaluateJob)
        if isinstance(result, Stopped):
            result = Failure("evaluate", "target", "The evaluation was stopped.")
        done[places[job.positions]] = result
        while expected in done:
            yield done.pop(expected)
            expected += 1


def scores_of(found: Evaluation) -> list[Score]:
    """The scores of an evaluation, as a guard of the floor takes them."""
    rows = zip(found.positions, found.names, found.statistics, strict=True)
    return [Score(position, name, row, False, None) for position, name, row in rows]


def merged(shares: Sequence[Evaluation], guard: FloorGuard | None, total: int, seconds: float) -> Evaluation:
    """One evaluation from its shares: what all samples together say, with the notes of all."""
    if not shares:
        raise DataError("None of the samples could be evaluated on the cluster.", "Evaluate without --cluster.")
    first = shares[0]
    positions = [position for share in shares for position in share.positions]
    order = np.argsort(positions)
    statistics = np.concatenate([share.statistics for share in shares])[order]
    names = [name for share in shares for name in share.names]
    skipped: tuple[Skipped, ...] = tuple(entry for share in shares for entry in share.skipped)
    ties, retries = sum(share.ties for share in shares), sum(share.retries for share in shares)
    told = each_once(note for share in shares for note in share.accuracy.notes)
    notes = [note for note in told if note.code not in _COUNTED]
    if ties:
        notes.append(remark(TIES, share=ties / len(positions)))
    if skipped:
        notes.append(remark(SKIPPED, samples=len(skipped)))
    if retries:
        notes.append(remark(RUNNER_REPLACED, times=retries))
    if guard is not None and len(positions) + len(skipped) < total:
        notes.append(remark(DECIDED_EARLY, samples=len(positions), total=total))
    interval = interval_of_scores(statistics, first.metric)
    scores = [score for share in shares for score in scores_of(share)]
    return replace(
        first,
        accuracy=replace(
            first.accuracy,
            value=interval.estimate,
            low=interval.low,
            high=interval.high,
            samples=len(positions),
            notes=tuple(notes),
        ),
        positions=tuple(positions[place] for place in order.tolist()),
        names=tuple(names[place] for place in order.tolist()),
        statistics=statistics,
        references={position: answer for share in shares for position, answer in share.references.items()},
        preprocess=tuple(dict.fromkeys(entry for share in shares for entry in share.preprocess)),
        ties=ties,
        skipped=skipped,
        decision=guard.verdict(scores) if guard is not None else None,
        seconds=seconds,
        runners=sum(share.runners for share in shares),
        retries=retries,
    )


def made_by_workers(
    cluster: Cluster, order: Order, recipes: Sequence[str], store: FileStore, tell: Callable[[str], None]
) -> tuple[MadeVariant, ...]:
    """Variants of whole recipes, made on all workers at once. What fails there is made, or fails, on this machine."""
    found = []
    work = [MakeJob(order, name) for name in recipes]
    for number, (_, result) in enumerate(cluster.completed(work, {}), 1):
        tell(f"the workers made {number} of {len(work)} variants")
        if not isinstance(result, Failure | Stopped):
            made, content = result
            if content:
                store.add(content)
            found.append(made)
    return tuple(found)


@contextlib.contextmanager
def spread(
    cluster: Cluster, store: VariantStore, data: Data, devices: Sequence[str], progress: Progress
) -> Iterator[None]:
    """Let a search that has not begun use the cluster, for as long as the `with` lasts. Its notes say which devices."""
    if store.data.dataset.is_random:
        evaluating: list[FleetOffer] = []  # made-up inputs tell nothing, and cost nothing
    else:
        evaluating = alike(store.target.machine(), cluster.selected(devices))

    def tell(text: str) -> None:
        progress(0.0, text)

    sources: Sources = {}
    subject = (store.candidate.path, store.candidate.plan, store.candidate.workload)
    order = make_order(uuid.uuid4().hex, subject, data, store.settings, 0.0, sources, tell)
    cluster.know(sources)
    cluster.supply(sources, sorted({offer.address for offer in cluster.selected(())}), tell)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        kept = FileStore(Path(folder))
        recipes = [name for name in store.settings.fitting if name not in store.folder.variants]
        made = made_by_workers(cluster, order, recipes, kept, tell) if store.already == NOTHING else ()
        store.maker = SharedMaker(store.candidate, store.settings.io_types, made, kept)
        if evaluating:
            store.judge.evaluate = SpreadEvaluation(cluster, order, evaluating, store.judge.part)
            store.folder.note(remark("search.spread", devices=[offer.name for offer in evaluating]))
        elif not store.data.dataset.is_random:
            store.folder.note(remark("search.not-spread"))
        yield
