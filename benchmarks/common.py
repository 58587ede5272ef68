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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
# What is measured: neither words and tests, nor what the benchmarks write themselves, are a change of it.
_MEASURED: Final = ("src", "benchmarks", "pyproject.toml", ":!benchmarks/results")
_MOST_SHOWN: Final = 2000
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
    """The last commit that changed what is measured; with `+` and a digest where files differ from it."""
    commit = _git("log", "-1", "--abbrev=10", "--format=%h", "--", *_MEASURED).strip()
    changed = _git("diff", "HEAD", "--", *_MEASURED)
    added = _git("ls-files", "--others", "--exclude-standard", "--", *_MEASURED)
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
        shown = str(value)
        print(f"  {key}: {shown if len(shown) <= _MOST_SHOWN else f'{shown[:_MOST_SHOWN]} …'}")
    print(f"{name}: {'reached' if passed else 'MISSED'}{'' if whole else ' (a part, not kept)'}")
    return 0 if passed else 1


def _keep(name: str, figures: dict[str, Any], passed: bool) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    result = {
        "benchmark": name,
        "passed": passed,
        **figures,
        "machine": machine(),
        "engine": LocalTarget().machine().engine,
        "date": f"{now:%Y-%m-%d}",
        "commit": code_version().partition("+")[0],
        "clean": "+" not in code_version(),
        "took_seconds": round(time.monotonic() - _BEGIN),
        "load_at_start": round(_LOAD_AT_START, 2),
    }
    RESULTS.mkdir(exist_ok=True)
    write_whole(RESULTS / f"{name}.json", json.dumps(result, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """What a result says of the machine. Parts of one that was run in several sittings say it themselves."""
    described = LocalTarget().machine()
    return {key: getattr(described, key) for key in ("cpu", "cores", "memory_mb", "instructions", "hypervisor")}


def parts_of(path: Path, code: str) -> dict[str, Any]:
    """What an earlier start with the same code has saved there; nothing where other code has."""
    data = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(data["parts"]) if data.get("code") == code and "parts" in data else {}


def save_parts(path: Path, code: str, parts: dict[str, Any]) -> None:
    """Save what is there so far, so that a new start with the same code goes on from it."""
    write_whole(path, json.dumps({"code": code, "parts": parts}, indent=1) + "\n")


@dataclass(slots=True)
class Models:
    """What a benchmark has found of each model with one version of the code, on the disk as soon as it is known.

    The file can be committed: whoever has less time than all models take goes on elsewhere, with the same code.
    """

    benchmark: str
    wanted: tuple[str, ...]
    """The models of the whole benchmark."""
    settings: str = ""
    """What differs from the defaults: such figures are shown, and never the result of the benchmark."""
    found: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def opened(cls, benchmark: str, wanted: Iterable[str], settings: str = "", *, anew: bool = False) -> Models:
        """With what an earlier start has found, unless all is to be found anew."""
        models = cls(benchmark, tuple(wanted), settings)
        models.found = {} if anew else parts_of(models.path, models.code)
        return models

    @property
    def code(self) -> str:
        """What has to be the same for a start to go on."""
        return f"{code_version()} {self.settings}".strip()

    @property
    def path(self) -> Path:
        """Where it is saved."""
        return RESULTS / f"{self.benchmark}{'_trial' if self.settings else ''}_runs.json"

    @property
    def figures(self) -> dict[str, Any]:
        """Those of the models of the benchmark, in its order."""
        return {name: self.found[name] for name in self.wanted if name in self.found}

    @property
    def is_whole(self) -> bool:
        """Whether all models are there."""
        return not self.settings and set(self.found) >= set(self.wanted)

    def examine(self, name: str, examined: Callable[[], dict[str, Any]]) -> None:
        """Find the figures of a model, unless they are there."""
        if name in self.found:
            print(f"{name}: known from an earlier start", flush=True)
            return
        begin = time.monotonic()
        found = examined()
        self.found[name] = {**found, "took_seconds": round(time.monotonic() - begin), "machine": machine()}
        RESULTS.mkdir(exist_ok=True)
        save_parts(self.path, self.code, self.found)

    def record(self, figures: dict[str, Any], *, passed: bool) -> int:
        """Print what there is; keep it, and begin anew the next time, once all models are there."""
        took = sum(entry["took_seconds"] for entry in self.figures.values())
        told = {"models": self.figures, **figures, "models_took_seconds": took}
        code = record(self.benchmark, told, passed=passed, whole=self.is_whole)
        if self.is_whole:
            self.path.unlink(missing_ok=True)
        return code


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
