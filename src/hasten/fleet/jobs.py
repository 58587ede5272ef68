"""What a worker does: each job is a record that knows its device and the contents that it needs, and runs there."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.bundle.folder import PLAN_FILE
from hasten.bundle.record import MODEL_FILE
from hasten.core.accuracy import Accuracy
from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_WHEN_CLEAR
from hasten.core.contention import compare_measurements
from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.remark import remark
from hasten.core.trial import NOTHING, ORIGINAL, Trial, trial_id
from hasten.core.version import VERSION
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions, kind_of
from hasten.evaluate.run import evaluate
from hasten.fleet.facts import FleetTrial
from hasten.fleet.order import candidate_of
from hasten.fleet.shared_maker import MadeVariant, SharedMaker
from hasten.measure.race import result_beside, run_race
from hasten.measure.rounds import Rounds
from hasten.measure.schedule import now
from hasten.search import tuning
from hasten.search.accuracy import AccuracyJudge
from hasten.search.folder import SESSION, TUNE, FolderLock, SearchFolder
from hasten.search.plans import keeps_numbers
from hasten.search.settings import tune_settings_data
from hasten.search.variant_store import VariantStore
from hasten.targets.local import LocalTarget
from hasten.variants.maker_process import VariantMaker
from hasten.variants.recipes import recipe_from_name
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan
    from hasten.data.dataset import Label
    from hasten.data.metrics import Metric
    from hasten.data.preprocess import Preprocess
    from hasten.fleet.order import OpenOrder, Order
    from hasten.fleet.parcel import Parcel
    from hasten.fleet.place import Place
    from hasten.measure.rounds import Candidate, Progress, Track

# Each candidate of a round is a process with the model loaded: the original, the device's best, and so many others.
_OTHERS_AT_ONCE: Final = 4
_SECONDS_FOR_THE_LAST_RUN: Final = 60.0
_LEAST_BUDGET_LEFT: Final = 0.25
# Hidden files are none of the search's business.
_DONE: Final = ".done"
_DELIVERED: Final = (SESSION, MODEL_FILE, PLAN_FILE)


@dataclass(frozen=True, slots=True)
class _OfAnOrder:
    """What the jobs of a run have in common."""

    order: Order

    @property
    def run_name(self) -> str:
        """The run that it belongs to."""
        return self.order.run

    @property
    def manifests(self) -> tuple[str, ...]:
        """The files of the data."""
        return self.order.manifests


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The folder of a tuning: its session, and the bundle of what was chosen."""

    device: str
    files: Mapping[str, bytes] = field(repr=False)
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class TuneJob(_OfAnOrder):
    """A whole tuning next to a device; one that was cut short goes on from its session."""

    device: str
    made: tuple[MadeVariant, ...] = ()

    @property
    def digests(self) -> tuple[str, ...]:
        """The model, and the variants that were made for the whole fleet."""
        return (*self.order.digests, *(made.sha256 for made in self.made if made.sha256))

    def perform(self, place: Place) -> TuneResult | Failure:
        """Tune; what is finished is delivered again without more work."""
        folder = place.site.store.run_folder(self.order.run, self.device)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _DONE).exists():
            return _delivered(self.device, folder)
        opened = place.open(self.order)
        wait_for(folder)
        interrupted = False
        try:
            found = tuning.run(*self._begun(place, opened, folder))
            if isinstance(found, Failure):
                return found
            (folder / _DONE).touch()
        except Interrupted:
            interrupted = True
        place.stream.session(folder / SESSION)
        return replace(_delivered(self.device, folder), interrupted=interrupted)

    def _begun(self, place: Place, opened: OpenOrder, folder: Path) -> tuple[VariantStore, float, None, Progress]:
        """What a tuning takes: the variants, the time that is left, and where it tells how far it is."""
        order, stream = self.order, place.stream
        target = place.target(self.device)
        line = tune_settings_data(opened.candidate, opened.data, order.settings, self.device, order.seconds)
        kept = SearchFolder(folder, TUNE, line, resume=True, version=VERSION)
        try:
            store = VariantStore(target, opened.candidate, opened.graph, opened.data, order.settings, kept)
            store.maker = SharedMaker(opened.candidate, order.settings.io_types, self.made, place.site.store)
        except BaseException:
            kept.close()  # a later attempt must get in
            raise
        left = max(order.seconds - kept.elapsed_s, _LEAST_BUDGET_LEFT * order.seconds)

        def progress(share: float, text: str) -> None:
            stream.session(folder / SESSION)
            stream.progress(share, text)

        return store, left, None, progress


def wait_for(folder: Path, seconds: float = _SECONDS_FOR_THE_LAST_RUN) -> None:
    """Wait until the last attempt at this tuning has left the folder: it ends by itself once nobody wants it."""
    deadline = time.monotonic() + seconds
    while not _is_free(folder) and time.monotonic() < deadline:
        time.sleep(0.5)


