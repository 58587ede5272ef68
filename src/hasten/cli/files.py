"""Writing files that a user asked for, without ever replacing an existing one unasked."""

from __future__ import annotations

import os
from pathlib import Path

from hasten.core.errors import DataError, UsageError


def is_there(path: Path) -> bool:
    """Whether something has this name; no for a name that the system cannot even look up."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def refuse_existing(*paths: Path | None, force: bool, model: str) -> None:
    """Say before long work that its result could not be written, or would take the place of the model."""
    given = [path for path in paths if path is not None]
    for path in given:
        if given.count(path) > 1:
            raise UsageError(f"{path} is named for two results.", "Give each a name of its own.")
        _refuse(path, force=force, model=Path(model))


def _refuse(path: Path, *, force: bool, model: Path) -> None:
    if is_there(path):
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", "Give the name of a file.")
        if is_there(model) and path.samefile(model):
            raise UsageError(f"{path} is the model itself.", "Choose another name for the result.")
        if not force:
            raise UsageError(f"{path} already exists.", "Choose another name, or add --force to replace it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", "Create it first, or choose another one.")
    if not os.access(path if is_there(path) else path.parent, os.W_OK):
        raise DataError(f"{path} cannot be written: permission denied.", "Choose another folder.")


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file; an existing one only with --force."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{path} already exists.", "Choose another name, or add --force to replace it.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error
