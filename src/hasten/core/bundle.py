"""The bundle: a folder with a model and `plan.json`, which says how to run it; what `tune` makes and `Runner` loads.

Format 1, the first. A bundle travels, so its plan is read as a stranger's: every type is checked, the model lies inside
the folder and has the hash that it had.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from hasten.core.bundle_record import FORMAT, MALFORMED, MARK, MODEL_FILE, Bundle, BundleTensor, bundle_from_data
from hasten.core.errors import DataError, HastenError, ModelError, UsageError
from hasten.core.plan import Plan, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = [
    "MODEL_FILE",
    "PLAN_FILE",
    "SESSION_FILE",
    "Bundle",
    "BundleTensor",
    "is_bundle",
    "read_bundle",
    "refuse_foreign_folder",
    "write_bundle",
]

PLAN_FILE: Final = "plan.json"
SESSION_FILE: Final = "session.jsonl"
_SESSION_MARK: Final = b'"hasten_session"'
_MOST_BYTES: Final = 64 * 1024 * 1024
_HINT: Final = "Make the bundle again, or copy it again from where it came."


def is_bundle(path: Path) -> bool:
    """Whether this is a folder with a plan.json; what may be wrong with that is `read_bundle`'s to say."""
    try:
        return (path / PLAN_FILE).is_file()
    except (OSError, ValueError):
        return False


def read_bundle(folder: Path) -> Bundle:
    """A bundle whose every part was checked; DataError or ModelError says what is wrong with it."""
    path = folder / PLAN_FILE
    data = _read_json(path)
    if data.get(MARK) != FORMAT:
        found = data.get(MARK)
        if type(found) is int and found > FORMAT:
            raise DataError(
                f"{path} is a bundle of format {found}; this hasten knows format {FORMAT}", "Update hasten."
            )
        raise DataError(f"{path} is not a bundle's plan", _HINT)
    try:
        bundle = bundle_from_data(folder, data)
    except MALFORMED as error:
        hint = error.hint if isinstance(error, HastenError) else ""
        raise DataError(f"{path} is damaged: {_reason(error)}", hint or _HINT) from error
    _check_model(bundle)
    return bundle


def write_bundle(
    folder: Path,
    model: Path,
    plan: Plan,
    workload: Workload = Workload(),
    *,
    inputs: Iterable[BundleTensor] = (),
    outputs: Iterable[BundleTensor] = (),
    preprocess: str = "",
    label_offset: int = 0,
    labels: Iterable[str] = (),
    measured: Mapping[str, Any] | None = None,
) -> Bundle:
    """Make a bundle of a model, or put a better one in the place of an older; a folder with anything else is refused.

    Each file appears whole or not at all; a reader that comes between the two of them sees that they do not belong
    together.
    """
    refuse_foreign_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new_model, new_plan = folder / f".{MODEL_FILE}.new", folder / f".{PLAN_FILE}.new"
        shutil.copyfile(model, new_model)
        bundle = Bundle(
            folder,
            MODEL_FILE,
            _sha256(new_model),
            plan,
            workload,
            tuple(inputs),
            tuple(outputs),
            preprocess,
            label_offset,
            tuple(labels),
            measured or {},
        )
        text = json.dumps(bundle.as_data(), indent=2, allow_nan=False)
        with new_plan.open("w", encoding="utf-8") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        new_model.replace(folder / MODEL_FILE)
        new_plan.replace(folder / PLAN_FILE)
    except OSError as error:
        for left in (folder / f".{MODEL_FILE}.new", folder / f".{PLAN_FILE}.new"):
            with contextlib.suppress(OSError):
                left.unlink(missing_ok=True)
        raise DataError(
            f"the bundle in {folder} cannot be written: {error.strerror}", "Choose another place."
        ) from error
    return bundle


def refuse_foreign_folder(folder: Path) -> None:
    """A bundle goes into a new or empty folder, over an older bundle, or beside the session that led to it."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not folder.is_dir():
            raise UsageError(f"{folder} is a file", "Give the name of a folder for the bundle.")
        if (folder / PLAN_FILE).exists():
            ours = _read_json(folder / PLAN_FILE).get(MARK) is not None
        else:
            with (folder / SESSION_FILE).open("rb") as stream:
                ours = _SESSION_MARK in stream.readline(1 << 20) and not (folder / MODEL_FILE).exists()
    except FileNotFoundError:
        ours = False
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    except DataError:
        ours = False
    if not ours:
        raise UsageError(f"{folder} holds other things than a bundle", "Choose another folder; nothing was changed.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise DataError(f"there is no bundle at {path.parent}: it has no {PLAN_FILE}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} is too large for a plan", _HINT)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: it is not JSON, or ends too early", _HINT) from error
    if not isinstance(data, dict):
        raise DataError(f"{path} is not a bundle's plan", _HINT)
    return data


def _check_model(bundle: Bundle) -> None:
    path = bundle.model_path
    try:
        found = _sha256(path)
    except FileNotFoundError:
        raise ModelError(f"the bundle's model {path} is missing", _HINT) from None
    except OSError as error:
        raise ModelError(f"the bundle's model {path} cannot be read: {error.strerror}", _HINT) from error
    if found != bundle.sha256:
        raise ModelError(
            f"{path} is not the model that this bundle was made of: its SHA-256 begins with {found[:12]}, "
            f"not with {bundle.sha256[:12]}",
            _HINT,
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
