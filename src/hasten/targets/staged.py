"""A device that shares nothing with the host: files are copied to it by their hash, and a command runs there.

All that such a device must have is a Python with LiteRT. The runner's own code (`core`, `engine`, `runner`: pure
Python) travels as one zip archive, staged like any other file, so that both sides are always of one version. What
reaches the device is a `Transport`; everything on the device lies in one folder, the runner's working folder:
`files/SHA256/NAME`.

For a transport through ssh: the lifeline of `runner.serving` does not cross it, so a runner notices a lost connection
between two requests only, and a command that outlives its connection must be ended there.
"""

from __future__ import annotations

import functools
import hashlib
import io
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from hasten.core.errors import HastenError
from hasten.core.failure import Failure, RunnerFailed, failure_from_error
from hasten.core.plan import Plan
from hasten.engine.model_file import check_model_file, file_hash
from hasten.targets.background_load import NAME, ProcessLoad, load_arguments
from hasten.targets.base import Capabilities, Limits
from hasten.targets.client import RunnerClient, runner_arguments
from hasten.targets.link import ProcessLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.machine import Machine
    from hasten.targets.link import Program

_FILES: Final = "files"
_PACKAGES: Final = ("core", "engine", "runner")
_LOAD: Final = "background_load"
_SETTLED_SECONDS: Final = 2.0
# The archive's first argument chooses the program, as `python archive.zip` has no -m.
_MAIN: Final = f"""\
import sys
if sys.argv[1:2] == [{_LOAD!r}]:
    del sys.argv[1]
    from hasten.runner.background_load import main
else:
    from hasten.runner.__main__ import main
main()
"""


class Transport(Protocol):
    """The way to a device. Names are paths relative to hasten's folder there; an OSError says what failed."""

    def has(self, name: str) -> bool:
        """Whether the device has this file."""

    def put(self, content: bytes | Path, name: str) -> None:
        """Write a file there, whole or not at all, with the folders above it."""

    def program(self, arguments: tuple[str, ...], name: str) -> Program:
        """A command of this machine that runs the device's Python with these arguments, in hasten's folder."""

    def close(self) -> None:
        """End the connection."""


class StagedTarget:
    """Runs models on a device behind a transport."""

    capabilities: Final = Capabilities(host_paths=False, shared_memory=False)

    def __init__(self, name: str, transport: Transport, limits: Limits | None = None) -> None:
        self.name = name
        self._transport, self._limits = transport, limits or Limits()
        self._machine: Machine | None = None
        self._there: set[str] = set()
        self._digests: dict[tuple[str, int, int], str] = {}
        self._lock = threading.RLock()

    def machine(self) -> Machine:
        """What the device's first runner says of it."""
        with self._lock:
            if self._machine is None:
                with self.start(Plan()) as runner:
                    self._machine = runner.hello()
            return self._machine

    def stage(self, path: Path) -> str:
        """Copy a file, unless the device has this content under this name."""
        try:
            with self._lock:
                return self._put(path, self._digest(path), path.name)
        except OSError as error:
            raise RunnerFailed(self._not_staged(path, error)) from error

    def start(self, plan: Plan) -> RunnerClient:
        """A fresh runner on the device."""
        arguments = (self._archive(), "--store", _FILES, *runner_arguments(plan, self._limits.memory_mb))
        link = ProcessLink(self._transport.program(("-I", *arguments), "runner"))
        return RunnerClient(link, plan, self._limits.answer_seconds, self.stage)

    def start_load(self, kind: str, workers: int) -> ProcessLoad:
        """Work on the device, next to its runners."""
        arguments = (self._archive(), _LOAD, *load_arguments(kind, workers))
        return ProcessLoad(self._transport.program(("-I", *arguments), NAME), self._limits.answer_seconds)

    def close(self) -> None:
        """End the connection. Staged files stay: the next session finds them."""
        self._transport.close()

    def _archive(self) -> str:
        content = runner_archive()
        try:
            with self._lock:
                return self._put(content, hashlib.sha256(content).hexdigest(), "runner.zip")
        except OSError as error:
            message = f"hasten's runner cannot be copied to {self.name}: {error}."
            raise RunnerFailed(Failure("start", "target", message, "Check the connection.")) from error

    def _put(self, content: bytes | Path, digest: str, name: str) -> str:
        place = f"{_FILES}/{digest}/{name}"
        if place not in self._there:
            if not self._transport.has(place):
                self._transport.put(content, place)
            self._there.add(place)
        return place

    def _digest(self, path: Path) -> str:
        """The SHA-256 of a file, remembered until the file changes."""
        status = path.stat()
        key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
        if key in self._digests:
            return self._digests[key]
        digest = file_hash(path)
        # Clocks of file systems are coarse: a file that was just written could change again and look the same.
        if time.time() - status.st_mtime > _SETTLED_SECONDS:
            self._digests[key] = digest
        return digest

    def _not_staged(self, path: Path, error: OSError) -> Failure:
        """What is wrong with the file, if it is the file: the runner would say the same of one on its own machine."""
        try:
            check_model_file(path)
        except HastenError as wrong:
            return failure_from_error(wrong, "load")
        message = f"{path.name} cannot be copied to {self.name}: {error}."
        return Failure("load", "target", message, "Check the connection and the space on the device.")


@functools.cache
def runner_archive() -> bytes:
    """The runner as a zip archive that Python can run; the same bytes for the same code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (("__main__.py", _MAIN.encode()), ("hasten/__init__.py", b""), *_sources()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    root = Path(__file__).parents[1]
    for package in _PACKAGES:
        for path in sorted((root / package).glob("*.py")):
            yield f"hasten/{package}/{path.name}", path.read_bytes()
