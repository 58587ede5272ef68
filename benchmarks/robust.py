"""Robust: 2,000 damaged model files, and files that are no models, through the whole of `hasten bench`.

Wanted: none ends in a traceback or a hang. Each either runs (the damage was harmless: exit code 0), or is refused with
exit code 3 and a sentence that names it and the cause. Every 50th goes through a process of its own. None in 2,000
means less than one in 650, with 95 % confidence.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common import record
from benchmarks.damage import Base, bases, damaged
from hasten.cli.main import main as hasten_main

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPTIONS: Final = ("--seconds", "0.1", "--time-limit", "10", "--memory-limit", "2048")
_COUNT: Final = 2000
_WORKERS: Final = 2
_PROCESS_EVERY: Final = 50
# A bench may start more than one runner, and each may take its time limit; nothing else may take as long as this.
_HANG_SECONDS: Final = 60
_NOBODY: Final = 65534
_EDGE: Final = Path(__file__).resolve().parents[2] / "shared" / "cases" / "edge"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a user would have seen."""

    label: str
    file: str
    code: int
    output: str
    errors: str
    seconds: float

    @property
    def sentence(self) -> str:
        """The first line of the complaint."""
        return self.errors.partition("\n")[0]

    def problem(self) -> str:
        """What is wrong with how this ended; empty if nothing is."""
        if "Traceback" in self.output + self.errors:
            return "a traceback"
        if self.seconds > _HANG_SECONDS:
            return "a hang"
        if self.code == 0:
            return "" if "median_ms" in self.output else "no result"
        if self.code != 3:
            return f"exit code {self.code}"
        if self.file not in self.sentence:
            return "a sentence that does not name the file"
        return ""


class _Hang(BaseException):
    """Not an Exception, so that nothing on the way takes it for one of its own."""


def run_here(label: str, path: Path) -> Outcome:
    """`hasten bench` in this process; the model itself still runs in a runner's process."""
    output, errors = io.StringIO(), io.StringIO()
    begin = time.monotonic()
    signal.signal(signal.SIGALRM, _raise_hang)
    signal.alarm(2 * _HANG_SECONDS)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = hasten_main(["bench", str(path), *_OPTIONS, "--json"])
    except _Hang:
        code = -1
    finally:
        signal.alarm(0)
    return Outcome(label, path.name, code, output.getvalue(), errors.getvalue(), time.monotonic() - begin)


def run_process(label: str, path: Path) -> Outcome:
    """`hasten bench` as a user calls it."""
    command = [sys.executable, "-m", "hasten", "bench", str(path), *_OPTIONS, "--json"]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=2 * _HANG_SECONDS, check=False
        )
        code, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, output, errors = -1, "", ""
    return Outcome(label, path.name, code, output, errors, time.monotonic() - begin)


def run_number(number: int) -> Outcome:
    """The damaged file with this number."""
    kind, data = damaged(number, _bases())
    with tempfile.TemporaryDirectory(prefix="hasten-robust-") as folder:
        path = Path(folder) / f"damaged_{number}.tflite"
        path.write_bytes(data)
        run = run_process if number % _PROCESS_EVERY == 0 else run_here
        return run(f"{number}: {kind}", path)


def no_models(folder: Path) -> Iterator[Outcome]:
    """Everything else that a path may lead to."""
    text, empty, packed, pipe, locked = (
        folder / f"{name}.tflite" for name in ("text", "empty", "zip", "fifo", "locked")
    )
    text.write_text("This is not a model.\n")
    empty.touch()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("model.tflite", b"nothing")
    os.mkfifo(pipe)
    (folder / "folder.tflite").mkdir()
    (folder / "loop.tflite").symlink_to(folder / "loop.tflite")
    names = ("text", "empty", "zip", "fifo", "folder", "loop", "missing")
    for path in (*(folder / f"{name}.tflite" for name in names), Path("/dev/null")):
        yield run_process(path.stem, path)
    locked.write_bytes(_bases()[1].data)
    locked.chmod(0)
    yield _run_without_permission(locked, imported_by=text)
    for path in sorted(_EDGE.glob("*.tflite")):
        yield run_process(path.stem, path)


def _run_without_permission(path: Path, *, imported_by: Path) -> Outcome:
    """Root may read everything, so it becomes nobody; first all modules are imported, which nobody may not read."""
    if os.geteuid() != 0:
        return run_process("no permission to read", path)
    run_here("imports", imported_by)
    os.seteuid(_NOBODY)
    try:
        return run_here("no permission to read", path)
    finally:
        os.seteuid(0)


def main() -> int:
    """Run all of them and count how they ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robust", description=__doc__)
    parser.add_argument("--count", type=int, default=_COUNT, help="damaged files (default: %(default)s)")
    parser.add_argument("--only", type=int, metavar="N", help="run file number N alone and show what a user sees")
    arguments = parser.parse_args()
    if arguments.only is not None:
        outcome = run_number(arguments.only)
        print(f"{outcome.label}: exit code {outcome.code}\n{outcome.output}{outcome.errors}{outcome.problem()}")
        return bool(outcome.problem())
    outcomes = list(_damaged_outcomes(arguments.count))
    with tempfile.TemporaryDirectory(prefix="hasten-robust-") as folder:
        Path(folder).chmod(0o755)  # another user has to get as far as the file that it may not read
        others = list(no_models(Path(folder)))
    figures = _figures(outcomes, others)
    return record("robust", figures, passed=not figures["problems"], whole=arguments.count >= _COUNT)


def _damaged_outcomes(count: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(_WORKERS, mp_context=context) as pool:
        for done, outcome in enumerate(pool.map(run_number, range(count)), start=1):
            if problem := outcome.problem():
                print(f"{outcome.label}: {problem}: exit code {outcome.code}, {outcome.errors[:500]}", flush=True)
            if done % 100 == 0:
                print(f"{done} of {count}", flush=True)
            yield outcome


def _figures(outcomes: list[Outcome], others: list[Outcome]) -> dict[str, Any]:
    everything = [*outcomes, *others]
    return {
        "damaged_files": len(outcomes),
        "harmless_and_ran": sum(outcome.code == 0 for outcome in outcomes),
        "refused": sum(outcome.code == 3 for outcome in outcomes),
        "causes": dict(collections.Counter(_cause(outcome) for outcome in outcomes if outcome.code == 3).most_common()),
        "other_files": {outcome.label: outcome.code for outcome in others},
        "tracebacks": sum("Traceback" in outcome.output + outcome.errors for outcome in everything),
        "hangs": sum(outcome.seconds > _HANG_SECONDS for outcome in everything),
        "longest_seconds": round(max(outcome.seconds for outcome in everything), 1),
        "problems": [f"{outcome.label}: {outcome.problem()}" for outcome in everything if outcome.problem()],
    }


def _cause(outcome: Outcome) -> str:
    """The kind of complaint, without what is special to this file."""
    words = {
        "is damaged": "damaged, found by the reader",
        "not a TensorFlow Lite model": "no model",
        "is empty": "empty",
        "crashed": "native code crashed, contained by the runner",
        "did not answer": "no answer in time, stopped",
        "memory": "out of memory, contained by the runner",
    }
    return next((meaning for word, meaning in words.items() if word in outcome.sentence), "refused by the engine")


def _raise_hang(*_: object) -> None:
    raise _Hang


@functools.cache
def _bases() -> list[Base]:
    return bases()


if __name__ == "__main__":
    sys.exit(main())
