"""`tune` over a fleet: the same search next to each device, then every device's choice on all others, then one for all.

Each result is saved as it comes. After Ctrl-C the jobs end with what they have, and --resume goes on: devices that are
finished are not tuned again, and choices that were raced are not raced again.
"""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import read_bundle
from hasten.bundle.record import MODEL_FILE
from hasten.core.codec import from_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import DataError, Interrupted
from hasten.core.failure import Failure
from hasten.core.plan import plan_from_mapping
from hasten.core.remark import Remark, remark
from hasten.core.session import damage_as_error, read_session
from hasten.core.trial import ORIGINAL, trial_from_data, trial_id
from hasten.core.units import first_few
from hasten.core.version import VERSION
from hasten.data.request import open_data
from hasten.data.tensor_forms import forms_from_graph
from hasten.engine.model_file import file_hash
from hasten.fleet.facts import ROUND, FleetDevice, FleetFound, FleetTrial
from hasten.fleet.folder import REPORT, SINGLE, FleetFolder
from hasten.fleet.jobs import Entry, MakeJob, RaceJob, RaceResult, TuneJob, TuneResult
from hasten.fleet.order import make_order
from hasten.fleet.parcel import pack_file
from hasten.fleet.place import Stopped
from hasten.fleet.rules import named_choices, same_machines, shares, with_single_choices
from hasten.fleet.view import session_lines
from hasten.measure.opening import open_model
from hasten.measure.rounds import no_progress
from hasten.search.folder import SESSION
from hasten.search.plans import first_recipes
from hasten.search.settings import compared_settings
from hasten.variants.already_quantized import AlreadyQuantizedError, refuse_quantized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hasten.bundle.record import Bundle
    from hasten.core.plan import Plan, Workload
    from hasten.core.session import Session
    from hasten.data.request import Data
    from hasten.fleet.cluster import Cluster
    from hasten.fleet.facts import Choice
    from hasten.fleet.offers import FleetOffer
    from hasten.fleet.order import Order
    from hasten.fleet.parcel import Sources
    from hasten.fleet.shared_maker import MadeVariant
    from hasten.measure.rounds import Progress
    from hasten.search.settings import SearchSettings

    # Code and report of a device's bundle; and the page of the whole fleet.
    Companions = Callable[[Bundle, Session], Mapping[str, str]]
    Page = Callable[[Session], str]

