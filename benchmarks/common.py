"""What the benchmarks share: the command line as a user calls it, where results go, and which run they are of."""

from __future__ import annotations

import atexit
import datetime
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from hasten.targets.local import LocalTarget

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
# What the benchmarks and the README's generators write themselves is no change of the code.
_WRITTEN: Final = (":!benchmarks/results", ":!README.md", ":!docs/report.png")
# Each benchmark is a process of its own that imports this first.
_BEGIN: Final = time.monotonic()
_LOAD_AT_START: Final = os.getloadavg()[0]


def hasten(*arguments: str) -> dict[str, Any]:
    """Run a hasten command with --json, in a process of its own, and return what it printed."""
    command = [sys.executable, "-m", "hasten", *arguments, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"{command} ended with {finished.returncode}: {finished.stderr}")
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@functools.cache
def code_version() -> str:
    """The commit that is measured; with `+` and a digest where files differ from it."""
    commit = _git("rev-parse", "--short=10", "HEAD").strip()
    changed = _git("diff", "HEAD", "--", ".", *_WRITTEN)
    added = _git("ls-files", "--others", "--exclude-standard", "--", ".", *_WRITTEN)
    if not changed + added:
        return commit
    return f"{commit}+{hashlib.sha256((changed + added).encode()).hexdigest()[:8]}"


def record(name: str, figures: dict[str, Any], *, passed: bool, whole: bool = True) -> int:
    """Print the figures, keep them with the machine and the code that they came from, and return an exit code.

    What is not the whole of a benchmark is not kept: a result is of one run.
    """
    if whole:
        _keep(name, figures, passed)
    for key, value in figures.items():
        print(f"  {key}: {value}")
    print(f"{name}: {'reached' if passed else 'MISSED'}{'' if whole else ' (a part, not kept)'}")
    return 0 if passed else 1


def _keep(name: str, figures: dict[str, Any], passed: bool) -> None:
    described = LocalTarget().machine()
    machine = {key: getattr(described, key) for key in ("cpu", "cores", "memory_mb", "instructions", "hypervisor")}
    now = datetime.datetime.now(datetime.timezone.utc)
    result = {
        "benchmark": name,
        "passed": passed,
        **figures,
        "machine": machine,
        "engine": described.engine,
        "date": f"{now:%Y-%m-%d}",
        "commit": code_version().partition("+")[0],
        "clean": "+" not in code_version(),
        "took_seconds": round(time.monotonic() - _BEGIN),
        "load_at_start": round(_LOAD_AT_START, 2),
    }
    RESULTS.mkdir(exist_ok=True)
    write_whole(RESULTS / f"{name}.json", json.dumps(result, indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file that nobody sees half written."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def own_folder() -> Path:
    """A folder for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="hasten-benchmark-"))
    atexit.register(shutil.rmtree, folder)
    return folder


def spread(values: list[float]) -> float:
    """How far apart the values are: largest over smallest, less one."""
    return max(values) / min(values) - 1


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout
