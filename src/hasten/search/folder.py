"""The folder of a search: its session, its variants, the chosen model; what is finished is found again.

`quantize` and `tune` differ in a few rules, which `FolderRules` names: where variants lie, whether going on must be
asked for, and whether files that are not of the search are refused.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import PLAN_FILE
from hasten.bundle.record import MODEL_FILE
from hasten.core.codec import from_data, to_data, typed_from_data
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.finding import Finding, finding_from_data
from hasten.core.machine import machine_facts
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark, remark_from_data
from hasten.core.session import SessionWriter, damage_as_error, read_session
from hasten.core.trial import ORIGINAL, Status, Trial, trial_data, trial_from_data
from hasten.engine.model_file import file_hash
from hasten.practices.profile.view import profile_from_line
from hasten.practices.quantize.facts import Sensitivity
from hasten.search.settings import NAMED_BY, value_if_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hasten.core.machine import Machine
    from hasten.core.profile import Profile
    from hasten.core.session import Line, Session
    from hasten.measure.rounds import Candidate

SESSION: Final = "session.jsonl"
CHOSEN: Final = "chosen.tflite"
# Files are made under this name and then moved: an interruption leaves no half of a model.
_MAKING: Final = ".making.tflite"
_OWN: Final = (SESSION, CHOSEN, _MAKING)
_IN_FULL: Final = "in-full"
# No more room than this is looked for after trouble.
_MOST_ROOM_BYTES: Final = 1 << 26
# What file managers leave behind, beside hidden files.
_LITTER: Final = ("Thumbs.db", "desktop.ini")
# What variants are named: a name becomes that of a file, and of a folder in a cache.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_NOTHING_CHANGED: Final = "Choose a new or empty folder with -o; nothing was changed."


@dataclass(frozen=True, slots=True)
class FolderRules:
    """How a command keeps its folder."""

    command: str
    variants: str
    """The folder for variants; empty for the folder itself."""
    resume_option: str
    """The option that goes on with a session that is there; empty where the same command goes on."""
    refuses_foreign: bool
    """Whether a file that is not of the search is refused when a search goes on."""


QUANTIZE: Final = FolderRules("quantize", "", "", refuses_foreign=True)
TUNE: Final = FolderRules("tune", "variants", "--resume", refuses_foreign=False)


class FolderError(DataError):
    """The folder cannot be written: nothing that is still to come could be saved."""


class SearchFolder:
    """A new or empty folder, or one of an earlier run of the same search; anything else is refused, and left alone."""

    def __init__(
        self, path: Path, rules: FolderRules, settings: Mapping[str, Any], *, resume: bool = False, version: str = ""
    ) -> None:
        self.path, self.rules = path, rules
        self.variants: dict[str, Trial] = {}
        """The variants by name; in `quantize`, with all that is known of them."""
        self.trials: dict[str, Trial] = {}
        """The trials of a race by id: variants with plans."""
        self.sensitivities: list[Sensitivity] = []
        self.notes: dict[Remark, None] = {}
        """What a reader of the result should know, in its order."""
        self.skipped: dict[str, str] = {}
        """Samples that were left out, and why."""
        self.floor: dict[str, Any] = {}
        """What the largest drop means for this metric and data; empty before the original was judged."""
        self._profiles: dict[str, Profile] = {}
        self._in_full: dict[str, tuple[str, Plan, Finding]] = {}
        self.elapsed_s = 0.0
        """What earlier runs of this search took."""
        self._chosen = ""
        self._has_settings = False
        self._session = SessionWriter(path / SESSION, {"hasten": version, "command": rules.command})
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
            # An empty session is what is left of a run that was killed as it began.
            session = path / SESSION
            empty = [SESSION] if session.is_file() and not (session.is_symlink() or session.stat().st_size) else []
            present = sorted(one.name for one in path.iterdir() if one.name not in empty and not _is_litter(one.name))
        except OSError as error:
            raise DataError(f"The folder {path} cannot be used: {error.strerror}.", "Choose another with -o.") from None
        self.resumed = SESSION in present
        try:
            self._open(present, settings, resume=resume)
        except BaseException:
            self._session.close()
            self._lock.release()
            raise

    @property
    def making(self) -> Path:
        """Where a variant is made before it has a name."""
        return self.path / _MAKING

    def place_of(self, variant: str) -> Path:
        """Where a variant's file lies, wherever the folder was before."""
        return self.path / self.rules.variants / f"{variant}.tflite"

    def keep(self, kind: str, label: str, data: dict[str, Any]) -> None:
        """Save something to the session, at once."""
        try:
            self._session.add(kind, label, data)
        except DataError as error:
            raise self.trouble(error.__cause__ if isinstance(error.__cause__, OSError) else error) from error

    def keep_all(self, lines: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Save several lines."""
        for line in lines:
            self.keep(*line)

    def note(self, *notes: Remark) -> None:
        """Save what a reader should know; the same remark is saved once."""
        for told in notes:
            if told not in self.notes:
                self.notes[told] = None
                self.keep("note", "", to_data(told))

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
            self.keep("floor", self.rules.command, floor)

    def save_variant(self, trial: Trial) -> Trial:
        """Save a variant; it takes the place of an earlier line of the same name."""
        self.keep("variant", trial.variant, trial_data(trial))
        self.variants[trial.variant] = trial
        return trial

    def save_trial(self, trial: Trial) -> None:
        """Save a trial of the race; it takes the place of an earlier line with the same id."""
        self.keep("trial", trial.id, trial_data(trial))
        self.trials[trial.id] = trial

    def save_sensitivity(self, found: Sensitivity) -> None:
        """Save what one group of nodes came to."""
        self.keep("sensitivity", found.location, to_data(found))
        self._add_sensitivity(found)

    def save_in_full(self, finding: Finding, about: Candidate) -> None:
        """Save what a practice that ran in full has found about a model and its plan."""
        subject = {"model": about.model.sha256, "plan": to_data(about.plan)}
        self.keep(_IN_FULL, finding.practice, {**to_data(finding), **subject})

    def earlier_profile(self, label: str, of: Candidate) -> Profile | None:
        """The profile of an earlier run of this search, if it is of this model and plan."""
        found = self._profiles.get(label)
        return found if found is not None and (found.model.sha256, found.plan) == (of.model.sha256, of.plan) else None

    def earlier_findings(self, about: Candidate) -> dict[str, Finding]:
        """What practices have found in full in earlier runs of this search about this model and plan."""
        subject = (about.model.sha256, about.plan)
        return {name: finding for name, (model, plan, finding) in self._in_full.items() if (model, plan) == subject}

    def place(self, trial: Trial) -> None:
        """Save a variant whose file has just been made, and give the file its name. The line is first: an unknown file
        would be a foreign one."""
        self.save_variant(trial)
        try:
            Path(trial.path).parent.mkdir(parents=True, exist_ok=True)
            self.making.replace(trial.path)
        except OSError as error:
            raise self.trouble(error) from error

    def has_file_of(self, trial: Trial) -> bool:
        """Whether the variant's file is there, and the same."""
        path = Path(trial.path)
        return bool(trial.path) and path.is_file() and file_hash(path) == trial.sha256

    def forget_file(self, trial: Trial) -> Trial:
        """The variant without its file, which nobody needs. The file goes first: one that no line names is foreign."""
        if not trial.path:
            return trial
        path = Path(trial.path)
        if path.parent == self.path / self.rules.variants:  # a session may name any file of the machine
            path.unlink(missing_ok=True)
        return self.save_variant(replace(trial, path=""))

    def choose(self, trial: Trial) -> None:
        """Make a copy of this model the chosen one, unless it is one already."""
        chosen = self.path / CHOSEN
        try:
            if not chosen.is_file() or trial.sha256 != (self._chosen or file_hash(chosen)):
                shutil.copyfile(trial.path, self.making)
                self.making.replace(chosen)
        except OSError as error:
            raise self.trouble(error) from error
        if self._chosen != trial.sha256:
            self.keep("chosen", trial.variant, {"recipe": trial.variant, "sha256": trial.sha256})
        self._chosen = trial.sha256

    def choose_nothing(self) -> None:
        """Leave no chosen model, as even the original cannot be run."""
        (self.path / CHOSEN).unlink(missing_ok=True)
        self._chosen = ""

    def check_room(self, size_bytes: int) -> None:
        """Raise where a file of this size cannot be written, which makes many things fail in ways of their own."""
        try:
            with self.making.open("ab") as stream:
                stream.write(bytes(min(size_bytes, _MOST_ROOM_BYTES)))
                stream.flush()
                os.fsync(stream.fileno())
            self.making.unlink()
        except OSError as error:
            raise self.trouble(error) from error

    def trouble(self, error: OSError | DataError) -> FolderError:
        """Trouble with the disk as an error that says what to do."""
        reason = error.message if isinstance(error, DataError) else error.strerror or str(error)
        again = f" with {self.rules.resume_option}" if self.rules.resume_option else ""
        return FolderError(
            f"{self.path} cannot be written: {reason.rstrip('.')}. Everything found so far is saved.",
            f"Make room there and run the same command again{again}, or choose another folder with -o.",
        )

    def close(self) -> None:
        """Leave nothing half made, and let others in."""
        self._session.close()
        self.making.unlink(missing_ok=True)
        tried = [*self.trials.values(), *self.variants.values()]
        if not self.resumed and tried and all(trial.status is Status.FAILED for trial in tried):
            # The original did not run. The same command with other options must not meet this as a session.
            (self.path / SESSION).unlink(missing_ok=True)
        self._lock.release()

    def _open(self, present: list[str], settings: Mapping[str, Any], *, resume: bool) -> None:
        option = self.rules.resume_option
        if self.resumed and option and not resume:
            raise UsageError(
                f"{self.path} already holds a session.",
                f"Add {option} to continue it, or choose another folder with -o.",
            )
        if self.resumed:
            _refuse_links(self.path, present)
            session = read_session(self.path / SESSION)
            self._compare_settings(session, settings)
            with damage_as_error(str(self.path / SESSION)):
                self._read(session)
        self._refuse_foreign(present)
        if self.resumed and not (self.path / PLAN_FILE).exists():
            # A model without its plan is what a kill between the two has left of a bundle.
            (self.path / MODEL_FILE).unlink(missing_ok=True)
        try:
            self._session.begin()
        except DataError as error:
            raise DataError(error.message, "Choose another folder with -o.") from error
        if not self._has_settings:
            self.keep("settings", self.rules.command, dict(settings))

    def _compare_settings(self, session: Session, settings: Mapping[str, Any]) -> None:
        if session.header.get("command") != self.rules.command:
            raise UsageError(f"{self.path} holds the session of another command.", "Choose another folder with -o.")
        for line in session.lines:
            if line.kind == "settings" and line.label == self.rules.command:
                self._compare(line.data, settings)
                self._has_settings = True

    def _read(self, session: Session) -> None:
        for line in session.lines:
            if line.kind == "variant":
                self.variants[line.label] = self._variant(line)
            elif line.kind == "trial":
                self.trials[line.label] = trial_from_data(line.data)
                self.elapsed_s = max(self.elapsed_s, self.trials[line.label].elapsed_s)
            elif line.kind == "sensitivity":
                self._add_sensitivity(typed_from_data(Sensitivity, line.data))
            elif line.kind == "note" and not self.rules.resume_option:  # a tuning that goes on looks anew
                self.notes[remark_from_data(line.data)] = None
            elif line.kind == "profile":
                self._profiles[line.label] = profile_from_line(line)
            elif line.kind == _IN_FULL:
                plan = from_data(Plan, line.data["plan"])
                self._in_full[line.label] = (line.data["model"], plan, finding_from_data(line.data))
            elif line.kind == "skipped":
                self.skipped[line.label] = line.data["reason"]
            elif line.kind == "floor":
                self.floor = line.data

    def _add_sensitivity(self, found: Sensitivity) -> None:
        others = [entry for entry in self.sensitivities if (entry.recipe, entry.nodes) != (found.recipe, found.nodes)]
        self.sensitivities = [*others, found]

    def _variant(self, line: Line) -> Trial:
        """A variant with its file in this folder, wherever the folder was before. A session may have been made by
        anybody: it names no place, and the original's file is the one that the command names."""
        trial = trial_from_data(line.data)
        if trial.variant != line.label or not _PLAIN_NAME.fullmatch(line.label):
            raise ValueError(f"a variant is named {trial.variant!r}")
        has_file = trial.path and trial.variant != ORIGINAL
        return replace(trial, path=str(self.place_of(trial.variant)) if has_file else "")

    def _compare(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Refuse to go on where something else is asked for."""
        then, asked = before.get("compared", before), now.get("compared", now)
        if then.get("model", asked.get("model")) != asked.get("model"):
            raise ModelError(
                f"{self.path} was started with another model.",
                "Put the earlier file back, or choose another folder with -o; nothing was changed.",
            )
        for name in {**then, **asked}:
            if name in NAMED_BY:
                continue
            was = then.get(name, value_if_missing(name, asked.get(name)))
            wanted = asked.get(name, value_if_missing(name, was))
            if was != wanted:
                raise UsageError(
                    f"{self.path} holds a search with another {name}: {was}, not {wanted}.",
                    "Choose another folder with -o, or repeat the earlier command.",
                )
        for name, what in NAMED_BY.items():
            self._compare_content(str(asked.get(what, "")), then.get(name), asked.get(name))

    def _compare_content(self, name: str, before: str | None, now: str | None) -> None:
        if now is None or before == now:
            return
        if before is None:
            self.notes[remark("search.content-not-recorded", name=name)] = None
            return
        raise UsageError(
            f"{name} has changed since the search in {self.path} began, so old and new results cannot be compared.",
            "Choose another folder with -o, or restore the earlier data.",
        )

    def _refuse_foreign(self, present: list[str]) -> None:
        """Refuse what no line of the session names, and a variant that somebody has changed."""
        if self.resumed and not self.rules.refuses_foreign:
            return
        made = [trial for trial in self.variants.values() if trial.path and trial.variant != ORIGINAL]
        known = {Path(trial.path).name for trial in made}
        foreign = [name for name in present if not self.resumed or (name not in _OWN and name not in known)]
        names = [Path(trial.path).name for trial in made if not self.has_file_of(trial)]
        changed = [name for name in names if name in present]
        if foreign:
            raise UsageError(f"{self.path} holds {foreign[0]}, which is not part of this search.", _NOTHING_CHANGED)
        if changed:
            raise UsageError(f"{changed[0]} in {self.path} has changed since it was made.", _NOTHING_CHANGED)


class FolderLock:
    """Keeps a second run out of a folder: the system takes it back when its process ends, however that happens."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        try:
            import fcntl
        except ImportError:  # Windows: two runs at once are the user's to avoid
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(
                f"Another run is using {folder}.", "Wait for it to end, or choose another folder with -o."
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others in. Safe to call more than once."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def session_folder(path: Path, command: str, version: str) -> Iterator[tuple[SessionWriter, tuple[Line, ...]]]:
    """A new or empty folder with a session, or that of an earlier run of the same command, whose lines come along."""
    session = path / SESSION
    try:
        path.mkdir(parents=True, exist_ok=True)
        present = sorted(one.name for one in path.iterdir() if not _is_litter(one.name))
        begun = SESSION in present and session.stat().st_size > 0
        lock = FolderLock(path)
    except OSError as error:
        raise DataError(f"The folder {path} cannot be used: {error.strerror}.", "Choose another with -o.") from None
    writer = SessionWriter(session, {"hasten": version, "command": command})
    try:
        if present and SESSION not in present:
            raise UsageError(f"{path} holds {present[0]}, which is not part of a session.", _NOTHING_CHANGED)
        _refuse_links(path, present)
        found = read_session(session) if begun else None
        if found is not None and found.header.get("command") != command:
            raise UsageError(f"{path} holds the session of another command.", "Choose another folder with -o.")
        writer.begin()
        yield writer, () if found is None else found.lines
    finally:
        writer.close()
        lock.release()


def _refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Refuse links, pipes and devices under these names: a folder can come from anybody, and what a search writes to
    its own files would end up elsewhere."""
    for top in (folder / name for name in names):
        for path in (top, *top.rglob("*")):  # which does not follow links
            if path.is_symlink():
                raise DataError(f"{path} is a symbolic link.", _NOTHING_CHANGED)
            if not (path.is_file() or path.is_dir()):
                raise DataError(f"{path} is neither a file nor a folder.", _NOTHING_CHANGED)


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


def _is_litter(name: str) -> bool:
    """Whether a file is of no account: hidden, or left behind by a file manager."""
    return name in _LITTER or (name.startswith(".") and name != _MAKING)
