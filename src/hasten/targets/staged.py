"""A device that shares nothing with the host: files are copied to it by their hash, and a command runs there.

All that such a device must have is a Python with LiteRT. The runner's own code (`core`, `engine`, `runner`: pure
Python) travels as one zip archive, staged like any other file, so that both sides are always of one version. What
reaches the device is a `Transport` (`targets.ssh` has one); everything on the device lies in one folder, the runner's
working folder: `files/SHA256/NAME`, and `samples/SHA256` for those of a session's evaluations.
"""

from __future__ import annotations

import functools
import hashlib
import io
import shlex
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from hasten.core.errors import HastenError
from hasten.core.failure import NO_ROOM, Failure, RunnerFailed, failure_from_error
from hasten.core.plan import Plan
from hasten.core.units import size
from hasten.engine.model_file import check_model_file, file_hash
from hasten.runner.agent import SAMPLES
from hasten.targets.background_load import NAME, ProcessLoad, load_arguments
from hasten.targets.base import Capabilities, Limits, with_connection
from hasten.targets.client import RunnerClient, runner_arguments
from hasten.targets.link import ProcessLink
from hasten.targets.sent_samples import SentSamples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.machine import Machine
    from hasten.targets.link import Program

_FILES: Final = "files"
_PACKAGES: Final = ("core", "engine", "runner")
_LOAD: Final = "background_load"
_SETTLED_SECONDS: Final = 2.0
_MOST_BYTES_KEPT: Final = 1 << 30
_FEWEST_KEPT: Final = 16
# The archive unpacks itself beside its place once: Python keeps compiled modules in a folder, not in an archive, and to
# compile them takes longer than all else that a runner does at its start. Where that fails, it runs as it is. The first
# argument chooses the program, as `python archive.zip` has no -m.
_MAIN: Final = f"""\
import os
import sys

archive = os.path.abspath(sys.path[0])
folder = archive + ".d"
if not os.path.isdir(folder):
    import shutil
    import zipfile

    part = folder + str(os.getpid())
    try:
        with zipfile.ZipFile(archive) as file:
            file.extractall(part)
        os.rename(part, folder)
    except OSError:  # no room, or another runner was quicker
        shutil.rmtree(part, ignore_errors=True)
sys.path[0] = folder if os.path.isdir(folder) else archive
if sys.argv[1:2] == [{_LOAD!r}]:
    del sys.argv[1]
    from hasten.runner.background_load import main
else:
    from hasten.runner.__main__ import main
main()
"""


class NoRoomError(OSError):
    """The device has too little room for a file."""

    def __init__(self, needed_bytes: int, free_bytes: int) -> None:
        super().__init__("no room")
        self.needed_bytes, self.free_bytes = needed_bytes, free_bytes


class Transport(Protocol):
    """The way to a device. Names are paths relative to hasten's folder there.

    An OSError says what failed with a file; a connection that fails comes out as RunnerFailed.
    """

    def has(self, name: str) -> bool:
        """Whether the device has this file."""

    def put(self, content: bytes | Path, name: str, digest: str) -> None:
        """Write a file with this SHA-256 there, whole or not at all, with the folders above it."""

    def remove(self, name: str) -> None:
        """Remove a file there; nothing if there is none."""

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
        self._there: dict[str, int] = {}
        """What was staged in this session, with its size; the one used last comes last."""
        self._digests: dict[tuple[str, int, int], str] = {}
        self._sent = SentSamples()
        self._lock = threading.RLock()

    def machine(self) -> Machine:
        """What the device's first runner says of it."""
        with self._lock:
            if self._machine is None:
                self._machine = with_connection(self._greet)
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
        kept = ("--store", _FILES, "--samples", SAMPLES)
        arguments = (self._archive(), *kept, *runner_arguments(plan, self._limits.memory_mb))
        link = ProcessLink(self._transport.program(arguments, "runner"))
        return RunnerClient(link, plan, self._limits.answer_seconds, self.stage, self._sent)

    def start_load(self, kind: str, workers: int) -> ProcessLoad:
        """Work on the device, next to its runners."""
        arguments = (self._archive(), _LOAD, *load_arguments(kind, workers))
        return ProcessLoad(self._transport.program(arguments, NAME), self._limits.answer_seconds)

    def close(self) -> None:
        """End the connection. Staged files stay: the next session finds them."""
        self._transport.close()

    def _greet(self) -> Machine:
        with self.start(Plan()) as runner:
            return runner.hello()

    def _archive(self) -> str:
        content = runner_archive()
        try:
            with self._lock:
                return self._put(content, hashlib.sha256(content).hexdigest(), "runner.zip")
        except OSError as error:
            raise RunnerFailed(self._not_copied("start", "hasten's runner", error)) from error

    def _put(self, content: bytes | Path, digest: str, name: str) -> str:
        place = f"{_FILES}/{digest}/{name}"
        byte_count = self._there.pop(place, None)
        if byte_count is None:
            byte_count = len(content) if isinstance(content, bytes) else content.stat().st_size
            if not self._transport.has(place):
                self._transport.put(content, place, digest)
        self._there[place] = byte_count
        self._let_go()
        return place

    def _let_go(self) -> None:
        """Remove what was not used for longest: a search stages hundreds of variants, and memory cards are small."""
        while len(self._there) > _FEWEST_KEPT and sum(self._there.values()) > _MOST_BYTES_KEPT:
            oldest = next(iter(self._there))
            del self._there[oldest]
            self._transport.remove(oldest)

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
        return self._not_copied("load", path.name, error)

    def _not_copied(self, stage: str, what: str, error: OSError) -> Failure:
        if isinstance(error, NoRoomError):
            needed, free = size(error.needed_bytes), size(error.free_bytes)
            message = f"{what} needs {needed} on {self.name}, which has {free} left for it."
            hint = f"Free space there, for example with hasten devices {shlex.quote(self.name)} --clean."
            return Failure(stage, "target", message, hint, code=NO_ROOM)
        message = f"{what} cannot be copied to {self.name}: {error}."
        return Failure(stage, "target", message, "Check the connection and the space on the device.")


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
