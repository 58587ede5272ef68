"""The command line as a user has it: a process of its own, on a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import example_models

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
CASES: Final = ROOT.parent / "shared" / "cases"
QUICK: Final = ("--seconds", "0.5")
_ENVIRONMENT: Final = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
_HANG_SECONDS: Final = 100


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command left behind."""

    code: int
    output: str
    errors: str

    def json(self) -> dict[str, Any]:
        """The one document on standard output; anything beside it there is an error."""
        found: dict[str, Any] = json.loads(self.output)
        return found


def hasten(*arguments: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> Finished:
    """Run a command to its end. A traceback is never what a user should see."""
    done = subprocess.run(
        _command(*arguments),
        capture_output=True,
        text=True,
        timeout=_HANG_SECONDS,
        check=False,
        cwd=cwd,
        env={**_ENVIRONMENT, **(environment or {})},
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "bug in hasten" not in done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Begin a command, in a process group of its own as a shell would."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": _ENVIRONMENT, **options}
    return subprocess.Popen(
        _command(*arguments), text=True, start_new_session=True, stdin=subprocess.DEVNULL, **options
    )


def finish(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """What it wrote, once it has ended; if it does not, the test fails and nothing is left running."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def model_file(folder: Path, name: str) -> Path:
    """A sample model by the name of the function that makes it."""
    make: Callable[[], bytes] = getattr(example_models, name)
    path = folder / f"{name}.tflite"
    path.write_bytes(make())
    return path


def wait_for_runners(process: subprocess.Popen[str], count: int) -> list[int]:
    """Wait until so many runners have been started one after the other; the last one is at work then."""
    seen: list[int] = []
    deadline = time.monotonic() + _HANG_SECONDS
    while len(seen) < count:
        assert time.monotonic() < deadline, f"only {len(seen)} runners were started"
        assert process.poll() is None, f"it ended with {process.returncode} before it had started {count} runners"
        seen += [pid for pid in _runners_of(process.pid) if pid not in seen]
    return seen


def is_runner(pid: int) -> bool:
    """Whether this process is a runner that is still there; before its start it bears the name of its parent."""
    try:
        return b"hasten.runner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    """Wait for the end of these runners: one that was only starting notices a little later that its parent has gone."""
    deadline = time.monotonic() + 10
    while any(is_runner(pid) for pid in pids):
        assert time.monotonic() < deadline, "a runner was left behind"


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C: the terminal sends the signal to the whole group."""
    os.killpg(process.pid, signal.SIGINT)


def _command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "hasten", *map(str, arguments)]


def _runners_of(parent: int) -> list[int]:
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in children if is_runner(int(pid))]
