"""The folder of a bundle: a model and `plan.json`, which says how to run it. `tune` writes it, `Runner` loads it.

Format 1 is the first. A bundle travels, so the reader trusts nothing in it: it checks every type, that files lie inside
the folder, that the model's hash is the one it had, and that no code is loaded unasked (`trust`).
"""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.kernels import with_kernels_in
from hasten.bundle.record import FORMAT, MALFORMED, MARK, MODEL_FILE, Bundle, bundle_data, bundle_from_data
from hasten.bundle.trust import kept_plan, opened_plan
from hasten.core.checks import path_text
from hasten.core.errors import DataError, HastenError, ModelError, UsageError
from hasten.core.regular_file import open_regular
from hasten.core.whole_file import whole_file, write_whole
from hasten.engine.model_file import file_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN_FILE: Final = "plan.json"
SESSION_FILE: Final = "session.jsonl"
_SESSION_MARK: Final = b'"hasten_session"'
_MOST_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = "Create the bundle again with hasten tune, or copy it again from its source."


def is_bundle(path: Path) -> bool:
    """Whether this is a folder with a plan.json; `read_bundle` checks what is in it."""
    try:
        return (path / PLAN_FILE).is_file()
    except (OSError, ValueError):
        return False


def read_bundle(folder: Path, *, trust_bundle: bool = False) -> Bundle:
    """Read a bundle and check every part of it; a DataError or ModelError names what is wrong.

    Its plan may load a delegate or kernel library, or use paths outside its folder, only with `trust_bundle`.
    """
    folder = Path(path_text("folder", folder))
    path = folder / PLAN_FILE
    data = _read_json(path)
    if data.get(MARK) != FORMAT:
        found = data.get(MARK)
        if type(found) is int and found > FORMAT:
            raise DataError(
                f"{path} has bundle format {found}; this release of hasten reads format {FORMAT}.", "Update hasten."
            )
        raise DataError(f"{path} is not the plan of a bundle.", _HINT)
    try:
        bundle = bundle_from_data(folder, data)
    except MALFORMED as error:
        if isinstance(error, HastenError):
            raise DataError(f"{path} is damaged: {error.message}", error.hint or _HINT) from error
        raise DataError(f"{path} is damaged: {error}.", _HINT) from error
    _check_model(bundle)
    return replace(bundle, plan=opened_plan(folder, bundle.plan, is_trusted=trust_bundle))


def write_bundle(model: Path, bundle: Bundle) -> Bundle:
    """Write a model and its plan into `bundle.folder`, over an older bundle if there is one; refuse any other folder.

    Each file appears whole or not at all. A reader that comes between the two sees that they do not belong together.
    """
    folder = bundle.folder
    refuse_foreign_folder(folder)
    new = functools.partial(whole_file, follow_link=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        bundle = replace(bundle, plan=with_kernels_in(folder, bundle.plan))
        with new(folder / PLAN_FILE) as new_plan, new(folder / MODEL_FILE) as new_model:
            with model.open("rb") as source:
                shutil.copyfileobj(source, new_model)
            new_model.flush()
            written = replace(bundle, model_file=MODEL_FILE, sha256=file_hash(Path(new_model.name)))
            kept = bundle_data(replace(written, plan=kept_plan(folder, bundle.plan)))
            new_plan.write(json.dumps(kept, indent=2, allow_nan=False).encode() + b"\n")
            new_plan.flush()  # a disk without room for it must be seen before the model gets its name
    except OSError as error:
        raise DataError(
            f"The bundle in {folder} cannot be written: {error.strerror}.", "Choose another folder."
        ) from error
    return written


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files that accompany a bundle, by their path inside its folder; each appears whole or not at all."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, follow_link=False)


def refuse_foreign_folder(folder: Path) -> None:
    """Accept a new or empty folder, an older bundle, or the folder of the session that led to this one."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not folder.is_dir():
            raise UsageError(f"{folder} is a file, not a folder.", "Name a new folder for the bundle.")
        if (folder / PLAN_FILE).exists():
            ours = _read_json(folder / PLAN_FILE).get(MARK) is not None
        else:
            with open_regular(folder / SESSION_FILE) as stream:
                ours = _SESSION_MARK in stream.readline(1 << 20) and not (folder / MODEL_FILE).exists()
    except FileNotFoundError:
        ours = False
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}.") from error
    except DataError:
        ours = False
    if not ours:
        raise UsageError(f"{folder} contains files that are not part of a bundle.", "Choose a new or empty folder.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise DataError(f"{path.parent} is not a bundle: it has no {PLAN_FILE}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} is too large for a plan.", _HINT)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: it is not complete JSON.", _HINT) from error
    if not isinstance(data, dict):
        raise DataError(f"{path} is not the plan of a bundle.", _HINT)
    return data


def _check_model(bundle: Bundle) -> None:
    path = bundle.model_path
    try:
        found = file_hash(path)
    except FileNotFoundError:
        raise ModelError(f"The bundle's model {path} is missing.", _HINT) from None
    except OSError as error:
        raise ModelError(f"The bundle's model {path} cannot be read: {error.strerror}.", _HINT) from error
    if found != bundle.sha256:
        raise ModelError(
            f"{path} is not the model of this bundle: its SHA-256 begins with {found[:12]}, "
            f"and plan.json says {bundle.sha256[:12]}.",
            _HINT,
        )
