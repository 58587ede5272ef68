"""A transport to a device that is a folder of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.targets.link import Program

if TYPE_CHECKING:
    from collections.abc import Mapping


class FolderTransport:
    """A folder of this machine as a device: another working folder and environment, and another Python if asked for."""

    def __init__(self, folder: Path, python: str, environment: Mapping[str, str]) -> None:
        self._folder, self._python, self._environment = folder, python, environment

    def has(self, name: str) -> bool:
        """Whether the folder has this file."""
        return (self._folder / name).is_file()

    def put(self, content: bytes | Path, name: str, digest: str) -> None:
        """Copy the file, then move it to its name."""
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.{os.getpid()}.part")
        try:
            if isinstance(content, Path):
                shutil.copyfile(content, part)
            else:
                part.write_bytes(content)
            assert hashlib.sha256(part.read_bytes()).hexdigest() == digest
            part.replace(place)
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def remove(self, name: str) -> None:
        """Remove the file."""
        (self._folder / name).unlink(missing_ok=True)

    def program(self, arguments: tuple[str, ...], name: str) -> Program:
        """The Python itself, in the folder; it takes nothing from the environment or the user's own packages."""
        return Program((self._python, "-I", *arguments), name, False, self._environment, self._folder)

    def close(self) -> None:
        """Nothing is open."""
