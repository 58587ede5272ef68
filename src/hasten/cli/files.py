"""Writing files that a user asked for, without ever replacing an existing one unasked."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hasten.cli.unsaved import UNSAVED
from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_there(path: Path) -> bool:
    """Whether something has this name; no for a name that the system cannot even look up."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def refuse_existing(*paths: Path | None, force: bool | None, model: str) -> None:
    """Say before long work that its result could not be written, or would take the place of the model.

    `force` of None: the command has no such option.
    """
    given = [path for path in paths if path is not None]
    for path in given:
        if given.count(path) > 1:
            raise UsageError(f"{path} is named for two results.", "Give each a name of its own.")
        _refuse(path, force=force, model=Path(model))


def _refuse(path: Path, *, force: bool | None, model: Path) -> None:
    if is_there(path):
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", "Give the name of a file.")
        if is_there(model) and path.samefile(model):
            raise UsageError(f"{path} is the model itself.", "Choose another name for the result.")
        if not force:
            hint = "Choose another name." if force is None else "Choose another name, or add --force to replace it."
            raise UsageError(f"{path} already exists.", hint)
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", "Create it first, or choose another one.")
    # Files are written beside their place and renamed, devices are not.
    renamed = path.is_file() or not is_there(path)
    if not (os.access(path.resolve().parent, os.W_OK) if renamed else os.access(path, os.W_OK)):
        reason = _refusal(path.resolve().parent) if renamed else os.strerror(errno.EACCES)
        raise DataError(f"{path} cannot be written: {reason}.", "Choose another folder.")


def _refusal(folder: Path) -> str:
    """Why the system lets no file be made here, in its own words: `os.access` does not tell."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return os.strerror(errno.EACCES)
    except OSError as error:
        return error.strerror or str(error)


def make_folder(path: Path) -> None:
    """Create a folder for results, or use the one that is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {path} cannot be used: {error.strerror}.", "Choose another with -o.") from None


def write_new(path: Path, content: str | bytes, *, force: bool) -> None:
    """Write a file; an existing one only with --force."""
    with new_file(path, force=force) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def write_beside(path: Path, content: str | bytes, *, force: bool) -> bool:
    """Write a file that accompanies a result, and tell whether it was written; trouble is told after the result."""
    try:
        write_new(path, content, force=force)
    except HastenError as error:
        UNSAVED.add(error)
        return False
    return True


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A stream whose content becomes the file at its end; trouble is an error that names the file."""
    try:
        with whole_file(path, replace=force) as stream:
            yield stream
    except FileExistsError:
        raise UsageError(f"{path} already exists.", "Choose another name, or add --force to replace it.") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}.", "Make room there, or choose another folder."
        ) from error
