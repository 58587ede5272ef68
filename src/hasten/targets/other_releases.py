"""Other releases of LiteRT on this machine, each in a virtual environment of its own in the cache folder.

The binding of hasten refuses releases that it does not know. Here a small program runs the model by the classic
interpreter of that release, in a process of its own, with a limit on its time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure, RunnerFailed
from hasten.runner import other_release
from hasten.runner.agent import memory_kills
from hasten.runner.serving import LIFELINE
from hasten.targets.exit_cause import cause_of_death
from hasten.targets.link import Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACKAGE: Final = "ai-edge-litert"
_RELEASE: Final = re.compile(r"\d+(\.\d+){1,3}([a-z0-9.+]{0,20})")
_READY: Final = "hasten-ready"
_INSTALL_SECONDS: Final = 900.0
_LOG_LINES: Final = 20
# What would let packages of this Python into another environment.
_OWN: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSTARTUP")


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """What a release made of a model."""

    init_ms: float
    nanoseconds: tuple[int, ...]
    outputs: tuple[tuple[str, str, int | None], ...]
    """Type, bytes (base64) and zero point of each; None where it is not quantized."""


class ReleaseEnvironment:
    """One release of LiteRT. `prepare` installs it once; `run` starts a fresh process each time."""

    def __init__(self, release: str, folder: Path | None = None, seconds: float = 120.0) -> None:
        if not _RELEASE.fullmatch(release):
            raise UsageError(f"{release!r} is no release of LiteRT.", "Give releases such as 2.1.6,2.2.0,2.3.0.")
        self.release = release
        python = f"py{sys.version_info.major}.{sys.version_info.minor}"
        self.folder = (folder or releases_folder()) / f"{release}-{python}"
        self._seconds = seconds

    @property
    def is_ready(self) -> bool:
        """Whether it was installed to the end."""
        return (self.folder / _READY).is_file()

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    def prepare(self) -> Failure | None:
        """Install the release, unless it is there; None where all went well."""
        if self.is_ready:
            return None
        # What an interrupted installation left behind; the folder is hasten's own.
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return Failure(
                "start",
                "target",
                f"{self.folder.parent} cannot be written: {error.strerror}.",
                "Set XDG_CACHE_HOME to a folder of yours.",
                code=NOT_INSTALLED,
            )
        wanted = f"{PACKAGE}=={self.release}"
        steps = (
            (sys.executable, "-I", "-m", "venv", str(self.folder)),
            (
                *(str(self.python), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
                *("--only-binary", ":all:", wanted, "numpy"),
            ),
        )
        for command in steps:
            failure = self._install(command)
            if failure is not None:
                return failure
        (self.folder / _READY).write_text(self.release)
        return None

    def run(self, model: Path, *, threads: int, resolver: str, seconds: float) -> ReleaseAnswer | Failure:
        """Run a model on seeded inputs and time it, in a fresh process."""
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
            answer = Path(folder) / "answer.json"
            request = {
                "model": str(model.resolve()),
                "answer": str(answer),
                "threads": threads,
                "resolver": resolver,
                "seconds": seconds,
                "most": 2000,
                "seed": 0,
            }
            failure = self._ended(
                (str(self.python), "-I", str(Path(other_release.__file__).resolve())),
                json.dumps(request).encode(),
                self._seconds,
                "run",
            )
            if failure is not None:
                return failure
            return _read(answer, self.release)

    def _install(self, command: Sequence[str]) -> Failure | None:
        failure = self._ended(command, b"", _INSTALL_SECONDS, "start")
        if failure is None:
            return None
        return Failure(
            "start",
            "target",
            f"LiteRT {self.release} cannot be installed for this Python.",
            "Check the release, the network and that Python's venv module is installed.",
            failure.log,
            NOT_INSTALLED,
        )

    def _ended(self, command: Sequence[str], given: bytes, seconds: float, stage: str) -> Failure | None:
        """Run a program to its end; the failure, if it did not end well."""
        name = f"program of LiteRT {self.release}"
        environment = {key: value for key, value in os.environ.items() if key not in _OWN}
        before = memory_kills()
        with tempfile.TemporaryFile() as log, _lifeline() as programs_end:
            program, more = Program(tuple(command), name, environment=environment), {LIFELINE: str(programs_end)}
            try:
                process = program.start(log, inherited=(programs_end,), more=more)
            except RunnerFailed as failed:
                return failed.failure
            try:
                process.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                message = f"The {name} did not end within {seconds:g} s and was stopped."
                return Failure(stage, "hang", message, log=_lines(log))
            except BaseException:
                _kill(process)
                raise
            if process.returncode == 0:
                return None
            return cause_of_death(name, stage, process.returncode, _lines(log), before)


def releases_folder() -> Path:
    """Where environments are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hasten" / "releases"


@contextlib.contextmanager
def _lifeline() -> Iterator[int]:
    """A pipe's end for a program, which ends with this process: the system then closes the other one."""
    programs_end, own_end = os.pipe()
    try:
        yield programs_end
    finally:
        os.close(programs_end)
        os.close(own_end)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and whatever it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _lines(log: IO[bytes]) -> tuple[str, ...]:
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return tuple(line.rstrip() for line in lines if line.strip())[-_LOG_LINES:]


def _read(answer: Path, release: str) -> ReleaseAnswer | Failure:
    try:
        data: dict[str, Any] = json.loads(answer.read_text())
        outputs = tuple(
            (str(dtype), str(raw), None if point is None else int(point)) for dtype, raw, point in data["outputs"]
        )
        return ReleaseAnswer(float(data["init_ms"]), tuple(int(value) for value in data["nanoseconds"]), outputs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"The program of LiteRT {release} gave no answer: {type(error).__name__}."
        return Failure("run", "bug", message, "Please report this.")
