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
from hasten.bundle.record import MODEL_FILE
from hasten.core.codec import from_data, to_data
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


class FleetFolder:
    """A new folder, or that of an earlier run of the same command, which goes on with what is finished."""

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool, version: str) -> None:
        self.path = path
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

    def write_single(self, source: Path, measured: Mapping[str, Any]) -> Bundle:
        """Make a device's bundle that of all devices; the figures are those of all."""
        bundle = read_bundle(source, trust_bundle=True)  # its plan is one that this very run asked for
        single = replace(bundle, folder=self.path / SINGLE, measured=measured)
        return write_bundle(bundle.model_path, single)

    def _read(self, session: Session) -> None:
        with damage_as_error(str(self.path / SESSION)):
            for line in session.lines:
                if line.kind == RUN:
                    self.run = line.label
                elif line.kind == DEVICE:
                    device = from_data(FleetDevice, line.data)
                    if device.is_usable and not device.interrupted:
                        self.devices[device.name] = replace(device, folder=str(self.place_of(device.name)))
                elif line.kind == TRIAL:
                    trial = from_data(FleetTrial, line.data)
                    self.trials[trial.choice, trial.device] = trial