def _is_free(folder: Path) -> bool:
    try:
        FolderLock(folder).release()
    except UsageError:
        return False
    return True


def _delivered(device: str, folder: Path) -> TuneResult:
    names = [name for name in _DELIVERED if (folder / name).is_file()]
    return TuneResult(device, {name: (folder / name).read_bytes() for name in names})


@dataclass(frozen=True, slots=True)
class Entry:
    """A choice that is raced on a device."""

    id: str
    variant: str
    plan: Plan
    model: Parcel
    known: Trial | None = None
    """What the device's own tuning has found of its accuracy."""


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Each choice on one device, and the raw rounds behind the figures."""

    device: str
    trials: tuple[FleetTrial, ...]
    rounds: tuple[tuple[str, dict[str, Any]], ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True)
class RaceJob(_OfAnOrder):
    """Choices of other devices on this one: raced against the original and this device's best, and judged here."""

    device: str
    entries: tuple[Entry, ...]
    best: str
    """The choice that is this device's own best; empty where that is the original as it runs now."""
    seconds: float

    @property
    def digests(self) -> tuple[str, ...]:
        """The model, and every choice."""
        return (*self.order.digests, *(file.sha256 for entry in self.entries for file in entry.model.files))

    def perform(self, place: Place) -> RaceResult:
        """Race and judge."""
        opened, target = place.open(self.order), place.target(self.device)
        base = replace(opened.candidate, label=trial_id(ORIGINAL, self.order.plan))
        candidates = {
            entry.id: candidate_of(opened, place.site.store.place(entry.model), entry.plan, entry.id)
            for entry in self.entries
        }
        kept: list[tuple[str, dict[str, Any]]] = []
        trials: list[FleetTrial] = []
        groups = list(self._groups())
        for number, group in enumerate(groups):

            def tell(text: str, done: int = number) -> None:
                place.stream.progress(done / len(groups), f"racing the choices of all devices: {text}")

            rounds = Rounds(target, [base, *(candidates[entry.id] for entry in group)])
            run_race(
                rounds,
                now() + self.seconds / len(groups),
                base=lambda rounds: rounds.tracks[0],
                fewest=FEWEST_WHEN_CLEAR,
                tell=tell,
                keep=lambda kind, label, data: kept.append((label, data)),
            )
            trials += self._timed(group, rounds.tracks)
        judge = _Judge(place, opened, self)
        known = {trial.choice: trial for trial in trials}  # the device's best is in every group: the last one counts
        with contextlib.closing(judge):
            judged = tuple(judge.judged(entry, known[entry.id], candidates[entry.id]) for entry in self.entries)
        return RaceResult(self.device, judged, tuple(kept))

    def _groups(self) -> Iterator[list[Entry]]:
        """The device's best in each group, so that all are measured by it."""
        best = [entry for entry in self.entries if entry.id == self.best]
        others = [entry for entry in self.entries if entry.id != self.best]
        for start in range(0, max(1, len(others)), _OTHERS_AT_ONCE):
            yield [*best, *others[start : start + _OTHERS_AT_ONCE]]

    def _timed(self, group: Sequence[Entry], tracks: Sequence[Track]) -> list[FleetTrial]:
        base = tracks[0].result()
        if isinstance(base, Failure):
            raise RunnerFailed(base)
        best = base
        for entry, track in zip(group, tracks[1:], strict=True):
            result = track.result()
            if entry.id == self.best and not isinstance(result, Failure):
                best = result
        return [
            self._trial(entry, tracks[0], track, (base, best)) for entry, track in zip(group, tracks[1:], strict=True)
        ]

    def _trial(self, entry: Entry, first: Track, track: Track, beside: tuple[Measurement, Measurement]) -> FleetTrial:
        found, shown = track.result(), result_beside(first, track)
        if isinstance(found, Failure) or isinstance(shown, Failure):
            message = found.message if isinstance(found, Failure) else ""
            why = remark("trial.failed", message=message)
            return FleetTrial(entry.id, self.device, floor=FloorState.FAILED, why=why)
        base, best = beside
        return FleetTrial(
            entry.id,
            self.device,
            shown.samples.latency,
            compare_measurements(base, found),
            compare_measurements(best, found, base),
            doubts=tuple(found.doubts),
        )


