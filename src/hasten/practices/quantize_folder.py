"""The folder of a search: its session, its variants and the chosen model; what is finished is found again."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.mixing import Sensitivity, sensitivity_from_data
from hasten.core.quantization import ORIGINAL, VariantRow, row_from_data
from hasten.core.session import SessionWriter, read_session
from hasten.model.variants.border import FLOAT
from hasten.practices.folder_lock import FolderLock

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION: Final = "session.jsonl"
CHOSEN: Final = "chosen.tflite"
# Files are made under this name and then moved: an interruption leaves no half of a model.
_MAKING: Final = ".making.tflite"
_OWN: Final = (SESSION, CHOSEN, _MAKING)
COMMAND: Final = "quantize"


class QuantizeFolder:
    """Opens a folder for a search, or goes on with one; refuses a folder that holds anything else."""

    def __init__(self, path: Path, settings: Mapping[str, Any], version: str = "") -> None:
        self.path = path
        self.rows: dict[str, VariantRow] = {}
        self.sensitivities: list[Sensitivity] = []
        self._session = SessionWriter(path / SESSION, {"hasten": version, "command": COMMAND})
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
            present = sorted(entry.name for entry in path.iterdir())
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
        self._session.add(kind, label, data)

    def save(self, row: VariantRow) -> None:
        """Save a row; it takes the place of an earlier one of the same recipe."""
        self.keep("variant", row.recipe, row.as_data())
        self.rows[row.recipe] = row

    def place(self, row: VariantRow) -> None:
        """Save a row whose file has just been made, and give the file its name. The row is first: an unknown file would
        be a foreign one."""
        self.save(row)
        self.making.replace(row.path)

    def save_sensitivity(self, found: Sensitivity) -> None:
        """Save what one group of nodes came to."""
        self.keep("sensitivity", found.location, found.as_data())
        self._add_sensitivity(found)

    def has_file_of(self, row: VariantRow) -> bool:
        """Whether the row's file is there, and the same."""
        path = Path(row.path)
        return bool(row.path) and path.is_file() and file_hash(path) == row.sha256

    def choose(self, source: Path) -> Path:
        """Make a copy of this model the chosen one."""
        chosen = self.path / CHOSEN
        shutil.copyfile(source, self.making)
        self.making.replace(chosen)
        return chosen

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
            # Nothing but types can be missing, on either side: that means float32.
            was, wanted = before.get(key, FLOAT), now.get(key, FLOAT)
            if was != wanted:
                raise UsageError(
                    f"{self.path} holds a search with another {key}: {was}, not {wanted}",
                    "Choose another folder with -o, or repeat the command as it was.",
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


def file_hash(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
