"""Writing files that a user asked for, without ever taking away one that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.errors import DataError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def refuse_existing(*paths: Path | None, force: bool) -> None:
    """Say before long work that its result could not be written."""
    for path in paths:
        if path is not None and path.exists() and not force:
            raise UsageError(f"{path} exists already", "Choose another name, or add --force to replace it.")
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", "Make it first.")


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file; an existing one only with --force."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already", "Choose another name, or add --force to replace it.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