class _Judge:
    """The accuracy of choices on this device, by the rule of every search."""

    def __init__(self, place: Place, opened: OpenOrder, job: RaceJob) -> None:
        order = job.order
        self._order, self._opened = order, opened
        self._judge = AccuracyJudge(
            place.target(job.device),
            (opened.candidate, opened.graph),
            opened.data,
            order.settings,
            lambda text: place.stream.progress(1.0, text),
            lambda note: None,
        )

    def close(self) -> None:
        """End the runners that wait for another choice."""
        self._judge.close()

    def judged(self, entry: Entry, timed: FleetTrial, candidate: Candidate) -> FleetTrial:
        """The trial with its state against the floor here."""
        if timed.floor is FloorState.FAILED:
            return timed
        found = entry.known or self._found(entry, candidate)
        why = NOTHING if found.may_be_chosen else found.why
        return replace(timed, floor=found.floor, refused=found.refused, why=why)

    def _found(self, entry: Entry, candidate: Candidate) -> Trial:
        trial = Trial(entry.variant, entry.plan)
        contents = [[file.sha256 for file in parcel.files] for parcel in (entry.model, self._order.model)]
        if contents[0] == contents[1] and keeps_numbers(entry.plan, self._order.plan):
            return replace(trial, floor=FloorState.KEPT)
        if self._opened.data.dataset.is_random:
            return replace(trial, floor=FloorState.UNKNOWN, why=remark("trial.no-data"))
        found = self._judge.judged(trial, candidate)
        return self._judge.reported(found, candidate) if found.may_be_chosen else found


@dataclass(frozen=True, slots=True)
class MakeJob(_OfAnOrder):
    """One variant, made on any worker."""

    recipe: str
    device: str = ""

    @property
    def digests(self) -> tuple[str, ...]:
        """The model."""
        return self.order.digests

    def perform(self, place: Place) -> tuple[MadeVariant, bytes]:
        """Make it in a process of its own."""
        opened, settings = place.open(self.order), self.order.settings
        place.stream.progress(0.0, f"making {self.recipe}")
        judge = AccuracyJudge(
            LocalTarget(),  # which is not asked for anything: calibration only reads data
            (opened.candidate, opened.graph),
            opened.data,
            settings,
            lambda text: None,
            lambda note: None,
        )
        samples = judge.calibration() if recipe_from_name(self.recipe).needs_calibration else None
        maker = VariantMaker(opened.candidate.path, opened.candidate.workload.signature, settings.io_types)
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder, contextlib.closing(maker):
            path = Path(folder) / "made.tflite"
            try:
                made = maker.make(self.recipe, path, samples)
            except NothingToChangeError as error:
                return MadeVariant(self.recipe, nothing_to_change=(error.message, error.hint)), b""
            content = path.read_bytes()
        digest = place.site.store.add(content)
        return MadeVariant(self.recipe, digest, to_data(made)), content


@dataclass(frozen=True, slots=True)
class EvaluateJob(_OfAnOrder):
    """A share of an evaluation: some samples of one part of the data, on a device that computes as the others do."""

    device: str
    part: str
    positions: tuple[int, ...]
    names: tuple[str, ...]
    """What the client calls these samples: comparisons pair them by name."""
    model: Parcel
    plan: Plan
    preprocess: Preprocess
    metric: Metric | None
    options: EvaluationOptions
    references: Mapping[int, Label] | None = None
    """What the original answered at these positions, where it is the measure."""

    @property
    def digests(self) -> tuple[str, ...]:
        """The original, and the model that is evaluated."""
        return (*self.order.digests, *(file.sha256 for file in self.model.files))

    def perform(self, place: Place) -> Evaluation | Failure:
        """Evaluate; positions are those of the whole part."""
        opened = place.open(self.order)
        whole = opened.part(self.part)
        samples = whole.samples
        assert not callable(samples), "a function's data does not travel"
        named = zip(self.positions, self.names, strict=True)
        dataset = replace(whole, samples=[replace(samples[position], name=name) for position, name in named])
        candidate = candidate_of(opened, place.site.store.place(self.model), self.plan, opened.candidate.label)
        found = evaluate(
            place.target(self.device),
            candidate,
            EvaluationData(dataset, self.preprocess, self.metric),
            options=replace(self.options, samples=None),
            against=self._original(),
            progress=place.stream.progress,
        )
        if isinstance(found, Failure):
            return found
        return replace(
            found,
            positions=tuple(self.positions[place] for place in found.positions),
            references={self.positions[place]: answer for place, answer in found.references.items()},
        )

    def _original(self) -> Evaluation | None:
        """The original's answers at these positions, as an evaluation takes them."""
        if self.references is None or self.metric is None:
            return None
        kind = kind_of(labelled=False, is_random=False)
        return Evaluation(
            accuracy=Accuracy(self.metric.name, 1.0, 1.0, 1.0, len(self.references), "", kind),
            metric=self.metric,
            positions=(),
            names=(),
            statistics=np.zeros((0, 1)),
            references={
                place: self.references[position]
                for place, position in enumerate(self.positions)
                if position in self.references
            },
            preprocess=(),
            ties=0,
            skipped=(),
            decision=None,
            seconds=0.0,
            runners=0,
            retries=0,
        )
