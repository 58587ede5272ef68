"""The folder of a tuning: its session, its variants and the bundle; opened afresh, or to go on with what is there."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import PLAN_FILE
from hasten.bundle.record import MODEL_FILE
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.machine import machine_facts
from hasten.core.quantization import row_from_data
from hasten.core.session import SessionWriter, read_session
from hasten.core.tuning import trial_from_data
from hasten.practices.folder_lock import FolderLock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.core.quantization import VariantRow
    from hasten.core.session import Session
    from hasten.core.tuning import TuneTrial

SESSION: Final = "session.jsonl"
VARIANTS: Final = "variants"
MIXES: Final = "mixes"
COMMAND: Final = "tune"
_MAKE_ROOM: Final = "What was saved before is still there: make room, and go on with --resume."


class TuneFolder:
    """A new or empty folder, or with `resume` one of an earlier tuning; anything else is refused and stays as it is."""

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool, version: str = "") -> None:
        self.path = path
        self.trials: dict[str, TuneTrial] = {}
        self.variants: dict[str, VariantRow] = {}
        self.floor: dict[str, Any] = {}
        """What the largest drop means for this metric and data; empty before the original was judged."""
        self.elapsed_s = 0.0
        """What earlier runs of this tuning took."""
        self._session = SessionWriter(path / SESSION, {"hasten": version, "command": COMMAND})
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
            # An empty session is what is left of a run that was killed as it began.
            empty = [SESSION] if (path / SESSION).is_file() and not (path / SESSION).stat().st_size else []
            present = sorted(entry.name for entry in path.iterdir() if entry.name not in empty)
        except OSError as error:
            raise DataError(f"the folder {path} cannot be used: {error.strerror}", "Choose another with -o.") from None
        self.resumed = SESSION in present
        self._has_settings = False
        try:
            self._open(present, settings, resume=resume)
        except BaseException:
            self.close()
            raise

    def _open(self, present: list[str], settings: Mapping[str, Any], *, resume: bool) -> None:
        path = self.path
        if present and not self.resumed:
            raise UsageError(
                f"the folder {path} holds {present[0]}, which is not of a tuning",
                "Choose a new or empty folder with -o; nothing was changed.",
            )
        if self.resumed and not resume:
            raise UsageError(
                f"{path} holds a session already", "Add --resume to go on with it, or choose another folder with -o."
            )
        if self.resumed:
            self._read(read_session(path / SESSION), settings)
            self._tidy()
        self._begin()
        if not self._has_settings:
            self.keep("settings", COMMAND, dict(settings))

    def keep(self, kind: str, label: str, data: dict[str, Any]) -> None:
        """Save something to the session, at once."""
        try:
            self._session.add(kind, label, data)
        except DataError as error:
            raise DataError(error.message, _MAKE_ROOM) from error

    def save(self, trial: TuneTrial) -> None:
        """Save a trial; it takes the place of an earlier line with the same id."""
        self.keep("trial", trial.id, trial.as_data())
        self.trials[trial.id] = trial

    def save_floor(self, floor: dict[str, Any]) -> None:
        """Save what may be lost."""
        self.keep("floor", COMMAND, floor)
        self.floor = floor

    def _begin(self) -> None:
        try:
            self._session.begin()
        except DataError as error:
            raise DataError(error.message, "Choose another folder with -o.") from error

    def save_variant(self, row: VariantRow) -> None:
        """Save what became of a variant."""
        self.keep("variant", row.recipe, row.as_data())
        self.variants[row.recipe] = row

    def place_of(self, variant: str) -> Path:
        """Where a variant's file lies, wherever the folder was before."""
        return self.path / VARIANTS / f"{variant}.tflite"

    def close(self) -> None:
        """Close the session, and let others in."""
        self._session.close()
        self._lock.release()

    def _read(self, session: Session, settings: Mapping[str, Any]) -> None:
        if session.header.get("command") != COMMAND:
            raise UsageError(f"{self.path} holds the session of another command", "Choose another folder with -o.")
        for trial in session.trials:
            if trial.kind == "settings" and trial.label == COMMAND:
                self._compare(trial.data, settings)
                self._has_settings = True
            elif trial.kind == "trial":
                self.trials[trial.label] = trial_from_data(trial.data)
                self.elapsed_s = max(self.elapsed_s, self.trials[trial.label].elapsed_s)
            elif trial.kind == "variant":
                self.variants[trial.label] = row_from_data(trial.data)
            elif trial.kind == "floor":
                self.floor = trial.data

    def _tidy(self) -> None:
        """A model without its plan is what a kill between the two has left of a bundle."""
        if not (self.path / PLAN_FILE).exists():
            (self.path / MODEL_FILE).unlink(missing_ok=True)

    def _compare(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        if before.get("sha256") != now["sha256"]:
            raise ModelError(
                f"{now['model']} is another model than the one that {self.path} was begun with",
                "Put the earlier file back, or choose another folder with -o; nothing was changed.",
            )
        known = before.get("compared", {})
        for key, value in now["compared"].items():
            # What an earlier version did not compare is not held against its folder.
            if known.get(key, value) != value:
                raise UsageError(
                    f"{self.path} holds a tuning with another {key}: {known[key]}, not {value}",
                    "Repeat the command as it was, or choose another folder with -o.",
                )


def environment_data(machine: Machine, version: str) -> dict[str, Any]:
    """Where all of it was measured."""
    return {
        **machine_facts(machine),
        "hasten": version,
        "host_python": platform.python_version(),
        "packages": {name: found for name in ("numpy", "ai-edge-quantizer", "openvino") if (found := _version(name))},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
