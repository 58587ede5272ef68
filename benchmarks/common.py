"""What the benchmarks share: models of a known size, the command line as a user calls it, and where results go."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hasten.targets.local import LocalTarget

RESULTS = Path(__file__).parent / "results"


def hasten(*arguments: str) -> dict[str, Any]:
    """Run a hasten command with --json, in a process of its own, and return what it printed."""
    command = [sys.executable, "-m", "hasten", *arguments, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"{command} ended with {finished.returncode}: {finished.stderr}")
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def record(name: str, figures: dict[str, Any], *, passed: bool) -> int:
    """Print the figures, keep them with the machine that they came from, and return an exit code."""
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
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    for key, value in figures.items():
        print(f"  {key}: {value}")
    print(f"{name}: {'reached' if passed else 'MISSED'}")
    return 0 if passed else 1


def spread(values: list[float]) -> float:
    """How far apart the values are: largest over smallest, less one."""
    return max(values) / min(values) - 1
