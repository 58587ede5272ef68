"""The folder of a fleet's tuning: its session, a folder for each device, and the bundle of the choice for all.

OUT/session.jsonl            what the fleet came to, each result as it came
OUT/report.html              the page of the fleet
OUT/devices/NAME/            a tuning's folder: bundle, session and report of one device
OUT/single/                  the bundle of the choice for all devices
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import PLAN_FILE, read_bundle, write_bundle, write_texts
from hasten.bundle.record import MODEL_FILE, inside
from hasten.core.codec import from_data, to_data
from hasten.core.plan import Plan
from hasten.core.session import damage_as_error, read_session
from hasten.core.whole_file import write_whole
from hasten.fleet.facts import DEVICE, ROUND, RUN, TRIAL, FleetDevice, FleetTrial
from hasten.search.folder import SESSION, FolderRules, SearchFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hasten.bundle.record import Bundle
    from hasten.core.session import Session

FLEET: Final = FolderRules("fleet", "variants", "--resume", refuses_foreign=False)
DEVICES: Final = "devices"
SINGLE: Final = "single"
REPORT: Final = "report.html"
# The parts of a plan that load code, or may.
_LOADING: Final = ("delegate", "kernels", "options")


class FleetFolder:
    """A new folder, or that of an earlier run of the same command, which goes on with what is finished."""

    def __init__(self, path: Path, plan: Plan, settings: Mapping[str, Any], *, resume: bool, version: str) -> None:
        self.path = path
        self._plan = plan
        self._kept = SearchFolder(path, FLEET, settings, resume=resume, version=version)
        self._partial: dict[str, int] = {}
        self.run = ""
        self.devices: dict[str, FleetDevice] = {}
        """The devices whose tuning is finished, by name."""
        self.trials: dict[tuple[str, str], FleetTrial] = {}
        """What is known of choices on devices, by both."""
        try:
            self._read(read_session(path / SESSION))
            if not self.run:
                self.run = uuid.uuid4().hex
                self.keep(RUN, self.run, {})
        except BaseException:
            self._kept.close()
            raise

    def close(self) -> None:
        """Let others in."""
        self._kept.close()

    def keep(self, kind: str, label: str, data: dict[str, Any]) -> None:
        """Save a line at once."""
        self._kept.keep(kind, label, data)

    def place_of(self, device: str) -> Path:
        """The folder of a device's tuning. Names of devices are plain: the worker sees to it."""
        return self.path / DEVICES / device

    def hear(self, told: Mapping[str, Any]) -> None:
        """Save the lines of a device's session as they come; a gap is closed when the whole of it arrives."""
        device, lines = str(told["device"]), str(told["lines"])
        at, content = int(told["at"]), lines.encode()
        if device in self.devices or at not in (0, self._partial.get(device, 0)):
            return
        place = self.place_of(device)
        try:
            place.mkdir(parents=True, exist_ok=True)
            if at:
                with (place / SESSION).open("ab") as stream:
                    stream.write(content)
            else:  # it begins anew; a full disk leaves the session of before
                write_whole(place / SESSION, content, follow_link=False)
        except OSError as error:
            raise self._kept.trouble(error) from error
        self._partial[device] = at + len(content)

    def save_files(self, device: str, files: Mapping[str, bytes]) -> Path:
        """Write what a finished tuning delivered."""
        place = self.place_of(device)
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / REPORT).unlink(missing_ok=True)  # it is of an earlier state
            # The plan last: a folder with a plan is a bundle.
            for name in (SESSION, MODEL_FILE, PLAN_FILE):
                if name in files:
                    write_whole(place / name, files[name], follow_link=False)
            self._partial.pop(device, None)
        except OSError as error:
            raise self._kept.trouble(error) from error
        return place

    def save_device(self, device: FleetDevice) -> None:
        """Save what a device's tuning came to."""
        if device.is_usable and not device.interrupted:
            self.devices[device.name] = device
        self.keep(DEVICE, device.name, to_data(device))

    def save_trial(self, trial: FleetTrial) -> None:
        """Save what a choice came to on a device."""
        self.trials[trial.choice, trial.device] = trial
        self.keep(TRIAL, f"{trial.device}: {trial.choice}", to_data(trial))

    def save_round(self, device: str, label: str, data: dict[str, Any]) -> None:
        """Save the raw samples of one choice in one round."""
        self.keep(ROUND, f"{device}: {label}", data)

    def write_texts(self, folder: Path, texts: Mapping[str, str]) -> None:
        """Write what accompanies a bundle or the fleet: code and pages."""
        try:
            write_texts(folder, texts)
        except OSError as error:
            raise self._kept.trouble(error) from error

    def write_single(self, source: Path, plan: Plan, measured: Mapping[str, Any]) -> Bundle:
        """Make a device's bundle that of all devices, with the plan that was raced; the figures are those of all."""
        # What the folder says of libraries is not taken over: anybody may have made it.
        bundle = read_bundle(source, trust_bundle=True)
        folder = self.path / SINGLE
        if plan.cache:
            is_named = plan.cache == self._plan.cache
            cache = bundle.plan.cache if is_named else _cache_in(folder, source, bundle.plan.cache)
            plan = replace(plan, cache=cache)
        return write_bundle(bundle.model_path, replace(bundle, folder=folder, plan=plan, measured=measured))

    def plan_elsewhere(self, plan: Plan) -> Plan:
        """A device's plan as others get it: without a cache that the command does not name."""
        return plan if plan.cache == self._plan.cache else replace(plan, cache="")

    def _read(self, session: Session) -> None:
        with damage_as_error(str(self.path / SESSION)):
            for line in session.lines:
                if line.kind == RUN:
                    self.run = line.label
                elif line.kind == DEVICE:
                    device = from_data(FleetDevice, line.data)
                    if self._goes_on(device):
                        self.devices[device.name] = replace(device, folder=str(self.place_of(device.name)))
                elif line.kind == TRIAL:
                    trial = from_data(FleetTrial, line.data)
                    self.trials[trial.choice, trial.device] = trial

    def _goes_on(self, device: FleetDevice) -> bool:
        """Whether a device need not be tuned again. A session may have been made by anybody: a plan with libraries or
        engine options that this command does not name is worked out anew. A cache stays with its device."""
        if device.best is None or device.interrupted:
            return False
        found, asked = device.best.plan, self._plan
        return all(getattr(found, name) in (getattr(asked, name), getattr(Plan(), name)) for name in _LOADING)


def _cache_in(folder: Path, source: Path, cache: str) -> str:
    """The cache of a bundle at the same place in another folder; none if it lies outside the bundle."""
    try:
        return str(folder.resolve() / inside(source, cache).relative_to(source.resolve()))
    except (OSError, ValueError):
        return ""