_ITSELF: Final = Comparison(Verdict.SAME, 1.0, (1.0, 1.0), 0.0, 0)
# A race of choices that were all proven on some device: its time follows the budget of a tuning, within reason.
_RACE_SHARE: Final = 0.2
_SHORTEST_RACE_S: Final = 8.0
_LONGEST_RACE_S: Final = 40.0
# Failures that the tuning of each device meets again, and reports as its own.
_OF_THE_MODEL: Final = ("model", "usage", "data")
# The shares of the whole that a progress bar gives to each part.
_MADE, _TUNED, _RACED = 0.1, 0.85, 1.0


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What is asked of a fleet."""

    model: Path
    plan: Plan
    workload: Workload
    data: Data
    settings: SearchSettings
    seconds: float
    """The budget of the tuning on each device."""
    folder: Path
    devices: tuple[str, ...] = ()
    """Names of devices; empty for all."""
    weights: Mapping[str, float] = field(default_factory=dict)


def run(
    cluster: Cluster,
    request: FleetRequest,
    companions: Companions | None = None,
    page: Page | None = None,
    progress: Progress = no_progress,
) -> FleetFound:
    """Tune a fleet to the end. After Ctrl-C, what was found until then is in the folder, and is raised."""
    offers = cluster.selected(request.devices)
    weights = shares([offer.name for offer in offers], request.weights)
    candidate, graph = open_model(request.model, request.plan, request.workload)
    given = open_data(request.data, forms_from_graph(graph, request.workload).inputs)
    compared = compared_settings(candidate, given, request.settings)
    settings = _settings_data(cluster, request, weights, compared)
    folder = FleetFolder(request.folder, request.plan, settings, resume=request.settings.resume, version=VERSION)
    fleet = FleetTuning(cluster, request, folder, {offer.name: offer for offer in offers}, weights, progress)
    try:
        try:
            refuse_quantized(graph)
        except AlreadyQuantizedError:
            fleet.recipes = ()
        fleet.run()
        fleet.finish(companions, page)
        return fleet.found()
    except KeyboardInterrupt:
        fleet.stop()
        if not any(device.is_usable for device in fleet.devices.values()):
            raise
        fleet.finish(companions, page)
        raise Interrupted(fleet.found()) from None
    finally:
        folder.close()


def _settings_data(
    cluster: Cluster, request: FleetRequest, weights: Mapping[str, float], compared: Mapping[str, Any]
) -> dict[str, Any]:
    """The line of the session that says what was asked for; `compared` must be the same for a run to go on."""
    settings = request.settings
    return {
        "model": str(request.model),
        "data": request.data.source,
        "max_drop": settings.max_drop,
        "budget_of_each_s": request.seconds,
        "cluster": cluster.address,
        "weights": dict(weights),
        "command": settings.command,
        "compared": {**compared, "limit": settings.limit.describe(), "seed": settings.seed},
    }


@dataclass(slots=True)
class FleetTuning:
    """Runs to its end, or until it is interrupted; `found` tells at any time what there is."""

    cluster: Cluster
    request: FleetRequest
    folder: FleetFolder
    offers: dict[str, FleetOffer]
    weights: dict[str, float]
    progress: Progress = no_progress
    recipes: tuple[str, ...] | None = None
    """What the workers make for all; None for one recipe of each kind."""
    interrupted: bool = False
    devices: dict[str, FleetDevice] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    notes: list[Remark] = field(default_factory=list)
    _begin: float = field(default_factory=time.monotonic)
    _shares: dict[str, float] = field(default_factory=dict)
    _told: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)
    _stage: tuple[str, float, float] = ("packing", 0.0, 0.0)
    _sources: Sources = field(default_factory=dict)
    _single: str = ""

    def run(self) -> None:
        """Variants for all, a tuning for each device, every choice on every device."""
        self.notes += same_machines({name: offer.host for name, offer in self.offers.items() if offer.is_local})
        self.devices = {name: _waiting(offer) for name, offer in self.offers.items()}
        self.devices.update({name: found for name, found in self.folder.devices.items() if name in self.offers})
        self._tell("packing model and data")
        request = self.request
        order = make_order(
            self.folder.run,
            (request.model, request.plan, request.workload),
            request.data,
            request.settings,
            request.seconds,
            self._sources,
            self._tell,
        )
        self.cluster.know(self._sources)
        self.cluster.begin(self.folder.run, self._hear)
        self.cluster.supply(self._sources, self._addresses, self._tell)
        open_devices = [name for name in self._reachable if not self.devices[name].is_usable]
        if open_devices:
            made = self._made(order)
            self._tune([TuneJob(order, name, made) for name in open_devices])
        self.choices = named_choices(
            (request.plan, order.model.files[0].sha256, order.model.files[0].size), list(self.devices.values())
        )
        self._name_bests()
        self._race(order)

    def found(self) -> FleetFound:
        """What there is now."""
        devices = tuple(self.devices.values())
        if not self.choices:
            base = (self.request.plan, file_hash(self.request.model), self.request.model.stat().st_size)
            self.choices = named_choices(base, devices)
            self._name_bests()
        absent = [device.name for device in devices if not device.is_usable]
        notes = [*self.notes, *([remark("fleet.excluded", devices=absent)] if absent else [])]
        return with_single_choices(
            FleetFound(
                model=str(self.request.model),
                devices=tuple(self.devices.values()),
                choices=self.choices,
                trials=tuple(self._trials()),
                weights=self.weights,
                notes=tuple(notes),
                seconds=time.monotonic() - self._begin,
                folder=str(self.folder.path),
                single_folder=self._single,
                cluster=self.cluster.address,
                command=self.request.settings.command,
                interrupted=self.interrupted,
            )
        )

    def finish(self, companions: Companions | None, page: Page | None) -> None:
        """Write the bundle for all, what accompanies each bundle, the result, and the page."""
        found = self.found()
        self._write_single(found, companions)
        for device in found.usable:
            place = Path(device.folder)
            if companions is not None and not (place / REPORT).exists():
                self.folder.write_texts(
                    place, companions(read_bundle(place, trust_bundle=True), read_session(place / SESSION))
                )
        for line in session_lines(self.found()):
            self.folder.keep(*line)
        if page is not None:
            session = read_session(self.folder.path / SESSION)
            # Raw rounds are for those who count again: a page of a hundred devices would drown in them.
            shown = replace(session, lines=tuple(line for line in session.lines if line.kind != ROUND))
            self.folder.write_texts(self.folder.path, {REPORT: page(shown)})

    def stop(self) -> None:
        """After Ctrl-C: let the jobs conclude, so that each device keeps the best that it has by then."""
        self.interrupted = True
        self.cluster.stop(self.folder.run)

    @property
    def _reachable(self) -> list[str]:
        return [name for name, offer in self.offers.items() if not offer.device.why.code]

    @property
    def _addresses(self) -> list[str]:
        return sorted({self.offers[name].address for name in self._reachable})

    def _write_single(self, found: FleetFound, companions: Companions | None) -> None:
        single = found.weighted
        choice = next((one for one in found.choices if single is not None and one.id == single.choice), None)
        if single is None or choice is None or not choice.devices:  # the original as it is needs no bundle
            return
        measured = {
            "variant": choice.variant,
            "speedup": 1 / single.ratio,
            "confirmed": single.ci95[1] < 1,
            "devices": [device.name for device in found.usable],
        }
        bundle = self.folder.write_single(self.folder.place_of(choice.devices[0]), choice.plan, measured)
        self._single = str(self.folder.path / SINGLE)
        if companions is not None:
            session = read_session(self.folder.path / SESSION)
            texts = {name: text for name, text in companions(bundle, session).items() if name != REPORT}
            self.folder.write_texts(self.folder.path / SINGLE, texts)

    def _made(self, order: Order) -> tuple[MadeVariant, ...]:
        """One variant of each kind, made once for all devices. What cannot be made is left to each tuning to report."""
        recipes = first_recipes(order.settings.recipes) if self.recipes is None else list(self.recipes)
        self._enter("making variants", 0.0, _MADE)
        found: list[MadeVariant] = []
        for done, (job, result) in enumerate(self._completed([MakeJob(order, name) for name in recipes]), 1):
            self._stage = ("making variants", _MADE * done / len(recipes), _MADE)
            self._tell(f"{done} of {len(recipes)}")
            if isinstance(result, Failure):
                if result.kind not in _OF_THE_MODEL:
                    self.notes.append(remark("fleet.not-made", recipe=job.recipe, message=result.message))
            elif not isinstance(result, Stopped):
                made, content = result
                if made.sha256:
                    self._sources[made.sha256] = content
                found.append(made)
        self.cluster.know(self._sources)
        self.cluster.supply([one.sha256 for one in found if one.sha256], self._addresses, self._tell)
        return tuple(sorted(found, key=lambda one: one.recipe))

    def _tune(self, work: Sequence[TuneJob]) -> None:
        self._enter("tuning", _MADE, _TUNED, [job.device for job in work])
        if taken := sorted(self.cluster.busy() & {job.device for job in work}):
            self._tell(f"waiting for {first_few(taken, 3)}, which another run uses")
        for job, result in self._completed(work):
            self._save(job.device, result)

    def _completed(self, work: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Results as they come. After Ctrl-C, what the jobs deliver until they end comes before KeyboardInterrupt."""
        for job, result in self.cluster.completed(work, self.offers, self._listen, self.stop):
            yield job, result
            self._listen()

    def _save(self, device: str, result: Any) -> None:
        """Save what became of a device's tuning."""
        offer = self.offers[device]
        if isinstance(result, TuneResult):
            place = self.folder.save_files(device, result.files)
            try:
                known = replace(_device_in(place, _waiting(offer), self.request.plan), interrupted=result.interrupted)
            except DataError as error:
                why = remark("fleet.failed", message=error.message, hint=error.hint)
                known = replace(_waiting(offer), why=why)
        elif isinstance(result, Failure):
            why = remark("fleet.failed", message=result.message, hint=result.hint)
            known = replace(_waiting(offer), why=why)
        else:
            known = replace(_waiting(offer), why=remark("fleet.stopped", device=device))
        self.devices[device] = known
        self.folder.save_device(known)

    def _name_bests(self) -> None:
        """Let each device know which choice is its best."""
        of_device = {device: choice.id for choice in self.choices for device in choice.devices}
        for name, device in self.devices.items():
            self.devices[name] = replace(device, best_id=of_device.get(name, ""))

    def _race(self, order: Order) -> None:
        """The choices of all devices on each device that does not know them yet."""
        base = self.choices[0].id
        entries = [self._entry(choice) for choice in self.choices if choice.id != base]
        self.cluster.know(self._sources)
        work = []
        for device in self.devices.values():
            foreign = [one for one in entries if one.id != device.best_id]
            wanted = [one for one in foreign if (one.id, device.name) not in self.folder.trials]
            if device.is_usable and wanted and device.name in self.offers:
                own = [replace(one, known=device.best) for one in entries if one.id == device.best_id]
                best = device.best_id if own else ""
                work.append(RaceJob(order, device.name, (*own, *wanted), best, self._race_seconds))
        if not work:
            return
        self._enter("racing", _TUNED, _RACED, [job.device for job in work])
        for job, result in self._completed(work):
            if isinstance(result, RaceResult):
                for label, data in result.rounds:
                    self.folder.save_round(job.device, label, data)
                for trial in result.trials:
                    self.folder.save_trial(trial)
            elif isinstance(result, Failure):
                self.notes.append(remark("fleet.not-raced", device=job.device, message=result.message))

    @property
    def _race_seconds(self) -> float:
        return min(_LONGEST_RACE_S, max(_SHORTEST_RACE_S, _RACE_SHARE * self.request.seconds))

    def _entry(self, choice: Choice) -> Entry:
        path = self.folder.place_of(choice.devices[0]) / MODEL_FILE
        return Entry(choice.id, choice.variant, self.folder.plan_elsewhere(choice.plan), pack_file(path, self._sources))

    def _trials(self) -> list[FleetTrial]:
        """What is known of each choice on each device: by the races, or by the device's own tuning."""
        names = {choice.id for choice in self.choices}
        raced = {key: trial for key, trial in self.folder.trials.items() if key[0] in names and key[1] in self.devices}
        found = list(raced.values())
        for device in self.devices.values():
            best = device.best
            if best is None or not device.best_id or (device.best_id, device.name) in raced:
                continue
            if device.best_id == self.choices[0].id:
                continue  # the original as it runs now: the rules know it
            against = device.final or best.against or _ITSELF
            own = FleetTrial(device.best_id, device.name, best.latency, against, _ITSELF, best.floor, best.refused)
            found.append(replace(own, doubts=best.doubts))
        return found

    def _hear(self, told: dict[str, Any]) -> None:
        """What a job tells, on a thread of Dask's: it waits until this one has time for it."""
        self._told.put(told)

    def _listen(self) -> None:
        """Save the lines that came, and show how far each device is."""
        last = ""
        while True:
            try:
                told = self._told.get_nowait()
            except queue.Empty:
                break
            if told.get("device") not in self.devices:  # what makes variants has no device, and nothing to save
                continue
            if "lines" in told:
                self.folder.hear(told)
            elif told["device"] in self._shares:
                self._shares[told["device"]] = float(told["share"])
                last = f"{told['device']}: {told['text']}"
        if last:
            self._tell(last)

    def _enter(self, name: str, first: float, last: float, devices: Sequence[str] = ()) -> None:
        self._stage = (name, first, last)
        self._shares = dict.fromkeys(devices, 0.0)
        self._tell("")

    def _tell(self, text: str) -> None:
        if self.interrupted:  # a bar would raise the same interruption again
            return
        name, first, last = self._stage
        done = sum(self._shares.values()) / len(self._shares) if self._shares else 0.0
        told = f"{name}: {text}" if text else name
        self.progress(first + (last - first) * min(done, 1.0), told)


def _waiting(offer: FleetOffer) -> FleetDevice:
    """A device of which nothing is known yet, or which cannot be used."""
    return FleetDevice(offer.device, offer.worker, why=offer.device.why)


def _device_in(place: Path, device: FleetDevice, plan: Plan) -> FleetDevice:
    """What the session of a device's tuning says."""
    session = read_session(place / SESSION)
    with damage_as_error(str(place / SESSION)):
        trials = {line.label: line.data for line in session.lines if line.kind == "trial"}
        result = [line.data for line in session.lines if line.kind == "result"][-1]
        finals = [line.data for line in session.lines if line.kind == "comparison" and line.label == "final"]
        chosen = result["best"]
        best = trial_from_data(trials[trial_id(chosen["variant"], plan_from_mapping(chosen["plan"]))])
        original = trial_from_data(trials[trial_id(ORIGINAL, plan)])
        is_proven = best.id != original.id and bool(finals) and not result["interrupted"]
        return replace(
            device,
            original=original,
            best=replace(best, sha256=file_hash(place / MODEL_FILE)),
            final=from_data(Comparison, finals[-1]) if is_proven else None,
            trials=int(result["trials"]),
            seconds=float(result["seconds"]),
            folder=str(place),
        )
