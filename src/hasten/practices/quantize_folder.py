"""The folder of a search: its session, its variants and the chosen model; what is finished is found again."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.mixing import Sensitivity, sensitivity_from_data
from hasten.core.quantization import ORIGINAL, VariantRow, row_from_data
from hasten.core.session import SessionWriter, read_session
from hasten.evaluate.fingerprint import file_hash
from hasten.practices.folder_lock import FolderLock
from hasten.variants.io_types import FLOAT

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION: Final = "session.jsonl"
CHOSEN: Final = "chosen.tflite"
# Files are made under this name and then moved: an interruption leaves no half of a model.
_MAKING: Final = ".making.tflite"
_OWN: Final = (SESSION, CHOSEN, _MAKING)
COMMAND: Final = "quantize"
# Settings that are about the content behind a name; where a session has none, an earlier hasten has begun it.
DATA_CONTENT: Final = "content of the data"
CALIBRATION_CONTENT: Final = "content of the calibration data"
METRIC_CONTENT: Final = "code of the metric"
_NAMED_BY: Final = {DATA_CONTENT: "data", CALIBRATION_CONTENT: "calibration", METRIC_CONTENT: "metric"}
SHAPE: Final = "shape"
AS_IN_THE_FILE: Final = "as in the file"
# No more room than this is looked for after trouble.
_MOST_ROOM_BYTES: Final = 1 << 26
# What file managers leave behind, beside hidden files.
_LITTER: Final = ("Thumbs.db", "desktop.ini")


class FolderError(DataError):
    """The folder cannot be written: nothing that is still to come could be saved."""


class QuantizeFolder:
    """Opens a folder for a search, or goes on with one; refuses a folder that holds anything else."""

    def __init__(self, path: Path, settings: Mapping[str, Any], version: str = "") -> None:
        self.path = path
        self.rows: dict[str, VariantRow] = {}
        self.sensitivities: list[Sensitivity] = []
        self.notes: dict[str, None] = {}
        """Sentences for whoever reads the result, in their order."""
        self.skipped: dict[str, str] = {}
        """Samples that were left out, and why."""
        self.floor: dict[str, Any] = {}
        """What the largest drop means, once the original was judged."""
        self._chosen = ""
        self._session = SessionWriter(path / SESSION, {"hasten": version, "command": COMMAND})
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
            present = sorted(entry.name for entry in path.iterdir() if not _is_litter(entry.name))
        except OSError as error:
            raise DataError(f"the folder {path} cannot be used: {error.strerror}", "Choose another with -o.") from None
        self.resumed = SESSION in present
        try:
            if self.resumed:
                self._read(settings)
            self._refuse_foreign(present)
        except BaseException:
            self._lock.release()
            raise
        self._session.begin()
        if not self.resumed:
            self.keep("settings", COMMAND, dict(settings))

    @property
    def making(self) -> Path:
        """Where a variant is made before it has a name."""
        return self.path / _MAKING

    def keep(self, kind: str, label: str, data: dict[str, Any]) -> None:
        """Save something to the session, at once."""
        try:
            self._session.add(kind, label, data)
        except DataError as error:
            raise self._trouble(error.__cause__ if isinstance(error.__cause__, OSError) else error) from error

    def check_room(self, size_bytes: int) -> None:
        """Raise where a file of this size cannot be written, which makes many things fail in ways of their own."""
        try:
            with self.making.open("ab") as stream:
                stream.write(bytes(min(size_bytes, _MOST_ROOM_BYTES)))
                stream.flush()
                os.fsync(stream.fileno())
            self.making.unlink()
        except OSError as error:
            raise self._trouble(error) from error

    def note(self, text: str) -> None:
        """Save a sentence; the same one is saved once."""
        if text not in self.notes:
            self.notes[text] = None
            self.keep("note", "", {"text": text})

    def save_skipped(self, skipped: Mapping[str, str]) -> None:
        """Save which samples were left out; each is saved once."""
        for name, reason in skipped.items():
            if name not in self.skipped:
                self.skipped[name] = reason
                self.keep("skipped", name, {"reason": reason})

    def save_floor(self, floor: dict[str, Any]) -> None:
        """Save what the largest drop means."""
        if floor != self.floor:
            self.floor = floor
            self.keep("floor", COMMAND, floor)

    def save(self, row: VariantRow) -> None:
        """Save a row; it takes the place of an earlier one of the same recipe."""
        self.keep("variant", row.recipe, row.as_data())
        self.rows[row.recipe] = row

    def place(self, row: VariantRow) -> None:
        """Save a row whose file has just been made, and give the file its name. The row is first: an unknown file would
        be a foreign one."""
        self.save(row)
        try:
            self.making.replace(row.path)
        except OSError as error:
            raise self._trouble(error) from error

    def save_sensitivity(self, found: Sensitivity) -> None:
        """Save what one group of nodes came to."""
        self.keep("sensitivity", found.location, found.as_data())
        self._add_sensitivity(found)

    def has_file_of(self, row: VariantRow) -> bool:
        """Whether the row's file is there, and the same."""
        path = Path(row.path)
        return bool(row.path) and path.is_file() and file_hash(path) == row.sha256

    def choose(self, recipe: str, source: Path, sha256: str) -> None:
        """Make a copy of this model the chosen one, unless it is one already."""
        chosen = self.path / CHOSEN
        try:
            if not chosen.is_file() or sha256 != (self._chosen or file_hash(chosen)):
                shutil.copyfile(source, self.making)
                self.making.replace(chosen)
        except OSError as error:
            raise self._trouble(error) from error
        if self._chosen != sha256:
            self.keep("chosen", recipe, {"recipe": recipe, "sha256": sha256})
        self._chosen = sha256

    def choose_nothing(self) -> None:
        """Leave no chosen model, as even the original cannot be run."""
        (self.path / CHOSEN).unlink(missing_ok=True)
        self._chosen = ""

    def close(self) -> None:
        """Leave nothing half made."""
        self._session.close()
        self.making.unlink(missing_ok=True)
        self._lock.release()

    def _read(self, settings: Mapping[str, Any]) -> None:
        session = read_session(self.path / SESSION)
        if session.header.get("command") != COMMAND:
            raise UsageError(f"{self.path} holds the session of another command", "Choose another folder with -o.")
        for trial in session.trials:
            if trial.kind == "settings":
                self._compare(trial.data, settings)
            elif trial.kind == "variant":
                self.rows[trial.label] = self._here(row_from_data(trial.data))
            elif trial.kind == "sensitivity":
                self._add_sensitivity(sensitivity_from_data(trial.data))
            elif trial.kind == "note":
                self.notes[trial.data["text"]] = None
            elif trial.kind == "skipped":
                self.skipped[trial.label] = trial.data["reason"]
            elif trial.kind == "floor":
                self.floor = trial.data

    def _add_sensitivity(self, found: Sensitivity) -> None:
        others = [entry for entry in self.sensitivities if (entry.recipe, entry.nodes) != (found.recipe, found.nodes)]
        self.sensitivities = [*others, found]

    def _here(self, row: VariantRow) -> VariantRow:
        """The row with its file in this folder, wherever the folder was before."""
        if not row.path or row.recipe == ORIGINAL:
            return row
        return replace(row, path=str(self.path / Path(row.path).name))

    def _compare(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for key in {**before, **now}:
            if key in _NAMED_BY:
                continue
            # Nothing but types can be missing, on either side: that means float32; and the shape, in older sessions.
            missing = AS_IN_THE_FILE if key == SHAPE else FLOAT
            was, wanted = before.get(key, missing), now.get(key, missing)
            if was != wanted:
                raise UsageError(
                    f"{self.path} holds a search with another {key}: {was}, not {wanted}",
                    "Choose another folder with -o, or repeat the command as it was.",
                )
        for key, name in _NAMED_BY.items():
            self._compare_content(str(now.get(name, "")), before.get(key), now.get(key))

    def _compare_content(self, name: str, before: str | None, now: str | None) -> None:
        if now is None or before == now:
            return
        if before is None:
            self.notes[f"whether {name} is what it was when this search began was not recorded then"] = None
            return
        raise UsageError(
            f"{name} has changed since the search in {self.path} began: its figures and new ones cannot be compared",
            "Choose another folder with -o, or put back what it was.",
        )

    def _trouble(self, error: OSError | DataError) -> FolderError:
        """Trouble with the disk as an error that says what to do."""
        reason = error.message if isinstance(error, DataError) else error.strerror or str(error)
        return FolderError(
            f"{self.path} cannot be written: {reason}; what was found so far is saved",
            "Make room there, and the same command goes on; or choose another folder with -o.",
        )

    def _refuse_foreign(self, present: list[str]) -> None:
        rows = [row for row in self.rows.values() if row.path and row.recipe != ORIGINAL]
        known = {Path(row.path).name for row in rows}
        foreign = [name for name in present if name not in _OWN and name not in known]
        if not self.resumed:
            foreign = present
        names = [Path(row.path).name for row in rows if not self.has_file_of(row)]
        changed = [name for name in names if name in present]
        if foreign or changed:
            what = f"holds {foreign[0]}, which is not of this search" if foreign else f"has another {changed[0]} now"
            raise UsageError(
                f"the folder {self.path} {what}", "Choose a new or empty folder with -o; nothing was changed."
            )


def _is_litter(name: str) -> bool:
    """Whether a file is of no account: hidden, or left behind by a file manager."""
    return name in _LITTER or (name.startswith(".") and name != _MAKING)
