"""The guide's "Create your own delegate": a small, complete one to start from."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

FILES: Final = ("delegate.c", "delegate_interface.h", "CMakeLists.txt", "README.md")


def write_delegate(folder: Path) -> list[Path]:
    """Write the files into a new or empty folder."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} exists and is not an empty folder.", "Choose another name. Nothing was changed."
            )
        folder.mkdir(parents=True, exist_ok=True)
        template = resources.files("hasten.practices.accelerators") / "delegate_template"
        written = [folder / name for name in FILES]
        for path in written:
            write_whole(path, (template / path.name).read_bytes())
    except OSError as error:
        raise DataError(f"The delegate cannot be written to {folder}: {error.strerror}.") from error
    return written
